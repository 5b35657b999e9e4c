"""The protocols at which learning, deciding and acting meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from lifesafe.returns import Returns


class Actor(Protocol):
    """Acts for a batch of episodes, one per row, and carries the history of each.

    Time passes as `act`, then the environment's step, then `observe`. Rows that are not named stand still, so
    episodes may end at different times, and an ended row can be restarted with another target.
    """

    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m a"]:
        """Return the action of each named row (of all rows if none is named), given what it sees now."""
        ...

    def observe(
        self,
        rewards: Float[np.ndarray, " m"],
        costs: Float[np.ndarray, "m k"],
        rows: Int[np.ndarray, " m"] | None = None,
    ) -> None:
        """Take note of what the last action of each named row earned and cost."""
        ...

    def restart(self, targets: Sequence[Returns], rows: Int[np.ndarray, " m"]) -> None:
        """Begin a new episode in each named row, with the target given for it."""
        ...


class Policy(Protocol):
    """What was learned: it never changes, and any number of actors may be made from it."""

    def actor(self, targets: Sequence[Returns]) -> Actor:
        """Return an actor with one row per target, each at the start of an episode."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far a long piece of work has come."""

    doing: str
    """A word or two: "training", "episodes"."""
    done: int
    total: int | None = None
    """None where nobody knows how much there is to do."""
    note: str = ""
    """Something to keep in sight, on a line of its own: a worker that was replaced, a new best."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What to show beside the bar, by name: a loss, steps per second."""


Report = Callable[[Progress], None]
"""Called with every step of progress that is worth showing."""
