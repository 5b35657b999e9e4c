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

_SLACK = 1e-9  # rounding of distances on a grid
_OPTIMISM = 0.5  # share of the band by which a fantasy comes out better than expected
_CHARGE = 0.3  # reward (in ranges of its axis) that one limit of cost is worth when choosing where to expand
_TRIED = 400  # safe targets looked at as expanders, the most uncertain first
_JUDGED = 1024  # frontier targets looked at, the most valuable first
_CHUNK = 64


def safe_set(
    known: Confidence, distance: Float[np.ndarray, " n"], reach: float
) -> Bool[np.ndarray, " n"]:
    """Return the targets whose risk fits the allowance, no further than the reach from a target already tried."""
    return (known.risk <= known.allowance) & (distance <= reach + _SLACK)


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
        slopes: Largest slope of each cost, in modelled cost per axis length.
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
    return known.reward_upper - _CHARGE * np.maximum(relative - 0.5, 0.0)


def frontier(
    known: Confidence,
    safe: Bool[np.ndarray, " n"],
    distance: Float[np.ndarray, " n"],
    reach: float,
    closed: Bool[np.ndarray, " n"],
) -> Int[np.ndarray, " f"]:
    """Return the frontier, the most valuable target first.

    Only what one more trial could bring within reach counts: a trial lies within the reach of a tried target, and what
    it certifies within the reach of the trial.
    """
    floor = known.reward_lower[safe].max() if safe.any() else -np.inf
    mask = ~safe & ~closed & (distance <= 2 * reach + _SLACK) & (known.reward_upper > floor)
    mask &= (known.cost_lower <= known.limits[:, None]).all(axis=0)
    return _largest(value(known), np.flatnonzero(mask), _JUDGED)


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
    width = (known.cost_sds / known.limits[:, None]).max(axis=0)
    tried = _largest(width, np.flatnonzero(safe), _TRIED)
    if schedule.tolerance > 0:
        tried = tried[2 * known.multiplier * width[tried] > schedule.tolerance]
    if not len(tried):
        return None
    hope = value(known)[tried]
    for start in range(0, len(front), _CHUNK):
        judged = front[start : start + _CHUNK]
        if slopes is None:
            certifies = _certifies(schedule, posterior, known, tried, judged)
        else:
            certifies = _certifies_by_slope(known, X, tried, judged, slopes)
        gap = np.abs(X[:, tried, None] - X[:, None, judged]).max(axis=0)
        certifies &= np.minimum(gap, distance[judged]) <= schedule.reach + _SLACK
        reached = certifies.any(axis=0)
        if reached.any():
            column = certifies[:, int(reached.argmax())]
            best = np.flatnonzero(column)
            order = np.lexsort((tried[best], -hope[best]))
            return int(tried[best[order[0]]])
    return None


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


def _largest(
    key: Float[np.ndarray, " n"], indices: Int[np.ndarray, " m"], count: int
) -> Int[np.ndarray, " _"]:
    """Return the indices with the largest keys, largest first, equal ones by index."""
    if len(indices) > count:
        indices = indices[np.argpartition(-key[indices], count - 1)[:count]]
    return indices[np.lexsort((indices, -key[indices]))]
