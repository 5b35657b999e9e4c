"""Evaluation: the same returns in this process and in any number of workers, whatever happens to them."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acting import Drift, Faulty, drift_task, feedback, targets
from lifesafe._random import integer
from lifesafe.errors import ConfigError, EpisodeError, TrialError
from lifesafe.returns import Returns
from lifesafe.systems import Evaluator, evaluate, open_vector, rollout, task
from lifesafe.systems.evaluation import episode_seeds


@dataclass(frozen=True)
class Flaky:
    """Makes a Drift some of whose episodes end their process, each so many times."""

    faults: dict[int, int]  # by the seed of the episode
    marks: Path  # where each fault leaves a file

    def __call__(self) -> Drift:
        return _FlakyDrift(self)


class _FlakyDrift(Drift):
    def __init__(self, flaky: Flaky) -> None:
        self._flaky = flaky

    def step(self, action: np.ndarray) -> Any:
        seed = self.episode_seed or 0
        done = len(list(self._flaky.marks.glob(f"{seed}-*")))
        if self.steps == 0 and done < self._flaky.faults.get(seed, 0):
            (self._flaky.marks / f"{seed}-{done}").touch()
            os._exit(3)
        return super().step(action)


class Slow(Drift):
    """Takes half a second to be made."""

    def __init__(self) -> None:
        time.sleep(0.5)


DRIFT = drift_task()
POLICY = feedback(DRIFT)
TARGET = Returns(30.0, (3.0, 3.0))


def test_episodes_have_the_seeds_they_are_said_to_have() -> None:
    seeds = [integer(5, "evaluate", number) for number in range(4)]
    expected = rollout(POLICY, open_vector(DRIFT, 4), [TARGET] * 4, seeds).returns
    assert evaluate(POLICY, DRIFT, TARGET, 4, seed=5) == expected
    assert evaluate(POLICY, DRIFT, TARGET, 4, seed=6) != expected


def test_several_targets_give_what_each_gives_alone() -> None:
    several = evaluate(POLICY, DRIFT, targets(3), 4)
    assert several == [evaluate(POLICY, DRIFT, target, 4) for target in targets(3)]
    assert len({tuple(returns) for returns in several}) == 3


def test_there_are_20_episodes_unless_said_otherwise() -> None:
    assert len(evaluate(POLICY, DRIFT, TARGET)) == 20


def test_the_number_of_workers_and_rows_changes_nothing() -> None:
    expected = evaluate(POLICY, DRIFT, targets(3), 5)
    for workers, rows in ((0, 2), (1, 4), (2, 3)):
        with Evaluator(POLICY, DRIFT, workers=workers, rows=rows) as evaluator:
            assert evaluator.evaluate(targets(3), 5) == expected
            assert evaluator.evaluate(targets(3), 5) == expected, "an open evaluator has no memory"
            record = evaluator.run(targets(3), [1, 2, 3], record=True)
            assert record.dataset.lengths.tolist() == [outcome.length for outcome in record.outcomes]


def test_fewer_episodes_than_workers_are_fine() -> None:
    assert evaluate(POLICY, DRIFT, TARGET, 1, workers=2) == evaluate(POLICY, DRIFT, TARGET, 1)


def test_a_killed_worker_changes_nothing_but_for_a_warning() -> None:
    hopper = task("HopperVelocity")
    policy, target, killed = feedback(hopper), Returns(1000.0, 10.0), []

    def kill(episodes: int, steps: int) -> None:
        if episodes >= 1 and not killed:
            killed.append(evaluator.pids[0])
            os.kill(killed[0] or 0, signal.SIGKILL)

    expected = evaluate(policy, hopper, target, 40)
    with Evaluator(policy, hopper, workers=2, rows=2) as evaluator:
        with pytest.warns(RuntimeWarning, match=r"1 worker process\(es\) crashed or hung and were replaced"):
            returns = evaluator.evaluate(target, 40, progress=kill)
        assert killed[0] not in evaluator.pids
    assert returns == expected


@pytest.mark.parametrize(("fault", "timeout"), [("hang", 2.0), ("raise", 60.0)])
def test_a_hanging_or_failing_environment_is_run_again(fault: str, timeout: float, tmp_path: Path) -> None:
    seed = integer(0, "evaluate", 2)
    faulty = drift_task(Faulty(fault, seed=seed, mark=str(tmp_path / "mark")))
    with pytest.warns(RuntimeWarning, match="were run again from their seeds"):
        returns = evaluate(POLICY, faulty, TARGET, 3, workers=1, timeout=timeout)
    assert returns == evaluate(POLICY, DRIFT, TARGET, 3)


@pytest.mark.parametrize("faults", [(1, 1, 1), (3, 0, 1)])
def test_faults_of_several_episodes_are_not_added_up(faults: tuple[int, ...], tmp_path: Path) -> None:
    flaky = Flaky(dict(zip(episode_seeds(0, 3), faults, strict=True)), tmp_path)
    with pytest.warns(RuntimeWarning, match=rf"{sum(faults)} worker process\(es\) crashed or hung"):
        returns = evaluate(POLICY, drift_task(flaky), TARGET, 3, workers=1)
    assert returns == evaluate(POLICY, DRIFT, TARGET, 3)
    assert len(list(tmp_path.iterdir())) == sum(faults)


@pytest.mark.parametrize(("episodes", "alone"), [(1, True), (3, False)])
def test_an_episode_is_given_up_after_three_faults_of_its_own(episodes: int, alone: bool, tmp_path: Path) -> None:
    last = episode_seeds(0, episodes)[-1]
    flaky = Flaky({last: 99}, tmp_path)
    with pytest.raises(
        EpisodeError, match=f"lost 3 workers over the episode with seed {last}: it ended with exit code 3"
    ):
        evaluate(POLICY, drift_task(flaky), TARGET, episodes, workers=1)
    assert len(list(tmp_path.iterdir())) == (3 if alone else 4), "in company nobody knows whose fault it was"


def test_time_is_given_for_each_environment_of_a_worker() -> None:
    slow = drift_task(Slow)
    with Evaluator(POLICY, slow, workers=1, timeout=1.0) as evaluator:
        assert evaluator.evaluate(TARGET, 4) == evaluate(POLICY, DRIFT, TARGET, 4)  # a replacement would warn


def test_a_worker_that_hangs_is_told_of_with_what_helps() -> None:
    hanging = drift_task(Faulty("hang", seed=integer(0, "evaluate", 0)))
    words = r"it said nothing for 1 s; .* give a larger timeout, or workers = 0, which waits as long as it takes"
    with pytest.raises(EpisodeError, match=words):
        evaluate(POLICY, hanging, TARGET, 1, workers=1, timeout=1.0)


def test_an_episode_that_always_fails_is_given_up_with_the_reason_and_the_next_call_works() -> None:
    seed = integer(0, "evaluate", 2)
    with Evaluator(POLICY, drift_task(Faulty("raise", seed=seed)), workers=1) as evaluator:
        with pytest.raises(EpisodeError, match=r"lost 3 workers over the episode with(.|\n)*the gripper is stuck"):
            evaluator.evaluate(TARGET, 5)
        assert evaluator.evaluate(TARGET, 2) == evaluate(POLICY, DRIFT, TARGET, 2)


def test_progress_is_told() -> None:
    for workers in (0, 1):
        told: list[tuple[int, int]] = []
        evaluate(POLICY, DRIFT, TARGET, 6, workers=workers, progress=lambda *done, told=told: told.append(done))
        assert told == sorted(told)
        assert told[-1][0] == 6
        assert 6 <= told[-1][1] <= 6 * DRIFT.horizon


@pytest.mark.parametrize("settings", [{"workers": -1}, {"rows": 0}, {"timeout": 0.0}])
def test_impossible_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="needs workers >= 0, rows >= 1 and timeout > 0"):
        Evaluator(POLICY, DRIFT, **settings)


def test_no_episode_and_no_target_are_refused() -> None:
    with pytest.raises(ConfigError, match="Give at least 1 episode; got 0"):
        evaluate(POLICY, DRIFT, TARGET, 0)
    with pytest.raises(ConfigError, match="Got 0 targets"):
        evaluate(POLICY, DRIFT, [])
    with pytest.raises(TrialError, match=r"The target Returns\(.*\) asks for 1 costs, the task has 2"):
        evaluate(POLICY, DRIFT, Returns(1.0, 1.0))


def test_a_closed_evaluator_says_so() -> None:
    evaluator = Evaluator(POLICY, DRIFT)
    evaluator.close()
    evaluator.close()
    with pytest.raises(ConfigError, match="This evaluator is closed; open a new one"):
        evaluator.evaluate(TARGET)
