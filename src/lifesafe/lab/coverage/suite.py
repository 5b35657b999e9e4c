"""The rows of the coverage tables, and how many deployments each has."""

from __future__ import annotations

from lifesafe.lab.coverage.deployment import CoverageRow
from lifesafe.lab.coverage.worlds import FAMILIES, HELD_OUT, HELD_OUT_2

_HEADLINE = ("overshoot", "conservative", "cliff", "edge", "rare", "lumps_7_5")
_LOOK = (
    "overshoot", "conservative", "cliff", "edge", "lumps_7_5", "falls_7_5", "rough", "smooth", "plateau", "costs_2",
    "costs_3", "costs_4", "knobs_6", "correlated", "day_03",
)  # fmt: skip
_STOP = 3.0
_LUMPY = ("lumps_15", "lumps_50", "falls_50")
_PLANES = tuple(name for name in FAMILIES if name not in ("costs_2", "costs_3", "costs_4", "knobs_6"))


def _total(family: str, delta: float = 0.1, episodes: int = 300) -> CoverageRow:
    return CoverageRow(family=family, promise="total", stop=_STOP, delta=delta, episodes=episodes)


def _every(families: tuple[str, ...], deltas: tuple[float, ...]) -> tuple[CoverageRow, ...]:
    """Return both promises, without and with a stop."""
    rows = []
    for delta in deltas:
        rows += [CoverageRow(family=name, delta=delta) for name in families]
        rows += [CoverageRow(family=name, delta=delta, stop=_STOP) for name in families]
        rows += [_total(name, delta) for name in families]
    return tuple(rows)


def _rivals() -> tuple[CoverageRow, ...]:
    """Return ours and those of others on the same machines; SafeOpt is run by benchmarks/coverage_rivals.py."""
    rows = []
    for name in _PLANES:
        rows += [CoverageRow(family=name), _total(name, episodes=150)]
        for lengthscale in (None, 0.3):
            rows += [CoverageRow(family=name, search="printed", lengthscale=lengthscale)]
            rows += [CoverageRow(family=name, search="consistent", lengthscale=lengthscale)]
    return tuple(rows)


def _budgets() -> tuple[CoverageRow, ...]:
    paced = [CoverageRow(family=name, episodes=count) for name in _LOOK for count in (100, 150, 300, 600)]
    return (*paced, *(_total(name, episodes=600) for name in _LOOK))


SUITES: dict[str, tuple[tuple[CoverageRow, ...], int]] = {
    "headline": ((*(CoverageRow(family=name) for name in _HEADLINE), *(_total(name) for name in _HEADLINE)), 1000),
    "default": (
        (
            *_every(tuple(FAMILIES), (0.1, 0.05)),
            *(CoverageRow(family=name, incident="horizon", episodes=600) for name in _LUMPY),
        ),
        500,
    ),
    "held-back": (_every((*HELD_OUT, *HELD_OUT_2), (0.1, 0.05)), 500),
    "rivals": (_rivals(), 200),
    "budgets": (_budgets(), 200),
    "quick": (_every(_LOOK, (0.1,)), 20),
}
"""Rows and deployments by name. "headline" and "default": whether the promises hold; "held-back": the same on families
that nobody tuned on; "rivals": the searches of others; "budgets": what more episodes buy; "quick": for a look."""
