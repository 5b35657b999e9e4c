"""The account that return-conditioned actors keep: what of each episode's target is still to come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lifesafe.errors import TrialError
from lifesafe.returns import Returns, returns_array


class ToGoActor:
    """Keeps the account of several episodes, one per row; how to act is up to those who inherit it.

    After every step the reward and the costs it brought are taken off the target.

    Args:
        targets: One per row.
        costs: How many costs a target must have.
        clamped: Whether a cost-to-go stops at 0: data know none below, so a spent budget means "no more cost".

    Attributes:
        to_go: Reward and costs to come, by row.
        times: Steps done.

    Raises:
        TrialError: If a target has another number of costs.
    """

    def __init__(self, targets: Sequence[Returns], costs: int, *, clamped: bool = False) -> None:
        self._costs = costs
        self._clamped = clamped
        self.to_go = self._checked(targets)
        self.times = np.zeros(len(targets), dtype=np.int64)

    def observe(
        self,
        rewards: Float[np.ndarray, " m"],
        costs: Float[np.ndarray, "m k"],
        rows: Int[np.ndarray, " m"] | None = None,
    ) -> None:
        """Take off what the last action of each named row earned and cost; of all rows unless named."""
        chosen = slice(None) if rows is None else rows
        coming = self.to_go[chosen]
        coming[:, 0] -= rewards
        coming[:, 1:] -= costs
        if self._clamped:
            np.maximum(coming[:, 1:], 0.0, out=coming[:, 1:])
        self.to_go[chosen] = coming
        self.times[chosen] += 1

    def restart(self, targets: Sequence[Returns], rows: Int[np.ndarray, " m"]) -> None:
        """Begin a new episode in each named row, with the target given for it.

        Raises:
            TrialError: If there is not one fitting target per row.
        """
        if len(targets) != len(rows):
            raise TrialError(f"Got {len(targets)} targets for {len(rows)} rows; give one target per row.")
        if len(rows):
            self.to_go[rows] = self._checked(targets)
            self.times[rows] = 0

    def _checked(self, targets: Sequence[Returns]) -> Float[np.ndarray, "m r"]:
        wanted = returns_array(targets)
        if wanted.shape[1] != 1 + self._costs:
            raise TrialError(
                f"Targets have {wanted.shape[1] - 1} costs, the policy learned from data with {self._costs};"
                " give one target cost for each."
            )
        return wanted


def seen_by_torch(observations: Float[np.ndarray, "m o"]) -> Float[Tensor, "m o"]:
    """Return observations as a tensor, without a copy where NumPy's memory may be shared."""
    return torch.from_numpy(np.require(observations, requirements=["C", "W"]))
