"""The paper's safe set taken literally: a counter-example, never to be used on a real system.

With L = 0 the printed Y_N = union over z in Y_{N-1} of {z' : u_N(z) + L d(z, z') <= b} does not mention z' at all, and
with Lambda_0(z) = [0, b] for every z the bound u_N(z) <= b holds everywhere by construction: after one step all
candidates count as safe, no expander is left, and what remains is unconstrained GP-UCB.
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float

from lifesafe.errors import GuaranteeWarning
from lifesafe.optimizer.posterior import Observation, Posterior
from lifesafe.optimizer.problem import Problem
from lifesafe.theory.bounds import paper_multiplier


class LiteralRule:
    """Chooses targets exactly as the paper's formulas say, for one cost on the linear scale."""

    def __init__(self, problem: Problem) -> None:
        warnings.warn(
            "The literal rule of the paper (L = 0, Lambda_0 = [0, b]) calls every target safe after one step; "
            "it is a counter-example for simulations.",
            GuaranteeWarning,
            stacklevel=2,
        )
        self._problem, self._posterior = problem, Posterior(problem)
        n = len(problem.candidates)
        self._lower, self._upper = np.zeros(n), np.ones(n)  # Lambda_0, in units of the limit
        self._safe = np.zeros(n, dtype=bool)
        self._safe[list(problem.seeds)] = True
        self._trial = 0

    def ask(self) -> int:
        """Return the candidate to try."""
        self._trial += 1
        alpha = paper_multiplier(len(self._problem.candidates), self._trial, self._problem.delta)
        mean, sd = self._posterior.costs[0].moments()
        self._intersect(mean - alpha * sd, mean + alpha * sd)
        # Y_N with L = 0: every target, as soon as one target of Y_{N-1} has an upper bound within the limit.
        if (self._upper[self._safe] <= 1.0).any():
            self._safe[:] = True
        outside = np.flatnonzero(~self._safe)
        if len(outside):  # e_N(z) > 0 for every z of Y_N: the printed sign makes all of them expanders
            return int(np.where(self._safe, self._upper - self._lower, -np.inf).argmax())
        reward = self._posterior.reward
        return int((reward.mean + alpha * np.sqrt(reward.var)).argmax())

    def tell(self, index: int, episodes: Float[np.ndarray, "m r"]) -> None:
        """Add the returns of a trial."""
        self._posterior.observe(Observation(index, episodes))

    def _intersect(self, lower: Float[np.ndarray, " n"], upper: Float[np.ndarray, " n"]) -> None:
        """Lambda_N = Lambda_{N-1} with the new interval; where they do not meet the old one stays."""
        low, high = np.maximum(self._lower, lower), np.minimum(self._upper, upper)
        meets = low <= high
        self._lower[meets], self._upper[meets] = low[meets], high[meets]
