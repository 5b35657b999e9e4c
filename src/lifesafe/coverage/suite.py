"""The rows of the coverage tables."""

from __future__ import annotations

from lifesafe.coverage.deployment import Row
from lifesafe.theory.held_out import HELD_OUT

_SHAPED = ("overshoot", "conservative", "cliff", "rare")
_GAUSSIAN = ("gp_target", "gp_flat")
_DELTAS = (0.05, 0.1)
_DITHERS = ((0.0, None), (0.05, None), (0.03, 0.03), (0.05, 0.05), (0.07, 0.07))  # with the longest step


def _default() -> tuple[Row, ...]:
    rows = [Row(family=f, delta=d) for d in _DELTAS for f in _SHAPED]
    rows += [Row(family=f, delta=d, error=e) for d in _DELTAS for f in _GAUSSIAN for e in (1.0, 2.0, 0.5)]
    rows += [
        Row(family=f, delta=d, model="right", mixture=9, error=e)
        for d in _DELTAS
        for f in _GAUSSIAN
        for e in (1.0, 2.0, 0.5)
    ]
    return tuple(rows)


def _variants() -> tuple[Row, ...]:
    rows = [Row(family=f, model="right", error=e) for f in _GAUSSIAN for e in (1.0, 2.0, 0.5)]
    rows += [Row(family=f, model="right", mixture=3, error=e) for f in _GAUSSIAN for e in (1.0, 2.0, 0.5)]
    rows += [Row(family=f, model="right", rule=r) for f in _GAUSSIAN for r in ("even", "paper", "fixed", "literal")]
    rows += [Row(family=f, rule=r) for f in _SHAPED for r in ("even", "paper", "fixed", "literal", "plain")]
    rows += [Row(family=f, reach=1.0) for f in _SHAPED]
    rows += [Row(family=f, model="linear", reach=r) for f in _SHAPED for r in (None, 1.0)]
    rows += [Row(family=f, mean=m) for f in _SHAPED for m in ("target", "larger")]
    rows += [Row(family=f, error=e) for f in _SHAPED for e in (0.5, 2.0)]
    rows += [Row(family=f, mixture=m) for f in _SHAPED for m in (3, 9)]
    return tuple(rows)


SUITES: dict[str, tuple[Row, ...]] = {
    "default": _default(),
    "variants": _variants(),
    "dither": tuple(Row(family=f, dither=w, reach=r) for f in ("edge", *_SHAPED) for w, r in _DITHERS),
    "held-back": tuple(Row(family=f, delta=d) for d in _DELTAS for f in HELD_OUT),
}
"""Rows by suite: what lifesafe ships, what changes when a setting changes, what dither does, and families never tuned
on."""
