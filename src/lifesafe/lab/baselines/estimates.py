"""One estimate from several critics, and the choice among actions by it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def signs(costs: int, *, optimistic: bool) -> Float[Tensor, "r 1 1"]:
    """Return for each return whether the least (1) or the most (-1) of its critics is the careful estimate."""
    return torch.tensor([1.0] + [1.0 if optimistic else -1.0] * costs).view(-1, 1, 1)


def careful(values: Float[Tensor, "r q m"], signs: Float[Tensor, "r 1 1"]) -> Float[Tensor, "r m"]:
    """Return the most careful of the critics' estimates."""
    return (values * signs).amin(1) * signs.squeeze(1)


def mixed(values: Float[Tensor, "r q m"], signs: Float[Tensor, "r 1 1"], mixture: float) -> Float[Tensor, "r m"]:
    """Return a mixture of two estimates, each the more careful of half the critics; mostly of the lesser one."""
    returns, critics, count = values.shape
    halves = (values * signs).view(returns, 2, critics // 2, count).amin(2)
    return (mixture * halves.amin(1) + (1 - mixture) * halves.amax(1)) * signs.squeeze(1)


def squared_errors(values: Float[Tensor, "r q m"], targets: Float[Tensor, "r m"]) -> Float[Tensor, ""]:
    """Return the mean squared error of each critic, summed over critics."""
    return (values - targets.unsqueeze(1)).square().mean(-1).sum()


def lagrangian(estimates: Float[Tensor, "r m"], multipliers: Float[Tensor, " k"]) -> Float[Tensor, " m"]:
    """Return the reward minus the weighted costs."""
    return estimates[0] - multipliers @ estimates[1:]


def best_of(estimates: Float[Tensor, "r m n"], multipliers: Float[Tensor, " k"]) -> Float[Tensor, "r m"]:
    """Return the estimates of the best of n choices, by their Lagrangian."""
    scores = estimates[0] - torch.einsum("k,kmn->mn", multipliers, estimates[1:])
    best = scores.argmax(-1)
    return estimates.gather(-1, best.expand(len(estimates), -1).unsqueeze(-1)).squeeze(-1)
