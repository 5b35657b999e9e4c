"""A job of a suite: what it does on disk."""

from pathlib import Path

import numpy as np
import pytest

from lifesafe.benchmark.jobs import run_job
from lifesafe.benchmark.suite import Grid, Suite
from lifesafe.data import write_dsrl
from lifesafe.environments import task
from lifesafe.lifetime.manifest import read_manifest
from logs import by_luck

SMALL = {"steps": 20, "batch": 16, "width": 16, "layers": 1, "heads": 1, "context": 2}


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")  # so short a training is safe nowhere
def test_the_dither_of_a_suite_is_that_of_its_searches_and_of_what_is_measured(tmp_path: Path) -> None:
    grid = Grid(
        tasks=("PointCircle",),
        methods=("pls",),
        limits=(20.0,),
        seeds=1,
        episodes=3,
        trials=2,
        start="calm",
        dither=0.05,
    )
    suite = Suite("small", grid, {"cdt": SMALL})
    (job,) = suite.jobs()
    rows = run_job(job, suite, None, tmp_path)
    recorded = read_manifest(tmp_path / "limit-20")
    assert recorded is not None
    assert (recorded["run"]["dither"], recorded["schedule"]["reach"]) == (0.05, 0.05)
    assert [(row.method, row.settings) for row in rows] == [(name, suite.fingerprint(job)) for name in ("pls", "cdt")]
    assert [row.episodes for row in rows if row.reward is not None] == [3] * sum(row.reward is not None for row in rows)
    again = run_job(job, suite, None, tmp_path)  # what a search took before it was resumed is not known
    assert [row.seconds is None for row in (*rows, *again)] == [False, False, True, False]
    assert [(row.reward, row.trial_costs) for row in again] == [(row.reward, row.trial_costs) for row in rows]


def test_where_cheap_logs_are_luck_nothing_is_tried_and_the_policy_alone_is_measured(tmp_path: Path) -> None:
    logged = by_luck(task("PointCircle").dataset(), np.random.default_rng(0))
    write_dsrl(logged, tmp_path / "lucky.hdf5")
    grid = Grid(tasks=("PointCircle",), methods=("pls",), limits=(20.0,), seeds=1, episodes=3, trials=2)
    suite = Suite("small", grid, {"cdt": SMALL})
    (job,) = suite.jobs()
    rows = run_job(job, suite, tmp_path / "lucky.hdf5", tmp_path / "job")
    assert [row.method for row in rows] == ["pls", "cdt"]
    idle, plain = rows
    assert (idle.reward, idle.trials, idle.online_episodes, idle.violations) == (None, 0, 0, 0)
    assert (plain.episodes, plain.reward is None) == (3, False)
