"""A job of a suite: what it does on disk."""

from pathlib import Path

import numpy as np
import pytest

from lifesafe.data import write_dsrl
from lifesafe.interfaces import Progress
from lifesafe.lab.benchmark.jobs import run_job
from lifesafe.lab.benchmark.suite import Grid, SafeSearch, Suite
from lifesafe.safety import SafeOptimizer
from lifesafe.systems import task
from logs import by_luck

SMALL = {"steps": 20, "batch": 16, "width": 16, "layers": 1, "heads": 1, "context": 2}
GRID = Grid(tasks=("PointCircle",), methods=("pls",), limits=(20.0,), seeds=1, episodes=3)


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")  # so short a training is safe nowhere
def test_the_search_of_a_suite_is_run_on_disk_and_told_in_its_row(tmp_path: Path) -> None:
    search = SafeSearch(promise="total", stop=2.0, episodes=40, start="calm")
    suite = Suite("small", GRID, {"cdt": SMALL}, search=search)
    (job,) = suite.jobs()
    told: list[Progress] = []
    rows = run_job(job, suite, None, tmp_path, report=told.append)
    assert list(dict.fromkeys(each.doing for each in told))[:2] == ["training", "search under 20"]
    assert {each.total for each in told if each.doing == "search under 20"} == {40}
    with SafeOptimizer.open(tmp_path / "limit-20") as optimizer:
        problem, history = optimizer.problem, optimizer.history
    assert (problem.promise, problem.stop_at, problem.episodes) == ("total", (40.0,), 40)
    assert [(row.method, row.settings) for row in rows] == [(name, suite.fingerprint(job)) for name in ("pls", "cdt")]
    searched, plain = rows
    assert (searched.promise, searched.stop_at, plain.promise, plain.stop_at) == ("total", 40.0, "", None)
    assert searched.online_episodes == history.searched == 40
    costs = [trial.episodes[:, 1] for trial in history.told]
    assert searched.trial_costs == tuple(float(each.mean()) for each in costs)
    assert searched.ended == sum(int((each >= 40.0).sum()) for each in costs)
    assert searched.violations == sum(mean > 20 for mean in searched.trial_costs)
    assert (plain.trials, plain.online_episodes, plain.ended) == (0, 0, 0)
    assert [row.episodes for row in rows if row.reward is not None] == [3] * sum(row.reward is not None for row in rows)
    again = run_job(job, suite, None, tmp_path)  # what a search took before it was resumed is not known
    assert [row.seconds is None for row in (*rows, *again)] == [False, False, True, False]
    assert [(row.reward, row.trial_costs) for row in again] == [(row.reward, row.trial_costs) for row in rows]


def test_where_cheap_logs_are_luck_nothing_is_tried_and_the_policy_alone_is_measured(tmp_path: Path) -> None:
    logged = by_luck(task("PointCircle").dataset(), np.random.default_rng(0))
    write_dsrl(logged, tmp_path / "lucky.hdf5")
    suite = Suite("small", GRID, {"cdt": SMALL})
    (job,) = suite.jobs()
    rows = run_job(job, suite, tmp_path / "lucky.hdf5", tmp_path / "job")
    assert [row.method for row in rows] == ["pls", "cdt"]
    idle, plain = rows
    assert (idle.reward, idle.trials, idle.online_episodes, idle.violations) == (None, 0, 0, 0)
    assert (plain.episodes, plain.reward is None) == (3, False)
