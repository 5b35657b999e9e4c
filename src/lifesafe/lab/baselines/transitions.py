"""Transitions on a device, and batches of them by a single gather."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lifesafe.data import Dataset

Ends = Literal["terminals", "episodes", "never"]
"""Where a critic stops to look ahead: where the system ended, at time limits as well, or nowhere."""


class TransitionBatch(NamedTuple):
    """Some transitions; m of them, r = 1 + number of costs, the reward first.

    Attributes:
        pairs: Observation and action side by side.
        observations: What was seen; a view of `pairs`, as is `actions`.
        actions: What was done.
        next_observations: What was seen then.
        returns: What the step earned, scaled, and what it cost.
        goes_on: 1 where the critic of that return looks beyond the step, else 0.
        initial: 1 for the first steps of episodes, else 0.
        extra: Columns that a method added.
    """

    pairs: Float[Tensor, "m o+a"]
    observations: Float[Tensor, "m o"]
    actions: Float[Tensor, "m a"]
    next_observations: Float[Tensor, "m o"]
    returns: Float[Tensor, "m r"]
    goes_on: Float[Tensor, "m r"]
    initial: Float[Tensor, " m"]
    extra: Float[Tensor, "m x"]


@dataclass(frozen=True, eq=False)
class Transitions:
    """All transitions of a dataset, one row each, in the order of a batch's fields."""

    rows: Float[Tensor, "n w"]
    observations: int
    actions: int
    costs: int

    @classmethod
    def from_dataset(
        cls,
        dataset: Dataset,
        device: torch.device,
        *,
        reward_scale: float,
        reward_ends: Ends,
        cost_ends: Ends,
        extra: Float[np.ndarray, "n x"] | None = None,
    ) -> Self:
        """Return the transitions with scaled rewards, and the ends that the critics of reward and costs see."""
        initial = np.zeros(dataset.transitions, dtype=np.float32)
        initial[dataset.offsets[:-1]] = 1.0
        goes_on = [~_ends(dataset, reward_ends), *[~_ends(dataset, cost_ends)] * dataset.costs.shape[1]]
        columns = [
            dataset.observations,
            dataset.actions,
            dataset.next_observations,
            reward_scale * dataset.rewards[:, None],
            dataset.costs,
            np.stack(goes_on, axis=1),
            initial[:, None],
            *([] if extra is None else [extra]),
        ]
        rows = torch.from_numpy(np.concatenate(columns, axis=1, dtype=np.float32)).to(device)
        return cls(rows, dataset.observations.shape[1], dataset.actions.shape[1], dataset.costs.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, chosen: Int[Tensor, " m"]) -> TransitionBatch:
        """Return some transitions."""
        rows = self.rows.index_select(0, chosen)
        o, a, r = self.observations, self.actions, 1 + self.costs
        widths = [o, a, o, r, r, 1, rows.shape[1] - 2 * (o + r) - a - 1]
        observations, actions, following, returns, goes_on, initial, extra = torch.split(rows, widths, dim=1)
        pairs = rows[:, : o + a]
        return TransitionBatch(pairs, observations, actions, following, returns, goes_on, initial.squeeze(1), extra)


def _ends(dataset: Dataset, ends: Ends) -> Bool[np.ndarray, " n"]:
    last = np.zeros(dataset.transitions, dtype=bool)
    if ends != "never":
        last[dataset.offsets[1:] - 1] = True if ends == "episodes" else dataset.terminated
    return last
