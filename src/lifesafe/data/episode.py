"""Episode: one trajectory with its costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe.errors import DatasetError
from lifesafe.returns import Returns

CostFunction = Callable[[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]], float | Sequence[float] | np.ndarray]
"""What a step cost, given the observation before it, the action, the observation after it, and its info."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One trajectory of t steps; row i of every array belongs to step i.

    Attributes:
        observations: What was seen before each action.
        actions: What was done, after clipping to the bounds of the environment.
        rewards: What each step earned.
        costs: What each step cost, one column per cost.
        next_observations: What was seen after each action.
        terminated: Whether the episode ended by itself (a fall, say) rather than by its time limit.
    """

    observations: Float[np.ndarray, "t o"]
    actions: Float[np.ndarray, "t a"]
    rewards: Float[np.ndarray, " t"]
    costs: Float[np.ndarray, "t k"]
    next_observations: Float[np.ndarray, "t o"]
    terminated: bool

    def __post_init__(self) -> None:
        lengths = {name: len(array) for name, array in vars(self).items() if isinstance(array, np.ndarray)}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise DatasetError(f"The arrays of an episode have one row per step, and at least one; got {lengths}.")

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def returns(self) -> Returns:
        """What the episode earned and cost."""
        return Returns(self.rewards.sum(dtype=np.float64), self.costs.sum(axis=0, dtype=np.float64))
