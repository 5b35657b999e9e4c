"""Batches of segments for the Constrained Decision Transformer: one table on the device, one gather a batch.

Notation: n transitions, e episodes (relabeled ones included), b segments of l steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lifesafe.data import Dataset
from lifesafe.data.relabel import Relabeled
from lifesafe.data.segments import Rows, Segments, Starts, returns_to_go
from lifesafe.policies.cdt.network import Steps
from lifesafe.policies.scaling import Scaling


class Batch(NamedTuple):
    """Segments, and what the network shall say about them."""

    steps: Steps
    actions: Float[Tensor, "b l a"]
    costs: Float[Tensor, "b l k"]
    """What each step cost, as a share of the largest cost."""
    real: Float[Tensor, "b l"]
    """1 where the step belongs to the episode, 0 in the padding after its end."""


class Table:
    """All transitions as one tensor, from which batches are gathered."""

    def __init__(
        self,
        dataset: Dataset,
        scaling: Scaling,
        largest_costs: Float[np.ndarray, " k"],
        *,
        previous_actions: bool,
        device: torch.device,
    ) -> None:
        columns = [
            returns_to_go(dataset).astype(np.float32),
            scaling.observations(dataset.observations),
            dataset.actions,
            dataset.costs / largest_costs.astype(np.float32),
        ]
        self._widths = [column.shape[1] for column in columns]
        self._table = torch.from_numpy(np.concatenate(columns, axis=1)).to(device)
        self._scaling = scaling
        self._center = torch.from_numpy(scaling.center.astype(np.float32)).to(device)
        self._scale = torch.from_numpy(scaling.scale.astype(np.float32)).to(device)
        self._previous_actions = previous_actions

    def gather(self, segments: Rows, shifts: Float[np.ndarray, "b r"] | None = None) -> Batch:
        """Return the segments, with their returns-to-go shifted if they are relabeled."""
        device = self._table.device
        rows = torch.from_numpy(segments.rows).to(device)
        real = torch.from_numpy(segments.real).to(device)
        times = torch.from_numpy(segments.times).to(device)
        picked = self._table.index_select(0, rows.view(-1)).view(*rows.shape, -1)
        coming, observations, actions, costs = torch.split(picked, self._widths, dim=-1)
        if shifts is not None:
            coming = coming + torch.from_numpy(shifts.astype(np.float32)).to(device)[:, None]
        inputs = actions
        if self._previous_actions:
            inputs = torch.empty_like(actions)
            inputs[:, 1:] = actions[:, :-1]
            start = sum(self._widths[:2])
            before = self._table.index_select(0, (rows[:, 0] - 1).clamp(min=0))[:, start : start + actions.shape[-1]]
            inputs[:, 0] = before * (times[:, :1] > 0)  # nothing was done before the first step
        return Batch(Steps(self._scaled(coming), observations, inputs, times), actions, costs, real.to(torch.float32))

    def _scaled(self, coming: Float[Tensor, "b l r"]) -> Float[Tensor, "b l r"]:
        """Return rewards- and costs-to-go as the network sees them: `Scaling.coming` for tensors."""
        scaled = (coming - self._center) / self._scale
        if self._scaling.logarithmic:
            costs = scaled[..., 1:]
            scaled[..., 1:] = costs.sign() * costs.abs().log1p()
        return scaled


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
        starts: Starts,
    ) -> None:
        own = np.flatnonzero(episodes)
        chosen = np.concatenate([own, own[relabeled.episodes]])
        self._segments = Segments(
            dataset.offsets[:-1][chosen], dataset.lengths[chosen], weights, length=length, starts=starts
        )
        self._shifts = None
        if len(relabeled.episodes):
            shifts = relabeled.targets - dataset.returns[own[relabeled.episodes]]
            self._shifts = np.concatenate([np.zeros((len(own), shifts.shape[1])), shifts])

    def draw(self, generator: np.random.Generator, segments: int) -> tuple[Rows, Float[np.ndarray, "b r"] | None]:
        """Return random segments, and by how much the returns-to-go of each are shifted."""
        drawn = self._segments.draw(generator, segments)
        return drawn, None if self._shifts is None else self._shifts[drawn.episodes]
