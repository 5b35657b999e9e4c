"""The fallback ladder: which target to serve after an alarm.

An alarm says that the map from targets to returns is no longer the one that was learned. A target just below the one
that raised it would only raise the next, after as many costly episodes. So each rung is at most half as costly as the
one above, where there is such a target; else it is the least costly one that is left.

level of a target   largest of its upper cost bounds, each as a fraction of its limit
"""

from __future__ import annotations

from collections.abc import Sequence

from lifesafe.optimizer import Recommendation

_STEP = 0.5


def level(target: Recommendation, limits: Sequence[float]) -> float:
    """Return how much of its limits a target may use, by its own episodes."""
    return max(upper / limit for upper, limit in zip(target.cost_upper, limits, strict=True))


def next_rung(fit: Sequence[Recommendation], alarmed: float, limits: Sequence[float]) -> Recommendation | None:
    """Return the target to fall back to, or none if no target that is fit is less costly.

    Args:
        fit: Targets fit to be operated, those that earn more first.
        alarmed: Level that the target had, which raised the alarm, when it began to be served.
        limits: One per cost.
    """
    lower = [target for target in fit if level(target, limits) <= _STEP * alarmed]
    if lower:
        return lower[0]
    less = [target for target in fit if level(target, limits) < alarmed]
    return min(less, key=lambda target: level(target, limits), default=None)
