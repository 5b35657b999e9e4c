"""The monitor: quick to notice, slow to cry wolf, the same however the episodes come."""

import numpy as np
import pytest

from lifesafe.errors import ConfigError, TrialError
from lifesafe.operation import Monitor, MonitorConfig


def lumps(rng: np.random.Generator, mean: float, episodes: int, runs: int) -> np.ndarray:
    """Return costs of 0 or 100 with this mean: far more spread than a test for a mean likes."""
    return 100.0 * (rng.random((runs, episodes, 1)) < mean / 100)


def test_false_alarms_of_the_mean_are_rarer_than_the_level() -> None:
    costs = lumps(np.random.default_rng(0), 20.0, 300, 400)
    config = MonitorConfig(level=0.05, run_length=1e9)
    alarms = sum(Monitor.start([20.0], [100.0], config).update(run).alarm is not None for run in costs)
    assert alarms <= 0.05 * 400 + 2 * np.sqrt(0.05 * 0.95 * 400)


def test_a_cost_far_above_the_limit_is_noticed_soon() -> None:
    costs = lumps(np.random.default_rng(1), 60.0, 60, 100)
    found = [Monitor.start([20.0], [100.0]).update(run).alarm for run in costs]
    assert all(alarm is not None for alarm in found)
    assert np.median([alarm.episode for alarm in found if alarm]) <= 15


def test_drift_after_a_long_safe_time_is_noticed_by_the_detector_before_the_test() -> None:
    quiet, loud = np.zeros((500, 1)), np.full((40, 1), 60.0)
    monitor = Monitor.start([20.0], [100.0]).update(quiet)
    assert monitor.alarm is None
    alarm = monitor.update(loud).alarm
    assert alarm is not None
    assert alarm.rule == "drift"
    assert 500 < alarm.episode <= 515


def test_many_at_once_is_the_same_as_one_by_one() -> None:
    costs = lumps(np.random.default_rng(2), 45.0, 30, 1)[0]
    whole = Monitor.start([20.0], [100.0]).update(costs)
    single = Monitor.start([20.0], [100.0])
    for row in costs:
        single = single.update(row[None])
    assert whole == single
    assert whole.alarm is not None
    assert whole.alarm.mean == pytest.approx(costs[: whole.alarm.episode].mean())


def test_with_several_costs_the_one_that_is_too_high_is_named() -> None:
    costs = np.column_stack([np.zeros(20), np.full(20, 50.0)])
    monitor = Monitor.start([20.0, 10.0], [100.0, 100.0]).update(costs)
    assert monitor.alarm is not None
    assert (monitor.alarm.cost, monitor.alarm.limit) == (1, 10.0)
    assert "cost 2" in str(monitor.alarm)


def test_each_cost_has_its_part_of_the_level() -> None:
    monitor = Monitor.start([20.0, 10.0], [100.0, 100.0], MonitorConfig(level=0.02, run_length=500))
    assert [test.level for test in monitor.tests] == [0.01, 0.01]
    assert [detector.run_length for detector in monitor.detectors] == [1000, 1000]


def test_the_first_alarm_stays() -> None:
    first = Monitor.start([20.0], [100.0]).update(np.full((10, 1), 90.0))
    assert first.alarm is not None
    assert first.update(np.zeros((50, 1))).alarm == first.alarm


def test_what_the_guarantee_needs_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"largest possible cost of an episode for each of 2 costs; got 1"):
        Monitor.start([20.0, 20.0], [100.0])
    with pytest.raises(TrialError, match="Got an episode cost of -1"):
        Monitor.start([20.0], [100.0]).update([[-1.0]])


def test_a_cost_above_its_bound_is_an_alarm_whatever_the_others_say() -> None:
    monitor = Monitor.start([20.0, 20.0], [100.0, 100.0]).update(np.zeros((7, 2)))
    alarm = monitor.update([[0.0, 0.0], [0.0, 101.0], [0.0, 0.0]]).alarm
    assert alarm is not None
    assert (alarm.rule, alarm.cost, alarm.episode, alarm.mean) == ("bound", 1, 9, pytest.approx(101 / 9))
    assert "an episode cost more than cost_bounds says is possible" in str(alarm)


def test_a_bound_is_exceeded_by_more_than_rounding() -> None:
    costliest = sum([0.1] * 200)
    assert costliest > 200 * 0.1
    monitor = Monitor.start([5.0], [200 * 0.1]).update(np.zeros((500, 1)))
    assert monitor.update([[costliest]]).alarm is None
    assert monitor.update([[20.1]]).alarm is not None


@pytest.mark.parametrize("wrong", [{"level": 0.0}, {"level": 1.0}, {"run_length": 1.0}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        MonitorConfig(**wrong)


def test_episodes_with_another_number_of_costs_are_refused() -> None:
    with pytest.raises(TrialError, match=r"watches 1 costs an episode; got an array of shape \(2, 2\)"):
        Monitor.start([20.0], [200.0]).update([[1.0, 2.0], [3.0, 4.0]])
