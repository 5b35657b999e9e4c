"""Step many environments together, each row an episode of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of m rows gave.

    Attributes:
        observations: What is seen now; after an end, the last observation of that episode.
        rewards: What the step earned.
        costs: What the step cost, one column per cost.
        terminated: Whether the episode ended by itself.
        truncated: Whether it was cut off at its horizon.
    """

    observations: Float[np.ndarray, "m o"]
    rewards: Float[np.ndarray, " m"]
    costs: Float[np.ndarray, "m k"]
    terminated: Bool[np.ndarray, " m"]
    truncated: Bool[np.ndarray, " m"]


class Vector(Protocol):
    """Many environments of one task. Nothing restarts by itself: an ended row waits for its `reset`."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        ...

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        ...

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        ...

    def close(self) -> None:
        """Give back processes and memory; closing twice does no harm."""
        ...
