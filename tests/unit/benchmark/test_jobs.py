"""A job of a suite: what it does on disk."""

from pathlib import Path

import pytest

from lifesafe.benchmark.jobs import run_job
from lifesafe.benchmark.suite import Grid, Suite
from lifesafe.lifetime.manifest import read_manifest


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
    small = {"steps": 20, "batch": 16, "width": 16, "layers": 1, "heads": 1, "context": 2}
    suite = Suite("small", grid, {"cdt": small})
    (job,) = suite.jobs()
    rows = run_job(job, suite, None, tmp_path)
    recorded = read_manifest(tmp_path / "limit-20")
    assert recorded is not None
    assert (recorded["run"]["dither"], recorded["schedule"]["reach"]) == (0.05, 0.05)
    assert [(row.method, row.settings) for row in rows] == [(name, suite.fingerprint(job)) for name in ("pls", "cdt")]
    assert [row.episodes for row in rows if row.reward is not None] == [3] * sum(row.reward is not None for row in rows)
