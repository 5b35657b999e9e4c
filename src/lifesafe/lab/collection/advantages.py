"""Generalized advantage estimation (Schulman et al. 2016), for several returns at once.

V_t   value of what is seen at step t                       delta_t = r_t + gamma (1 - end_t) V_{t+1} - V_t
A_t   advantage = delta_t + gamma lambda (1 - end_t) A_{t+1}
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float


def advantages(
    rewards: Float[np.ndarray, "t n r"],
    values: Float[np.ndarray, "t+1 n r"],
    ends: Bool[np.ndarray, "t n"],
    discounts: Float[np.ndarray, " r"],
    trace: float,
) -> Float[np.ndarray, "t n r"]:
    """Return the advantage of every step; nothing flows over the end of an episode.

    Args:
        rewards: What each step gave, one column per return.
        values: Values of what was seen before each step, and after the last one.
        ends: Whether the step ended its episode. At the horizon nothing is to come, since the critics know the time;
            what an earlier end leaves out is charged to its step (`Learner.forfeits`).
        discounts: One per return.
        trace: Lambda.
    """
    result = np.empty_like(rewards)
    advantage = np.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        onward = discounts * ~ends[step][:, None]
        error = rewards[step] + onward * values[step + 1] - values[step]
        advantage = error + trace * onward * advantage
        result[step] = advantage
    return result
