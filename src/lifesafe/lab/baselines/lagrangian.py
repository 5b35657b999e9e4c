"""Lagrange multipliers under PID control.

Stooke et al. 2020, "Responsive safety in reinforcement learning by PID Lagrangian methods".
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


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
