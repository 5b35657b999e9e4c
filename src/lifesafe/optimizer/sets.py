"""Safe set, frontier and expanders, as masks and indices over the candidates.

Notation:
    S       safe set: targets that may be tried
    F       frontier: not in S, not proven unsafe, and worth a proof because their reward may beat what S offers
    c, f    a target of S that may be tried next; a target of F that it might certify
    value   optimistic reward, less a charge on costs above half the limit: a cheap target leaves room for the next step

All pure functions of arrays; ties are broken by the lowest index.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.optimizer.confidence import Confidence, combined
from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.schedule import Schedule

SLACK = 1e-9  # rounding of distances on a grid
_OPTIMISM = 0.5  # share of the band by which a fantasy comes out better than expected
_CHARGE = 0.3  # reward (in ranges of its axis) that one limit of cost is worth when choosing where to expand
_CELL = 0.25  # side of the cells, in reaches, of which only the most valuable target is looked at
_TRIED = 256  # cells of the safe set looked at for expanders, the most valuable first
_CHUNK = 64  # cells of the frontier judged at a time


def safe_set(known: Confidence, distance: Float[np.ndarray, " n"], reach: float) -> Bool[np.ndarray, " n"]:
    """Return the targets whose risk fits the allowance, no further than the reach from a target already tried."""
    return (known.risk <= known.allowance) & (distance <= reach + SLACK)


def lipschitz_safe_set(
    known: Confidence,
    X: Float[np.ndarray, "d n"],
    before: Bool[np.ndarray, " n"],
    slopes: Float[np.ndarray, " k"],
) -> Bool[np.ndarray, " n"]:
    """Return the paper's Y_N: targets that a bound on the slopes proves safe from some target of Y_{N-1}.

    Args:
        known: Bands on a linear scale.
        X: Scaled candidates.
        before: Y_{N-1}.
        slopes: Largest slope of each cost, in modeled cost per axis length.
    """
    slack = ((known.limits[:, None] - known.cost_upper) / slopes[:, None]).min(axis=0)
    sources = np.flatnonzero(before & (slack >= 0))
    safe = np.zeros(X.shape[1], dtype=bool)
    for i in sources:
        safe |= np.sqrt(((X - X[:, [i]]) ** 2).sum(axis=0)) <= slack[i]
    return safe


def value(known: Confidence) -> Float[np.ndarray, " n"]:
    """Return how much is hoped for at every target."""
    relative = (known.cost_means / known.limits[:, None]).max(axis=0)
    return np.asarray(known.reward_upper - _CHARGE * np.maximum(relative - 0.5, 0.0))


def frontier(
    known: Confidence,
    X: Float[np.ndarray, "d n"],
    safe: Bool[np.ndarray, " n"],
    distance: Float[np.ndarray, " n"],
    reach: float,
    closed: Bool[np.ndarray, " n"],
) -> Int[np.ndarray, " f"]:
    """Return the frontier to be judged: one target per cell, the most valuable first."""
    mask = frontier_mask(known, safe, distance, reach, closed)
    return _best_of_cells(value(known), np.flatnonzero(mask), X, _CELL * reach)


def frontier_mask(
    known: Confidence,
    safe: Bool[np.ndarray, " n"],
    distance: Float[np.ndarray, " n"],
    reach: float,
    closed: Bool[np.ndarray, " n"],
) -> Bool[np.ndarray, " n"]:
    """Return the whole frontier.

    Only what one more trial could bring within reach counts: a trial lies within the reach of a tried target, and what
    it certifies within the reach of the trial.
    """
    floor = known.reward_lower[safe].max() if safe.any() else -np.inf
    mask = ~safe & ~closed & (distance <= 2 * reach + SLACK) & (known.reward_upper > floor)
    mask &= (known.cost_lower <= known.limits[:, None]).all(axis=0)
    return np.asarray(mask)


def expander(
    schedule: Schedule,
    posterior: Posterior,
    known: Confidence,
    X: Float[np.ndarray, "d n"],
    safe: Bool[np.ndarray, " n"],
    front: Int[np.ndarray, " f"],
    distance: Float[np.ndarray, " n"],
    slopes: Float[np.ndarray, " k"] | None = None,
) -> int | None:
    """Return the safe target to try next, or none if no single trial could certify anything on the frontier.

    Takes the most valuable frontier target that some trial would certify if it came out a little better than expected,
    and of those trials the most valuable. With bounds on the slopes, a trial certifies what lies so near that even the
    steepest rise from its lower bound keeps the limits.
    """
    if schedule.tolerance > 0:
        width = 2 * known.multiplier * (known.cost_sds / known.limits[:, None]).max(axis=0)
        safe = safe & (width > schedule.tolerance)
    hope = value(known)
    tried = _best_of_cells(hope, np.flatnonzero(safe), X, _CELL * schedule.reach)[:_TRIED]
    if not len(tried):
        return None
    for start in range(0, len(front), _CHUNK):
        judged = front[start : start + _CHUNK]
        near = np.minimum(_apart(X, tried, judged), distance[judged]) <= schedule.reach + SLACK
        rows, columns = near.any(axis=1), near.any(axis=0)
        if not rows.any():
            continue
        trials, goals = tried[rows], judged[columns]
        if slopes is None:
            certifies = _certifies(schedule, posterior, known, trials, goals)
        else:
            certifies = _certifies_by_slope(known, X, trials, goals, slopes)
        certifies &= near[np.ix_(rows, columns)]
        reached = certifies.any(axis=0)
        if reached.any():
            # The rows are in the order of their value, so the first that certifies is the most valuable.
            return int(trials[certifies[:, int(reached.argmax())].argmax()])
    return None


def _apart(
    X: Float[np.ndarray, "d n"], rows: Int[np.ndarray, " a"], columns: Int[np.ndarray, " b"]
) -> Float[np.ndarray, "a b"]:
    """Return the largest axis difference between two sets of targets."""
    largest = np.zeros((len(rows), len(columns)))
    for axis in X:
        np.maximum(largest, np.abs(axis[rows, None] - axis[columns]), out=largest)
    return largest


def _certifies(
    schedule: Schedule,
    posterior: Posterior,
    known: Confidence,
    tried: Int[np.ndarray, " a"],
    judged: Int[np.ndarray, " b"],
) -> Bool[np.ndarray, "a b"]:
    optimism = _OPTIMISM * known.multiplier
    models = zip(posterior.costs, known.limits, strict=True)
    tails = np.stack([model.tail_after(limit, tried, judged, optimism) for model, limit in models])
    return combined(schedule, tails) <= known.allowance


def _certifies_by_slope(
    known: Confidence,
    X: Float[np.ndarray, "d n"],
    tried: Int[np.ndarray, " a"],
    judged: Int[np.ndarray, " b"],
    slopes: Float[np.ndarray, " k"],
) -> Bool[np.ndarray, "a b"]:
    # NOTE: the paper prints l(c) - L d(c, f) <= b, which holds for every safe c; with the plus sign it means something.
    apart = np.sqrt(((X[:, tried, None] - X[:, None, judged]) ** 2).sum(axis=0))
    slack = ((known.limits[:, None] - known.cost_lower[:, tried]) / slopes[:, None]).min(axis=0)
    return np.asarray(apart <= slack[:, None])


def _best_of_cells(
    key: Float[np.ndarray, " n"], indices: Int[np.ndarray, " m"], X: Float[np.ndarray, "d n"], side: float
) -> Int[np.ndarray, " _"]:
    """Return the index with the largest key of every cell of a coarse grid, the largest first, ties by index.

    On a fine grid the most valuable targets are neighbors of each other; looking at one per cell keeps the choice the
    same whatever the resolution.
    """
    ordered = indices[np.argsort(-key[indices], kind="stable")]
    cells = np.zeros(len(ordered), dtype=np.int64)
    for axis in X:
        cells = cells * (int(1 / side) + 2) + (axis[ordered] / side).astype(np.int64)
    _, first = np.unique(cells, return_index=True)
    return ordered[np.sort(first)]
