"""Batches of segments for the Constrained Decision Transformer: one table on the device, one gather a batch.

Notation: n transitions, e episodes (relabeled ones included), b segments of l steps.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lifesafe.data import Dataset
from lifesafe.data.relabel import Relabeled
from lifesafe.data.segments import SegmentRows, Segments, returns_to_go
from lifesafe.policies.cdt.network import Steps
from lifesafe.policies.scaling import Scaling


class Batch(NamedTuple):
    """Segments, and what the network shall say about them."""

    steps: Steps
    actions: Float[Tensor, "b l a"]
    real: Float[Tensor, "b l"]
    """1 where the step belongs to the episode, 0 in the padding after its end."""


class TransitionTable:
    """All transitions as one tensor, from which batches are gathered."""

    def __init__(self, dataset: Dataset, scaling: Scaling, device: torch.device) -> None:
        columns = [
            torch.from_numpy(returns_to_go(dataset)).float(),
            scaling.observations(torch.tensor(dataset.observations)),
            torch.tensor(dataset.actions),
        ]
        self._widths = [column.shape[1] for column in columns]
        self._table = torch.cat(columns, dim=1).to(device)
        self._scaling = copy.deepcopy(scaling).float().to(device)

    def gather(self, segments: SegmentRows, shifts: Float[np.ndarray, "b r"] | None = None) -> Batch:
        """Return the segments, with their returns-to-go shifted if they are relabeled."""
        device = self._table.device
        rows, real, times = (
            torch.from_numpy(part).to(device) for part in (segments.rows, segments.real, segments.times)
        )
        picked = self._table.index_select(0, rows.view(-1)).view(*rows.shape, -1)
        coming, observations, actions = torch.split(picked, self._widths, dim=-1)
        if shifts is not None:
            coming = coming + torch.from_numpy(shifts.astype(np.float32)).to(device)[:, None]
        before = torch.empty_like(actions)
        before[:, 1:] = actions[:, :-1]
        first = self._table.index_select(0, (rows[:, 0] - 1).clamp(min=0))[:, -actions.shape[-1] :]
        before[:, 0] = first * (times[:, :1] > 0)  # nothing was done before the first step
        return Batch(Steps(self._scaling.coming(coming), observations, before, times), actions, real.to(torch.float32))


class Sampler:
    """Draws segments of the episodes to learn from, and of those relabeled among them."""

    def __init__(
        self,
        dataset: Dataset,
        episodes: Bool[np.ndarray, " e"],
        relabeled: Relabeled,
        weights: Float[np.ndarray, " m"],
        *,
        length: int,
    ) -> None:
        own = np.flatnonzero(episodes)
        chosen = np.concatenate([own, own[relabeled.episodes]])
        self._segments = Segments(dataset.offsets[:-1][chosen], dataset.lengths[chosen], weights, length=length)
        self._shifts = None
        if len(relabeled.episodes):
            shifts = relabeled.targets - dataset.returns[own[relabeled.episodes]]
            self._shifts = np.concatenate([np.zeros((len(own), shifts.shape[1])), shifts])

    def draw(
        self, generator: np.random.Generator, segments: int
    ) -> tuple[SegmentRows, Float[np.ndarray, "b r"] | None]:
        """Return random segments, and by how much the returns-to-go of each are shifted."""
        drawn = self._segments.draw(generator, segments)
        return drawn, None if self._shifts is None else self._shifts[drawn.episodes]
