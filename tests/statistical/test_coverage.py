"""The promises, simulated: on machines that keep what is assumed, ours hold where the paper's search breaks them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy.stats import binomtest

from lifesafe.lab.coverage.deployment import CoverageRow, Deployment, draw_world
from lifesafe.lab.coverage.simulation import simulate
from lifesafe.lab.coverage.table import assumption
from lifesafe.lab.coverage.worlds import FAMILIES

DELTA = 0.1
QUICK = {
    "trial": [
        CoverageRow(family="overshoot"),
        CoverageRow(family="rare", stop=3.0),
        CoverageRow(family="overshoot", stop=3.0),
    ],
    "total": [
        CoverageRow(family=family, promise="total", stop=2.0, episodes=80) for family in ("overshoot", "edge", "rare")
    ],
}


def broken(outcomes: Sequence[Deployment]) -> int:
    return sum(outcome.violated for outcome in outcomes)


def is_above(violated: int, deployments: int, delta: float) -> bool:
    """Whether so many violations are far more than delta allows: by chance once in 1000."""
    return bool(binomtest(violated, deployments, delta, alternative="greater").pvalue < 0.001)


@pytest.mark.parametrize("promise", QUICK)
def test_the_promise_is_broken_no_more_often_than_delta_allows(promise: str, tmp_path: Path) -> None:
    assert all(assumption(row) is None for row in QUICK[promise])
    found = [outcome for each in simulate(QUICK[promise], 8, tmp_path).values() for outcome in each]
    assert not is_above(broken(found), len(found), DELTA)
    assert not any(outcome.broken_sure for outcome in found)
    assert not is_above(sum(outcome.operates_unsafe for outcome in found), len(found), DELTA)
    assert sum(outcome.recommended for outcome in found) > len(found) / 2  # doing nothing would keep any promise


@pytest.mark.parametrize("family", ["overshoot", "cliff"])
def test_the_search_as_the_paper_prints_it_breaks_the_promise(family: str, tmp_path: Path) -> None:
    printed = CoverageRow(family=family, search="printed")
    (found,) = simulate([printed], 10, tmp_path, workers=1).values()
    assert is_above(broken(found), len(found), DELTA)


ROWS = [
    row
    for family in FAMILIES
    for row in (
        CoverageRow(family=family),
        CoverageRow(family=family, stop=3.0),
        CoverageRow(family=family, promise="total", stop=3.0),
    )
    if assumption(row) is None
]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_that_keeps_what_is_assumed_keeps_its_promise(row: CoverageRow, tmp_path: Path) -> None:
    (found,) = simulate([row], 100, tmp_path).values()
    assert not is_above(broken(found), len(found), row.delta)
    assert not any(outcome.broken_sure for outcome in found)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["lumps_15", "lumps_50", "falls_50", "day_06"])
def test_no_newcomer_overdraws_the_account_whatever_assumption_is_broken(family: str, tmp_path: Path) -> None:
    row = CoverageRow(family=family, promise="total", stop=2.0)
    (found,) = simulate([row], 100, tmp_path).values()
    assert not any(outcome.broken_sure for outcome in found)
    for outcome in found:
        world = draw_world(row, outcome.number)
        price = 2.0 + world.largest_step / world.limits[0] - 1  # of a newcomer's episode, in limits
        assert outcome.window <= 2 * price + 1e-9  # the capacity of the account
