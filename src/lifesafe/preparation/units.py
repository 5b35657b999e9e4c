"""Whether told costs are in the unit of the logs: a slip of 60 or 1000 would make every certificate worthless.

Two signs are looked at, of each cost by itself:

    steps   all logged episodes cost whole multiples of one number (steps cost 0 or 1, say), and a told one does not
    size    the told episodes cost on average a tenth or less of what logged episodes like the target cost, or ten times
            more than these and than the median of all

Costs of 0 say nothing. A policy that is better or worse than the logs stays within a factor of ten; a question is no
refusal, so who is sure says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from lifesafe.returns import Returns, returns_array

_FAR = 10.0  # times more or less than logged episodes like the target
_LIKE = 20  # logged episodes nearest to the target
_ROUNDING = 1e-3  # of one step of costs


def doubt_units(target: Returns, told: Sequence[Returns], logged: Float[np.ndarray, "e r"]) -> str | None:
    """Return a question if the told costs look like another unit than that of the logs, or None.

    Args:
        target: The target that the episodes were run for.
        told: What they earned and cost.
        logged: The returns of the logged episodes, one row each, the reward first.
    """
    episodes = returns_array(told)
    span = np.ptp(logged, axis=0)
    distance = np.abs(logged - np.array(tuple(target))) / np.where(span > 0, span, 1.0)
    like = logged[np.argsort(distance.max(axis=1), kind="stable")[:_LIKE]]
    for k, name in enumerate(target.names[1:], start=1):
        found = _doubt(episodes[:, k], like[:, k], logged[:, k])
        if found:
            return f"{name.capitalize()} of target {target}: {found} Is it told in the unit of the logs?"
    return None


def _doubt(told: Float[np.ndarray, " t"], like: Float[np.ndarray, " m"], logged: Float[np.ndarray, " e"]) -> str:
    mean = float(told.mean())
    if mean == 0 or len(logged) < _LIKE or not logged.any():
        return ""
    step = logged[logged > 0].min()
    if _whole(logged / step) and not _whole(told / step):
        odd = told[np.abs(told / step - np.rint(told / step)) > _ROUNDING][0]
        return f"an episode costs {odd:.4g}, and all logged ones cost whole multiples of {step:.4g}."
    low, usual, high = (float(value) for value in np.quantile(like, (0.05, 0.5, 0.95)))
    if low / _FAR < mean <= _FAR * max(high, float(np.median(logged))):
        return ""
    times = f"{usual / mean:.3g} times less" if mean < low else f"{mean / max(usual, step):.3g} times more"
    return f"the episodes cost {mean:.4g} on average, logged ones like it {low:.4g} to {high:.4g}: about {times}."


def _whole(values: np.ndarray) -> bool:
    return bool((np.abs(values - np.rint(values)) <= _ROUNDING).all())
