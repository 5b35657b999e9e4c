"""The fallback ladder: which target to serve after an alarm.

An alarm says that the map from targets to returns is no longer the one that was learned. A target just below the one
that raised it would only raise the next, after as many costly episodes. So each rung is at most half as costly as the
one above, where there is such a target; else it is the least costly one that is left.

use of a target     largest of its expected mean costs, each as a fraction of its limit
"""

from __future__ import annotations

from collections.abc import Sequence

from lifesafe.safety import Recommendation

_STEP = 0.5


def use(target: Recommendation, limits: Sequence[float]) -> float:
    """Return how much of its limits a target may use: the 95 % quantile of its mean costs."""
    return max(upper / limit for upper, limit in zip(target.expected, limits, strict=True))


def next_rung(fit: Sequence[Recommendation], alarmed: float, limits: Sequence[float]) -> Recommendation | None:
    """Return the target to fall back to, or none if no target that is fit is less costly.

    Args:
        fit: Targets fit to be operated, those that earn more first.
        alarmed: Use of the limits by the target that raised the alarm.
        limits: One per cost.
    """
    lower = [target for target in fit if use(target, limits) <= _STEP * alarmed]
    if lower:
        return lower[0]
    less = [target for target in fit if use(target, limits) < alarmed]
    return min(less, key=lambda target: use(target, limits), default=None)
