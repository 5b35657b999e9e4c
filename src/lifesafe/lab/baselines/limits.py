"""From a limit on the cost of an episode to what a discounted critic is compared with."""

from __future__ import annotations

from collections.abc import Sequence


def critic_limits(limits: Sequence[float], *, horizon: int, discount: float, finite: bool) -> tuple[float, ...]:
    """Return the discounted sums of costs that belong to episodes whose cost is exactly the limit, spread evenly.

    An episode of T steps at the limit b costs b / T a step. A critic that looks past the end of the horizon sees
    b / T / (1 - γ); one that stops there sees, from the first step, b / T (1 - γ^T) / (1 - γ).

    Args:
        limits: Of the cost of an episode, one per cost.
        horizon: T, the steps of an episode.
        discount: γ.
        finite: Whether the critic stops at the end of the horizon.

    Examples:
        >>> [round(limit, 2) for limit in critic_limits([20], horizon=200, discount=0.99, finite=False)]
        [10.0]
        >>> [round(limit, 2) for limit in critic_limits([20], horizon=200, discount=0.99, finite=True)]
        [8.66]
    """
    steps = (1 - discount**horizon if finite else 1.0) / (1 - discount)
    return tuple(limit / horizon * steps for limit in limits)
