"""The account: what served episodes have saved, and who may spend it.

Notation:
    X_t     cost of episode t
    b, H    its limit, and the largest cost that an episode can have
    C_t     what the account holds: C_0 = 0, C_t = min(C_{t-1} + b - X_t, capacity)

Rule. A *newcomer* runs an episode only if C_{t-1} >= H - b. Then C_t >= 0 after each of its episodes, whatever it
costs: newcomers never bring the account below zero, surely. And in any window of episodes that ends at t, the sum of
X - b is at most capacity - C_t: C is at most the capacity before the window, and no episode makes it fall by less than
X - b. So old savings never pay for more than the capacity. Only starts and certified targets can bring the account
below zero. No model and no randomness are assumed. The proof is in docs/guarantee.md. A newcomer may be a target, and
later a policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

NEWCOMERS = ("newcomer", "test")
"""Stages of trials that the account pays for."""
_CAPACITY = 2.0  # worst episodes of a newcomer that savings can pay for


@dataclass(frozen=True)
class Account:
    """One account for each cost. A value: `after` returns a new one."""

    limits: tuple[float, ...]
    bounds: tuple[float, ...]
    """H, for each cost."""
    holds: tuple[float, ...]
    """C, for each cost."""

    @classmethod
    def begin(cls, limits: tuple[float, ...], bounds: tuple[float, ...]) -> Account:
        """Return an account with nothing in it."""
        return cls(limits, bounds, (0.0,) * len(limits))

    @property
    def prices(self) -> tuple[float, ...]:
        """What one episode of a newcomer may take at most, for each cost: H - b."""
        return tuple(max(bound - limit, 0.0) for bound, limit in zip(self.bounds, self.limits, strict=True))

    @property
    def capacity(self) -> tuple[float, ...]:
        """Most that each account can hold."""
        return tuple(_CAPACITY * price for price in self.prices)

    @property
    def affords(self) -> int:
        """How many episodes of newcomers can be paid for now, whatever they cost; a large number if they are free."""
        pairs = [(held, price) for held, price in zip(self.holds, self.prices, strict=True) if price > 0]
        return min((max(int(held / price + 1e-9), 0) for held, price in pairs), default=10**6)

    def after(self, costs: Float[np.ndarray, "m k"]) -> Account:
        """Return the account after some episodes, one after the other."""
        held, capacity, limits = np.array(self.holds), np.array(self.capacity), np.array(self.limits)
        for row in costs:
            held = np.minimum(held + limits - row, capacity)
        return replace(self, holds=tuple(held.tolist()))

    def missing(self, saving: tuple[float, ...]) -> float:
        """Return how many episodes that save so much each are needed until a newcomer can be paid for."""
        needed = [
            (price - held) / max(each, 1e-9)
            for held, price, each in zip(self.holds, self.prices, saving, strict=True)
            if held < price
        ]
        return max(needed, default=0.0)
