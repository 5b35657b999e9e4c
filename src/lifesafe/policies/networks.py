"""Small networks that several methods share."""

from __future__ import annotations

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

_LOG_2PI = math.log(2 * math.pi)


def mlp(
    inputs: int,
    width: int,
    depth: int,
    outputs: int,
    dropout: float = 0.0,
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Return a perceptron with `depth` hidden layers, each followed by dropout if there is any."""
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


def gaussian_nll(
    means: Float[Tensor, "m a"], log_stds: Float[Tensor, " a"], actions: Float[Tensor, "m a"]
) -> Float[Tensor, " m"]:
    """Return the negative log-likelihood of each action under independent Gaussians, a mean over its entries."""
    residuals = (actions - means) * torch.exp(-log_stds)
    return (0.5 * residuals.square() + log_stds + 0.5 * _LOG_2PI).mean(-1)
