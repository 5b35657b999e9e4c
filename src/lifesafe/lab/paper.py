"""The search of the paper, kept as a rival to compare ours with; not for a real system.

Reference: Wachi et al. 2025, *A Provable Approach for End-to-End Safe Reinforcement Learning*, section "Safe
Exploration and Optimization of Target Returns" and Algorithm 1, which follow StageOpt (Sui et al. 2018).

Notation, with costs in limits (b = 1), rewards in ranges of the reward targets, target axes in length-scales:
    Z                   candidates                                          (n, d)
    mu_N, sigma_N       posterior of the returns, reward first              (n, 1 + K), (n,)
    nu                  deviation of the noise of one observation, the mean of a trial's episodes
    alpha_N             sqrt(2 log(|Z| N² pi² / (6 delta))), Eq. (5)
    Lambda_N = [l, u]   Lambda_{N-1} ∩ [mu_{N-1} ± alpha_N sigma_{N-1}], for each cost
    Y_N, E_N            the safe set and its expanders, Eq. (6)
    N_dagger, N_sharp   trials that explore, trials that maximize

The paper cannot be run as printed. Where it contradicts itself, and what the two readings do:

1. Y_N = union over z in Y_{N-1} of {z' : u_N(z) + L d(z, z') <= b}, with L = 0 in its experiments. The condition
   then does not mention z': one safe z makes every target safe. The proof of Theorem 2 needs a bound at z' itself.
   *printed* takes the formula; *consistent* takes the target's own bound, {z' : u_N(z') <= b}.
2. Lambda_0(z) = [0, b] for every z assumes what is to be shown; Assumption 1 grants it for the starts alone.
   *printed* takes it; *consistent* has [0, b] at the starts and [0, infinity) elsewhere, as StageOpt does.
3. e_N counts the z' outside Y_N with l_N(z) - L d(z, z') <= b. With L = 0 that is the same number for every z with
   l_N(z) <= b. *printed* takes it, and never finds a target outside Y_N. *consistent* asks, as SafeOpt does without a
   Lipschitz constant, whether observing l_N(z) at z would bring the bound of a target outside Y_N below b.
4. Algorithm 1 explores for N_dagger trials, the text until no interval in E_N is wider than zeta; neither is given.
   Both readings explore while N <= N_dagger and E_N has members, and otherwise maximize mu_r + alpha sigma_r.
5. Algorithm 1 operates its last query; the proof of Theorem 3 shows only that one of the queries is good.
   *printed* operates the last; *consistent* the safe query with the largest posterior mean reward.
6. Eq. (5) gives every return the whole delta, so K costs hold together with probability 1 - K delta only.
   *consistent* gives each cost delta / K; with one cost, as in the paper, that is the same.

The model: the paper has RBF kernels of variance 1 with length-scale 50 "of the reward" (100 for the velocity tasks)
and 5 "of the cost", read here as those of the two target axes in raw units, and prior mean 0. It does not give nu,
delta, N_dagger, N_sharp, the grid or the scale of the returns. With variance 1 on raw costs, alpha sigma is below
b = 20 before the first trial and every target is safe in any reading; hence costs in limits.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.errors import ConfigError, GuaranteeWarning, TrialError

_BLOCK = 64  # possible expanders examined at once


@dataclass(frozen=True, kw_only=True)
class PaperSettings:
    """The model and the number of trials."""

    lengthscales: tuple[float, ...] = (50.0, 5.0)
    """Of each target axis, in raw units; the last one serves all further axes. The paper's for its Bullet tasks."""
    sd: float = 1.0
    """Prior standard deviation of every return, in limits and in ranges of the reward. The paper's."""
    noise: float = 0.1
    """Standard deviation nu of one trial's mean, in the same units. The paper gives none."""
    exploration: int = 15
    """N_dagger, how many of the trials may explore. The paper gives none."""
    trials: int = 30
    """N_dagger + N_sharp. The paper gives none."""


