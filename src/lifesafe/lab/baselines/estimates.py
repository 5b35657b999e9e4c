"""From several critics to one estimate, from a limit to what it is compared with, and the weight of the comparison.

Lagrange multipliers under PID control: Stooke et al. 2020, "Responsive safety in reinforcement learning by PID
Lagrangian methods".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


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


def critic_limits(limits: Sequence[float], *, horizon: int, discount: float, finite: bool) -> tuple[float, ...]:
    """Return the discounted sums of costs that belong to episodes whose cost is exactly the limit, spread evenly.

    An episode of T steps at the limit b costs b / T a step. A critic that looks past the end of the horizon sees
    b / T / (1 - γ); one that stops there sees, from the first step, b / T (1 - γ^T) / (1 - γ).

    Args:
        limits: Of the cost of an episode, one per cost.
        horizon: T, the steps of an episode.
        discount: γ.
        finite: Whether the critic stops at the end of the horizon.

    Examples:
        >>> [round(limit, 2) for limit in critic_limits([20], horizon=200, discount=0.99, finite=False)]
        [10.0]
        >>> [round(limit, 2) for limit in critic_limits([20], horizon=200, discount=0.99, finite=True)]
        [8.66]
    """
    steps = (1 - discount**horizon if finite else 1.0) / (1 - discount)
    return tuple(limit / horizon * steps for limit in limits)


def moved(
    log_weight: Float[Tensor, "*k"], excess: Float[Tensor, "*k"], rate: float, bounds: tuple[float, float]
) -> Float[Tensor, "*k"]:
    """Return the logarithm of a weight after a step of gradient ascent: more where there is an excess, else less."""
    return (log_weight + rate * log_weight.exp() * excess).clamp(*bounds)


class PIDMultipliers(nn.Module):
    """One multiplier per cost: it rises while the cost is above its limit, and falls back to 0 below it.

    Args:
        limits: What the costs are compared with.
        gains: How strongly a multiplier answers to a violation, to the sum of past ones, and to its growth.
        one_sided: Whether slack does not lower a multiplier at once, only by and by.
    """

    limits: Tensor
    integrals: Tensor
    errors: Tensor
    values: Tensor

    def __init__(
        self, limits: tuple[float, ...], gains: tuple[float, float, float], *, one_sided: bool = False
    ) -> None:
        super().__init__()
        self._gains = gains
        self._one_sided = one_sided
        self.register_buffer("limits", torch.tensor(limits))
        for name in ("integrals", "errors", "values"):
            self.register_buffer(name, torch.zeros(len(limits)))

    @torch.no_grad()
    def update(self, costs: Float[Tensor, " k"]) -> None:
        """Answer to the costs, which are compared with the limits."""
        errors = costs - self.limits
        growth = (errors - self.errors).relu()
        self.integrals = (self.integrals + errors).relu()
        self.errors = errors
        proportional, integral, derivative = self._gains
        present = errors.relu() if self._one_sided else errors
        self.values = (proportional * present + integral * self.integrals + derivative * growth).relu()


def lagrangian_loss(
    expected: Float[Tensor, "r m"], multipliers: PIDMultipliers, *, rescaled: bool
) -> Float[Tensor, ""]:
    """Return what an actor minimizes: the weighted excess of the expected costs, minus the expected reward.

    Args:
        expected: Reward and costs that the critics expect of the actor's actions.
        multipliers: The weights, and the limits.
        rescaled: Whether to divide by 1 + multipliers, so that the size of the loss does not depend on them.
    """
    values = multipliers.values
    loss = values @ (expected[1:].mean(-1) - multipliers.limits) - expected[0].mean()
    return loss / (1 + values.sum()) if rescaled else loss
