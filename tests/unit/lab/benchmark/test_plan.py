"""What a suite will cost: the times of its jobs, and how they go on some machines."""

from dataclasses import replace

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.costs import Costs, GradientCost, measured_costs
from lifesafe.lab.benchmark.plan import PARTS, RUN, SCALED, estimates, outlook, places
from lifesafe.lab.benchmark.suite import Grid, SafeSearch, Suite, load_suite
from small_results import ROW

COSTS = Costs(
    source="invented",
    machine="none",
    start=5.0,
    trial=2.0,
    gradients=(
        GradientCost(method="cpq", batch=512, width=256, milliseconds=100.0),
        GradientCost(method="cpq", batch=512, width=64, milliseconds=10.0),
        GradientCost(method="cdt", batch=128, width=128, milliseconds=200.0),
    ),
    environment={"CarCircle": 1.0},
    acting={"cpq": 0.5, "cdt": 3.0},
)


def suite_of(*methods: str, seeds: int = 1, limits: tuple[float, ...] = (20.0, 40.0), **settings: int) -> Suite:
    grid = Grid(tasks=("CarCircle",), methods=methods, limits=limits, seeds=seeds, episodes=10)
    changed = {"cpq": {"steps": 1000, **settings}, "cdt": {"steps": 1000}}
    return Suite("small", grid, changed, search=SafeSearch(episodes=600))


def test_a_job_takes_its_start_its_gradient_steps_and_its_episodes() -> None:
    found = estimates(suite_of("cpq", limits=(20.0,)), COSTS)
    # 1000 steps of 0.1 s; 10 episodes of 300 steps, at 1.5 s for 1000
    assert [(each.seconds, each.basis) for each in found] == [(pytest.approx(5 + 100 + 4.5), PARTS)]


def test_a_search_takes_its_trials_besides_and_both_of_its_rows() -> None:
    without, searched = (estimates(suite_of(method), COSTS)[0] for method in ("cdt", "pls"))
    assert without.seconds == pytest.approx(5 + 200 + 2 * 10 * 0.3 * 4)
    episodes = 2 * (10 + 10 + 600)  # for both limits: at the end with it and without it, and those of the search
    assert searched.seconds == pytest.approx(5 + 200 + 2 * 60 * 2 + episodes * 0.3 * 4)  # ten episodes a trial


def test_settings_that_were_not_measured_are_scaled_from_the_most_similar_and_said_to_be() -> None:
    (wide,) = estimates(suite_of("cpq", limits=(20.0,), batch=1024), COSTS)
    assert (wide.seconds, wide.basis) == (pytest.approx(5 + 200 + 4.5), SCALED)
    (narrow,) = estimates(suite_of("cpq", limits=(20.0,), width=32), COSTS)
    assert narrow.seconds == pytest.approx(5 + 5 + 4.5)


def test_what_was_not_measured_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="method 'ccac' costs was not measured"):
        estimates(suite_of("ccac"), COSTS)
    with pytest.raises(ConfigError, match="task 'CarCircle' costs was not measured"):
        estimates(suite_of("cpq"), replace(COSTS, environment={}))


def test_jobs_that_were_run_say_what_others_like_them_take() -> None:
    suite = suite_of("cpq", "cdt", seeds=2)
    ran = replace(ROW, method="cpq", steps=1000, training_seconds=50.0, seconds=10.0)
    rows = [ran, replace(ran, seed=1, training_seconds=70.0)]
    found = estimates(suite, COSTS, rows)
    assert [(each.job.method, each.basis) for each in found[:3]] == [("cpq", RUN), ("cpq", RUN), ("cdt", PARTS)]
    assert {each.seconds for each in found if each.job.method == "cpq"} == {5 + (60 + 80) / 2}


def test_rows_of_other_budgets_or_half_a_job_say_nothing() -> None:
    half = replace(ROW, method="cdt", limit=20.0, steps=1000)
    other = replace(ROW, method="cpq", steps=999)
    assert {each.basis for each in estimates(suite_of("cpq", "cdt"), COSTS, [half, other])} == {PARTS}