class PaperSearch:
    """Chooses targets as the paper does, in one of two readings of its formulas.

    Args:
        candidates: The targets in raw units, the reward first.
        starts: Rows of the targets assumed safe, Z_0.
        limits: One for each cost.
        delta: Allowed probability of failure.
        reading: `printed`, the formulas as they stand, or `consistent`; see the module.
        settings: The model and the number of trials.
    """

    def __init__(
        self,
        candidates: Float[np.ndarray, "n d"],
        starts: tuple[int, ...],
        limits: float | tuple[float, ...],
        *,
        delta: float = 0.1,
        reading: Literal["printed", "consistent"] = "consistent",
        settings: PaperSettings | None = None,
    ) -> None:
        self.settings, self._delta, self._printed = settings or PaperSettings(), delta, reading == "printed"
        self._limits, self._starts = np.atleast_1d(np.asarray(limits, dtype=np.float64)), np.asarray(starts, dtype=int)
        self._check(np.asarray(candidates), reading)
        n, costs = len(candidates), len(self._limits)
        self._lowest, self._range = float(candidates[:, 0].min()), float(np.ptp(candidates[:, 0])) or 1.0
        self._process = _Process(candidates, 1 + costs, self.settings)
        self._asked: list[int] = []
        self._share = 1 if self._printed else costs  # bands of costs that share delta
        self._lower = np.zeros((n, costs))  # Lambda_0
        self._upper = np.full((n, costs), 1.0 if self._printed else np.inf)
        self._upper[self._starts] = 1.0
        self._is_start = np.isin(np.arange(n), self._starts)
        self._safe = self._is_start  # Y_0
        if (bound := self._alpha(self._share) * self.settings.sd) <= 1.0:
            raise ConfigError(f"Every target is safe before any trial: alpha sd = {bound:.2g}; give a larger sd.")
        if self._printed:
            warnings.warn(
                "The search as printed (L = 0, Lambda_0 = [0, b]) calls every target safe after one step; "
                "it is a counter-example for simulations.",
                GuaranteeWarning,
                stacklevel=2,
            )
        self._update_bounds()

    @property
    def safe(self) -> Bool[np.ndarray, " n"]:
        """The safe set Y_N of the next trial."""
        return self._safe.copy()

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """Lower and upper bounds Lambda_N of the next trial, in limits."""
        return self._lower.copy(), self._upper.copy()

    @property
    def posterior(self) -> tuple[Float[np.ndarray, "n r"], Float[np.ndarray, " n"]]:
        """Mean of each return and the deviation they share, in ranges of the reward and in limits."""
        return self._process.mean.copy(), np.sqrt(self._process.variance)

    def ask(self) -> int:
        """Return the row to try next; the same one until its episodes are told."""
        if len(self._asked) >= self.settings.trials:
            raise TrialError(f"All {self.settings.trials} trials are done; give more in the settings.")
        if len(self._asked) < self.settings.exploration:
            expander = self._printed_expander() if self._printed else self._expander()
            if expander is not None:
                return expander
        reward = self._process.mean[:, 0] + self._alpha(1) * np.sqrt(self._process.variance)
        return self._largest(reward, self._safe)

    def tell(self, index: int, episodes: Float[np.ndarray, "m r"]) -> None:
        """Add a trial: the returns of its episodes, the reward first; their mean is one observation."""
        if not 0 <= index < len(self._safe):
            raise TrialError(f"Got row {index}; there are {len(self._safe)} candidates.")
        width = 1 + len(self._limits)
        if episodes.ndim != 2 or not len(episodes) or episodes.shape[1] != width or not np.isfinite(episodes).all():
            raise TrialError(f"Got returns of shape {episodes.shape}; give finite ones of shape (m, {width}), m > 0.")
        mean = episodes.mean(axis=0)
        self._process.observe(index, np.append((mean[0] - self._lowest) / self._range, mean[1:] / self._limits))
        self._asked.append(index)
        self._update_bounds()

    @property
    def best(self) -> int:
        """The row to operate."""
        if not self._asked:
            return int(self._starts[0])
        if self._printed:
            return self._asked[-1]
        tried = np.isin(np.arange(len(self._safe)), self._asked) | self._is_start
        return self._largest(self._process.mean[:, 0], tried & self._safe)

    def _alpha(self, bands: int) -> float:
        """Return alpha_N of the next trial, Eq. (5), for one of so many bands that hold together."""
        number = len(self._asked) + 1
        return math.sqrt(2.0 * math.log(len(self._safe) * bands * number**2 * math.pi**2 / (6.0 * self._delta)))

    def _update_bounds(self) -> None:
        """Set Lambda_N and Y_N."""
        mean, half = self._process.mean[:, 1:], self._alpha(self._share) * np.sqrt(self._process.variance)[:, None]
        low, high = np.maximum(self._lower, mean - half), np.minimum(self._upper, mean + half)
        # NOTE: The paper does not say what an empty intersection means. The consistent reading then believes the newer
        # interval, so a target that proved too costly is unsafe again; the starts and the print keep the older one.
        meet, old = low <= high, self._printed | self._is_start[:, None]
        self._lower = np.where(meet, low, np.where(old, self._lower, mean - half))
        self._upper = np.where(meet, high, np.where(old, self._upper, mean + half))
        keeps = np.asarray((self._upper <= 1.0).all(axis=1))
        if self._printed:  # u_N(z) of one z in Y_{N-1} decides about every z'
            keeps[:] = (keeps & self._safe).any()
        self._safe = keeps

    def _printed_expander(self) -> int | None:
        """Return the widest target of E_N as printed, with L = 0."""
        e = (~self._safe).sum() * (self._lower <= 1.0).all(axis=1)
        expanders = np.asarray(self._safe & (e > 0))
        return self._largest(self._width(), expanders) if expanders.any() else None

    def _expander(self) -> int | None:
        """Return the widest safe target that could make an unsafe one safe, None if there is none."""
        process, alpha = self._process, self._alpha(self._share)
        outside = np.flatnonzero(~self._safe & (self._lower <= 1.0).all(axis=1))
        order = np.flatnonzero(self._safe)
        order = order[np.argsort(-self._width()[order], kind="stable")]
        for first in range(0, len(order), _BLOCK):
            rows = order[first : first + _BLOCK]
            covariance = process.covariance(rows, outside)
            weight = covariance / (process.variance[rows] + process.noise**2)[:, None]
            half = alpha * np.sqrt(np.maximum(process.variance[outside] - weight * covariance, 0.0))
            joins = np.ones(covariance.shape, dtype=bool)
            for k in range(len(self._limits)):
                surprise = self._lower[rows, k] - process.mean[rows, 1 + k]
                upper = process.mean[outside, 1 + k] + weight * surprise[:, None] + half
                joins &= np.minimum(upper, self._upper[outside, k]) <= 1.0
            expands = joins.any(axis=1)
            if expands.any():
                return int(rows[expands.argmax()])
        return None

    def _width(self) -> Float[np.ndarray, " n"]:
        """Return u_N - l_N, of the widest cost."""
        return np.asarray((self._upper - self._lower).max(axis=1))

    def _largest(self, score: Float[np.ndarray, " n"], among: Bool[np.ndarray, " n"]) -> int:
        """Return the row with the largest score; of equal ones a start, then the first."""
        rows = np.flatnonzero(among)
        rows = rows[score[rows] == score[rows].max()]
        starts = rows[self._is_start[rows]]
        return int(starts[0] if len(starts) else rows[0])

    def _check(self, candidates: Float[np.ndarray, "n d"], reading: str) -> None:
        """Raise for what a caller can get wrong."""
        if candidates.ndim != 2 or not candidates.size or not np.isfinite(candidates).all():
            raise ConfigError(f"Got candidates of shape {candidates.shape}; give finite targets of shape (n, d).")
        if not len(self._starts) or self._starts.min() < 0 or self._starts.max() >= len(candidates):
            raise ConfigError(f"Got starts {self._starts.tolist()}; give rows of the {len(candidates)} candidates.")
        if not len(self._limits) or not (np.isfinite(self._limits) & (self._limits > 0)).all():
            raise ConfigError(f"Got limits {self._limits.tolist()}; give one above 0 for each cost.")
        if not 0 < self._delta < 1:
            raise ConfigError(f"Got delta = {self._delta}; give a value between 0 and 1.")
        if reading not in ("printed", "consistent"):
            raise ConfigError(f"Unknown reading {reading!r}; choose printed or consistent.")
        own = self.settings
        if not own.lengthscales or min(*own.lengthscales, own.sd, own.noise, own.trials) <= 0:
            raise ConfigError(f"Got {own}; give length-scales, sd, noise and trials above 0.")


