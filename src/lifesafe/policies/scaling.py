"""Scaling: brings observations and returns-to-go of any size to the size a network likes, and remembers how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from lifesafe.data import Dataset
from lifesafe.data.segments import returns_to_go

_NAMES = ("mean", "deviation", "center", "scale")


def typical_costs(dataset: Dataset) -> Float[np.ndarray, " k"]:
    """Return the median of each cost-to-go where it is not 0; 1 for a cost that never occurs."""
    coming = returns_to_go(dataset)[:, 1:]
    return np.array([np.median(column[column > 0]) if (column > 0).any() else 1.0 for column in coming.T])


class Scaling(nn.Module):
    """Scales for training, acting and export alike: the one place that turns numbers into what a network sees.

    An observation is shown as (observation - mean) / deviation, a reward- or cost-to-go as (value - center) / scale. A
    cost-to-go c is then shown as sign(c) log(1 + |c|): the difference between costs of 10 and 20 stays visible in data
    that reach 300. Numbers are scaled in float64, where a reward-to-go of a million loses no digit; in training
    `.float()` is exact enough and faster.
    """

    mean: Float[Tensor, " o"]
    deviation: Float[Tensor, " o"]
    center: Float[Tensor, " r"]
    scale: Float[Tensor, " r"]

    def __init__(self, **values: Float[np.ndarray, " _"]) -> None:
        super().__init__()
        for name in _NAMES:
            self.register_buffer(name, torch.tensor(values[name], dtype=torch.float64))

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> Self:
        """Return the scaling that suits the data, whatever their units.

        Observations get mean 0 and deviation 1 (entries that never vary are only centered). Rewards-to-go get median
        0, and their middle 90 % a width of 2. A cost-to-go of 1 is then the median of those that are not 0.
        """
        coming = returns_to_go(dataset)
        low, center, high = np.quantile(coming[:, 0], [0.05, 0.5, 0.95])
        costs = typical_costs(dataset)
        deviation = dataset.observations.std(axis=0, dtype=np.float64)
        return cls(
            mean=dataset.observations.mean(axis=0, dtype=np.float64),
            deviation=np.where(deviation > 1e-6, deviation, 1.0),
            center=np.array([center, *(0.0 for _ in costs)]),
            scale=np.array([(high - low) / 2 if high > low else 1.0, *costs]),
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the scaling that the plain values describe."""
        return cls(**{name: np.array(plain[name], dtype=np.float64) for name in _NAMES})

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {name: getattr(self, name).tolist() for name in _NAMES}

    def forward(
        self, observations: Float[Tensor, "*b o"], coming: Float[Tensor, "*b r"]
    ) -> tuple[Float[Tensor, "*b o"], Float[Tensor, "*b r"]]:
        """Return observations, and rewards- and costs-to-go, as the network sees them."""
        return self.observations(observations), self.coming(coming)

    def observations(self, values: Float[Tensor, "*b o"]) -> Float[Tensor, "*b o"]:
        """Return observations as the network sees them."""
        return ((values - self.mean) / self.deviation).float()

    def coming(self, values: Float[Tensor, "*b r"]) -> Float[Tensor, "*b r"]:
        """Return rewards- and costs-to-go as the network sees them."""
        scaled = (values - self.center) / self.scale
        costs = scaled[..., 1:]
        return torch.cat([scaled[..., :1], costs.sign() * costs.abs().log1p()], dim=-1).float()