def test_the_training_of_a_job_counts_once_for_all_its_rows() -> None:
    rows = [
        replace(ROW, method=method, limit=limit, steps=1000, training_seconds=100.0, seconds=seconds)
        for limit in (20.0, 40.0)
        for method, seconds in (("pls", 30.0), ("cdt", 1.0))
    ]
    (found,) = estimates(suite_of("pls"), COSTS, rows)
    assert (found.seconds, found.basis) == (5 + 100 + 2 * 31, RUN)


def test_a_search_whose_time_is_not_known_says_nothing() -> None:
    known = [
        replace(ROW, method=method, limit=limit, steps=1000) for limit in (20.0, 40.0) for method in ("pls", "cdt")
    ]
    resumed = [replace(row, seed=1, seconds=None if row.method == "pls" else row.seconds) for row in known]
    assert {each.basis for each in estimates(suite_of("pls"), COSTS, resumed)} == {PARTS}
    assert estimates(suite_of("pls"), COSTS, [*known, *resumed]) == estimates(suite_of("pls"), COSTS, known)


def test_jobs_begin_in_order_as_places_become_free() -> None:
    # Two places: 4 | 3, then 2 after the 3, then 6 after the 4: ends at 10.
    found = outlook([4.0, 3.0, 2.0, 6.0], machines=1, cores=2, places=2)
    assert (found.wall, found.bound) == (pytest.approx(10), 7.5)
    assert found.utilization == pytest.approx(15 / 20)
    assert outlook([4.0, 3.0, 2.0, 6.0], machines=2, cores=1, places=1).wall == pytest.approx(10)


def test_no_schedule_is_faster_than_the_longest_job() -> None:
    found = outlook([1.0, 1.0, 9.0], machines=64, cores=8, places=8)
    assert found.wall == found.bound == 9


def test_more_places_than_cores_share_them_and_fewer_leave_some_idle() -> None:
    shared = outlook([4.0, 4.0], machines=1, cores=1, places=2)
    assert (shared.wall, shared.utilization) == (pytest.approx(8), pytest.approx(1))
    # 1 and 5 share a core until the first ends at 2; the other has 4 left, and the core to itself.
    assert outlook([1.0, 5.0], machines=1, cores=1, places=2).wall == pytest.approx(6)
    idle = outlook([4.0, 4.0], machines=1, cores=2, places=1)
    assert (idle.wall, idle.utilization) == (pytest.approx(8), pytest.approx(0.5))


def test_an_outlook_lies_between_what_is_possible_and_one_job_after_the_other() -> None:
    seconds = [each.seconds for each in estimates(load_suite("paper"), measured_costs())]
    walls = []
    for machines in (1, 2, 7, 100):
        found = outlook(seconds, machines=machines, cores=3, places=3)
        assert found.bound <= found.wall * (1 + 1e-9)
        assert found.wall <= sum(seconds) / (3 * machines) + max(seconds)  # what holds for any list
        walls.append(found.wall)
    assert walls == sorted(walls, reverse=True)


@pytest.mark.parametrize("name", ["smoke", "cpu", "paper"])
def test_the_costs_that_come_along_were_measured_with_the_settings_of_the_suites(name: str) -> None:
    found = estimates(load_suite(name), measured_costs())
    assert {each.basis for each in found} == {PARTS}
    assert all(each.seconds > 0 for each in found)


@pytest.mark.parametrize(("cores", "cpus", "fit"), [(8, 1, 8), (8, 0.5, 16), (2, 0.1, 20), (8, 3, 2)])
def test_as_many_jobs_fit_on_a_machine_as_ask_for_its_cores(cores: int, cpus: float, fit: int) -> None:
    assert places(cores, cpus) == fit


def test_jobs_that_fit_nowhere_and_impossible_machines_are_refused() -> None:
    with pytest.raises(ConfigError, match="fits on no machine with 2 cores"):
        places(2, 4.0)
    with pytest.raises(ConfigError, match="more than 0 processors"):
        places(2, 0.0)
    with pytest.raises(ConfigError, match="at least 1 job, machine, core"):
        outlook([1.0], machines=0, cores=1, places=1)
