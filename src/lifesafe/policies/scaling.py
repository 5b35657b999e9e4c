"""Scaling: brings observations and returns-to-go of any size to the size a network likes, and remembers how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from lifesafe.data import Dataset
from lifesafe.data.segments import returns_to_go


def typical_costs(dataset: Dataset) -> Float[np.ndarray, " k"]:
    """Return the median of each cost-to-go where it is not 0; 1 for a cost that never occurs."""
    coming = returns_to_go(dataset)[:, 1:]
    return np.array([np.median(column[column > 0]) if (column > 0).any() else 1.0 for column in coming.T])


@dataclass(frozen=True, eq=False)
class Scaling:
    """What a network sees of observations, and of the reward and the costs still to come.

    An observation is shown as (observation - mean) / deviation, a reward- or cost-to-go as (value - center) / scale.
    If `logarithmic`, a cost-to-go c is then shown as sign(c) log(1 + |c|): the difference between costs of 10 and 20
    stays visible in data that reach 300.
    """

    mean: Float[np.ndarray, " o"]
    deviation: Float[np.ndarray, " o"]
    center: Float[np.ndarray, " r"]
    scale: Float[np.ndarray, " r"]
    logarithmic: bool

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
            center=np.array([center, *(0.0 for _ in costs)], dtype=np.float64),
            scale=np.array([(high - low) / 2 if high > low else 1.0, *costs], dtype=np.float64),
            logarithmic=True,
        )

    @classmethod
    def osrl(cls, observations: int, costs: int) -> Self:
        """Return OSRL's constants: raw observations, a tenth of the reward-to-go, and 50 minus the cost-to-go."""
        return cls(
            mean=np.zeros(observations),
            deviation=np.ones(observations),
            center=np.array([0.0] + [50.0] * costs),
            scale=np.array([10.0] + [-1.0] * costs),
            logarithmic=False,
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the scaling that the plain values describe."""
        arrays = {name: np.array(plain[name], dtype=np.float64) for name in ("mean", "deviation", "center", "scale")}
        return cls(**arrays, logarithmic=bool(plain["logarithmic"]))

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}

    def observations(self, values: Float[np.ndarray, "m o"]) -> Float[np.ndarray, "m o"]:
        """Return observations as the network sees them."""
        scaled: np.ndarray = (values - self.mean) / self.deviation
        return scaled.astype(np.float32)

    def coming(self, values: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "m r"]:
        """Return rewards- and costs-to-go as the network sees them."""
        scaled: np.ndarray = (values - self.center) / self.scale
        if self.logarithmic:
            scaled[:, 1:] = np.sign(scaled[:, 1:]) * np.log1p(np.abs(scaled[:, 1:]))
        return scaled.astype(np.float32)