class _Process:
    """The exact posterior of several returns that share a kernel and a noise, brought up to date row by row."""

    def __init__(self, Z: Float[np.ndarray, "n d"], outputs: int, settings: PaperSettings) -> None:
        lengths = [*settings.lengthscales, *settings.lengthscales[-1:] * Z.shape[1]][: Z.shape[1]]
        self._Z, self._prior, self.noise = (Z - Z.mean(axis=0)) / np.array(lengths), settings.sd**2, settings.noise
        self._factor = np.empty((0, len(Z)))  # L^-1 K, one row for each observation
        self.mean = np.zeros((len(Z), outputs))
        self.variance = np.full(len(Z), self._prior)

    def observe(self, index: int, values: Float[np.ndarray, " r"]) -> None:
        """Add one observation of every return: one more row of the Cholesky factor."""
        sd = math.sqrt(self.variance[index] + self.noise**2)
        row = self.covariance(np.array([index]), np.arange(len(self._Z)))[0] / sd
        self.mean = self.mean + np.outer(row, (values - self.mean[index]) / sd)
        self.variance = np.maximum(self.variance - row**2, 0.0)
        self._factor = np.vstack([self._factor, row])

    def covariance(self, rows: Int[np.ndarray, " a"], columns: Int[np.ndarray, " b"]) -> Float[np.ndarray, "a b"]:
        """Return the posterior covariance of some targets with others."""
        A, B = self._Z[rows], self._Z[columns]
        distance = np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T, 0.0)
        K = self._prior * np.exp(-0.5 * distance)
        return np.asarray(K - self._factor[:, rows].T @ self._factor[:, columns])
