"""Lagrange multipliers of all limits at once.

A limit is named by its position u in [0, 1], from the tightest to the loosest. A few knots on that line hold a
multiplier each, interpolated in between, so every episode teaches the two knots next to its limit.

lambda_k   multiplier of knot k, one per cost          c_k   running mean of the episode costs near knot k
b_k        limit at knot k
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_LARGEST = math.log(10.0)
_TIGHT, _LOOSE = 1.0, 0.05  # multipliers at the start
_LARGEST_STEP = 0.3
_MEMORY = 10.0  # episodes that a running mean remembers


class Multipliers:
    """One multiplier per knot and cost; it rises while episodes near the knot cost more than the limit there.

    The multiplier moves in its logarithm and by the ratio (c - b) / (c + b), so neither the scale of the costs nor
    that of the rewards matters. A strong proportional term damps the swings.
    """

    def __init__(self, limits: Float[np.ndarray, "knots k"], *, rate: float, damping: float, least: float) -> None:
        self.limits = limits
        self.rate, self.damping = rate, damping
        self._bounds = math.log(least), _LARGEST
        self.positions = np.linspace(0, 1, len(limits))
        # Tight limits weigh costs from the start: a behavior that has become the same for all limits is slow to split.
        start = np.linspace(math.log(_TIGHT), math.log(_LOOSE), len(limits))
        self.logarithms = np.tile(start[:, None], limits.shape[1])
        self.means = limits.copy()

    def __call__(self, positions: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k"]:
        """Return the multipliers at positions of the sweep."""
        values = self.logarithms + self.damping * self._errors()
        logarithms = np.stack([np.interp(positions, self.positions, column) for column in values.T], axis=1)
        multipliers: np.ndarray = np.exp(logarithms)
        return multipliers

    def features(self, positions: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n knots"]:
        """Return how near each position is to every knot, from 0 to 1; two knots share a position between them."""
        distances = np.abs(positions[..., None] - self.positions) * (len(self.positions) - 1)
        shares: np.ndarray = np.maximum(0, 1 - distances)
        return shares

    def update(self, positions: Float[np.ndarray, " n"], costs: Float[np.ndarray, "n k"]) -> None:
        """Learn from the costs of whole episodes, each run under the limit at its position."""
        hats = self.features(positions)
        seen = hats.sum(axis=0)[:, None]
        means = (hats.T @ costs) / np.maximum(seen, 1e-9)
        kept = np.exp(-seen / _MEMORY)
        self.means[:] = kept * self.means + (1 - kept) * means
        step = np.minimum(self.rate * seen, _LARGEST_STEP)
        self.logarithms[:] = np.clip(self.logarithms + step * self._errors(), *self._bounds)

    def _errors(self) -> Float[np.ndarray, "knots k"]:
        errors: np.ndarray = (self.means - self.limits) / (self.means + self.limits)
        return errors
