"""The behavior, which sees the position of its limit, and its critics, which see the time too."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn


class BehaviorNetwork(nn.Module):
    """A Gaussian over actions, given the observation and the position of the limit."""

    least: Tensor

    def __init__(self, inputs: int, actions: int, width: int, noise: float, least_noise: float) -> None:
        super().__init__()
        self.mean = _perceptron(inputs, actions, width, gain=0.01)
        self.log_deviation = nn.Parameter(torch.full((actions,), math.log(noise)))
        self.least = torch.tensor(math.log(least_noise))  # not learned

    def forward(self, inputs: Float[Tensor, "n i"]) -> tuple[Float[Tensor, "n a"], Float[Tensor, " a"]]:
        """Return the means of the actions and the logarithm of their standard deviation."""
        return self.mean(inputs), torch.maximum(self.log_deviation, self.least)


class ValueNetworks(nn.Module):
    """Expected returns to come, one network for the reward and one for the costs."""

    def __init__(self, inputs: int, costs: int, width: int) -> None:
        super().__init__()
        self.reward = _perceptron(inputs + 1, 1, width, gain=1.0)
        self.cost = _perceptron(inputs + 1, costs, width, gain=1.0)

    def forward(self, inputs: Float[Tensor, "n i"]) -> Float[Tensor, "n r"]:
        """Return the reward return to come, then the cost returns."""
        return torch.cat([self.reward(inputs), self.cost(inputs)], dim=-1)


def _perceptron(inputs: int, outputs: int, width: int, gain: float) -> nn.Sequential:
    """Return two hidden layers of tanh, initialized orthogonally."""
    layers = [nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, outputs)]
    for layer, scale in zip(layers, (math.sqrt(2), math.sqrt(2), gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def log_density(
    actions: Float[Tensor, "n a"], means: Float[Tensor, "n a"], log_deviation: Float[Tensor, " a"]
) -> Float[Tensor, " n"]:
    """Return the logarithm of the Gaussian density of each action."""
    scaled = (actions - means) * torch.exp(-log_deviation)
    return (-0.5 * scaled.square() - log_deviation - 0.5 * math.log(2 * math.pi)).sum(dim=-1)


class Scale:
    """Running mean and variance of vectors, by which they are normalized."""

    def __init__(self, size: int) -> None:
        self.count = np.full((), 1e-4)
        self.mean = np.zeros(size)
        self.variance = np.ones(size)

    def update(self, values: Float[np.ndarray, "n size"]) -> None:
        """Take more vectors into account."""
        count, mean, variance = len(values), values.mean(axis=0), values.var(axis=0)
        total = self.count + count
        shift = mean - self.mean
        self.variance[:] = (
            self.variance * self.count + variance * count + shift**2 * self.count * count / total
        ) / total
        self.mean += shift * count / total
        self.count[()] = total

    def __call__(self, values: Float[np.ndarray, "*n size"]) -> Float[np.ndarray, "*n size"]:
        """Return the vectors centered and scaled, within ten standard deviations."""
        return np.clip((values - self.mean) / np.sqrt(self.variance + 1e-8), -10, 10)
