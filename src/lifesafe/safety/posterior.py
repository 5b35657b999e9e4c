"""What is known of the mean costs and the mean reward of every target, given all episodes so far.

Notation:
    f       a mean cost on the modeled scale, see `likelihood`
    c       components: dispersions and processes of every cost, one cost after the other, see `process`
    w       posterior weights of the components of each cost           (k, c)
    v       the same, held up: the largest dispersion keeps a tenth, the rough process a quarter

A risk is computed with w and with v, and the larger one counts. So the ledger holds if the world is a draw from the
mixture, and it stays careful if the world is rougher or lumpier than it has looked so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from lifesafe.safety.likelihood import FLOOR, dispersions, floored, mean_of, scale_of
from lifesafe.safety.process import (
    DEVIATIONS,
    LENGTHS,
    PRIOR_MEAN,
    ROUGH,
    Fitted,
    Moments,
    fit,
    kernels,
    matern,
    one_thread,
)

_FAR = 6.0  # deviations from a mean beyond which nothing matters
_LOW = 3.0  # deviations below a mean at which a lower bound looks
_NODES, _MASSES = np.polynomial.legendre.leggauss(96)  # for lotteries, from -1 to 1
_MEMBERS = 24  # draws along each component, for quantiles
_TIE = 1e-9  # half of the draws of one component lie below its middle, but for rounding
_REWARD_PROCESS = LENGTHS.index(1.0)  # whose length the mean reward has
_REWARD_SD, _UNTOLD_SD = 0.2, 0.5  # of a mean reward around the one asked for, and around a constant; in ranges
_REWARD_NOISE, _NOISE_DF = 0.05, 4.0  # prior of the noise of an episode's reward


@dataclass(frozen=True, eq=False)
class Sums:
    """What the episodes of all targets add up to: one row a target, the reward first."""

    X: Float[np.ndarray, "n d"]
    """Targets, every axis from 0 to 1."""
    episodes: Float[np.ndarray, " n"]
    totals: Float[np.ndarray, "n r"]
    """Sums of the returns: rewards as shares of their range, costs in limits."""
    squares: Float[np.ndarray, "n r"]


@dataclass(frozen=True, eq=False)
class CostModel:
    """How lumpy one cost is."""

    phis: Float[np.ndarray, " p"]
    """Dispersions that matter."""
    shares: Float[np.ndarray, " p"]
    """Posterior weight of each."""

    @property
    def phi(self) -> float:
        """Mean dispersion, in limits."""
        return float(self.shares @ self.phis)


class Reward:
    """The mean reward, as a share of its range: a Gaussian process around the reward that is asked for."""

    def __init__(self, sums: Sums, asked: int | None) -> None:
        """Condition the process on episodes; without an axis that asks for a reward it varies around their mean."""
        n, told = sums.episodes, sums.totals[:, 0]
        mean = told / n
        squares = float(np.maximum(sums.squares[:, 0] - told * mean, 0.0).sum())
        df = float((n - 1).sum())
        noise = (squares + _NOISE_DF * _REWARD_NOISE**2) / (df + _NOISE_DF)
        # The mean reward that is expected without episodes is linear in the target: what is asked for, or a constant.
        self._slope = np.zeros(sums.X.shape[1])
        if asked is None:
            self._sd, self._constant = _UNTOLD_SD, float(mean[0]) if len(n) else 0.5
        else:
            self._sd, self._constant, self._slope[asked] = _REWARD_SD, 0.0, 1.0
        # A multiple of the process whose length it has.
        self._scale = (self._sd / DEVIATIONS[_REWARD_PROCESS]) ** 2
        K = self._scale * kernels(sums.X, sums.X)[_REWARD_PROCESS]
        self._inverse = np.linalg.inv(K + np.diag(noise / n + 1e-8))
        self._a = self._inverse @ (mean - self._constant - sums.X @ self._slope)

    def moments(
        self, Z: Float[np.ndarray, "m d"], cross: Float[np.ndarray, "q m n"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation at some targets, given their prior covariance with those tried."""
        own = self._scale * cross[_REWARD_PROCESS]
        var = self._sd**2 - np.einsum("mn,mn->m", own @ self._inverse, own)
        return self._constant + Z @ self._slope + own @ self._a, np.sqrt(np.maximum(var, 1e-12))


@dataclass(frozen=True, eq=False)
class Model:
    """What is known of all mean returns."""

    sums: Sums
    costs: tuple[CostModel | None, ...]
    """None for a cost that every single episode keeps for sure."""
    of: Int[np.ndarray, " c"]
    """The cost of each component."""
    fitted: Fitted
    """The processes of all components."""
    weights: Float[np.ndarray, "v k c"]
    """Both weights of every component, w and v; zero for components of other costs."""
    reward: Reward

    @classmethod
    def given(cls, sums: Sums, lumps: Sequence[float | None], asked: int | None, least: float = FLOOR) -> Model:
        """Return what episodes say, given the largest cost that can come at once in limits; none for a sure one."""
        columns = zip(lumps, sums.totals.T[1:], sums.squares.T[1:], strict=True)
        costs = tuple(None if s is None else CostModel(*dispersions(s, sums.episodes, S, S2)) for s, S, S2 in columns)
        modeled = [(k, cost) for k, cost in enumerate(costs) if cost is not None]
        of = np.array([k for k, cost in modeled for _ in cost.phis], dtype=np.intp)
        phis = np.array([phi for _, cost in modeled for phi in cost.phis])
        with one_thread():
            reward, fitted = Reward(sums, asked), fit(sums.X, sums.episodes, sums.totals.T[1 + of], phis, of)
        of = np.repeat(of, len(LENGTHS))
        weights = np.zeros((2, len(costs), len(of)))
        for k, cost in modeled:
            weights[:, k, of == k] = _weights(cost.shares, fitted.log_evidence[of == k], least)
        return cls(sums, costs, of, fitted, weights, reward)

    def expect(self, Z: Float[np.ndarray, "m d"]) -> Expected:
        """Return what is expected of some targets, every axis from 0 to 1."""
        with one_thread():
            cross = kernels(Z, self.sums.X)
            return Expected(self, Z, cross, self.fitted.moments(cross), *self.reward.moments(Z, cross))

    def rewards(self, Z: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation of the mean rewards of some targets."""
        with one_thread():
            return self.reward.moments(Z, kernels(Z, self.sums.X))


@dataclass(frozen=True, eq=False)
class Expected:
    """What is expected of some targets."""

    model: Model
    Z: Float[np.ndarray, "m d"]
    cross: Float[np.ndarray, "q m n"]
    """Prior covariance with the targets that were tried."""
    at: Moments
    """What is known of f, in all components."""
    reward: Float[np.ndarray, " m"]
    reward_sd: Float[np.ndarray, " m"]

    def rows(self, chosen: Int[np.ndarray, " r"]) -> Expected:
        """Return what is expected of some of the targets."""
        at = Moments(self.at.means[:, chosen], self.at.sds[:, chosen], self.at.explained[:, chosen])
        return Expected(
            self.model, self.Z[chosen], self.cross[:, chosen], at, self.reward[chosen], self.reward_sd[chosen]
        )

    def risks(self, limit: float = 1.0) -> Float[np.ndarray, " m"]:
        """Return the probability that some mean cost of each target exceeds a limit, given in limits."""
        return self._of_any(ndtr((self.at.means - scale_of(np.array(limit))) / self.at.sds))

    def added_to(self, centers: Expected, share: float) -> Float[np.ndarray, " m"]:
        """Return the probability that a center keeps the limits and its lottery with each of these targets does not.

        Args:
            centers: One for all of these targets, or one for each.
            share: Share of the tickets that these targets have; with 1, the event is that they break a limit.
        """
        at, own = centers.at, self.at
        prior = matern(np.sqrt(((self.Z - centers.Z) ** 2).sum(axis=1)))  # (q, m)
        by_process = own.explained.reshape(len(own.means) // len(LENGTHS), *self.cross.shape)  # (p, q, m, n)
        covariance = (prior - np.einsum("pqmn,qmn->pqm", by_process, centers.cross)).reshape(own.means.shape)
        # Nodes end where the center breaks the limit: across that edge the sum would depend on where they fall.
        half = 0.5 * (np.clip((PRIOR_MEAN - at.means) / at.sds, -_FAR, _FAR) + _FAR)[..., None]
        u = half * (_NODES + 1) - _FAR  # (c, 1 or m, q)
        mass = half * _MASSES * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
        off_center = at.sds[..., None] * u
        # The lottery exceeds the limit if f at the other target exceeds this; alone, if it exceeds that of the limit.
        spent = np.zeros(1) if share == 1 else (1 - share) * mean_of(at.means[..., None] + off_center)
        threshold = scale_of(np.maximum((1 - spent) / share, 0.0))
        slope = covariance / at.sds**2  # of the conditional mean in f at the center
        left = np.sqrt(np.maximum(own.sds**2 - covariance * slope, 1e-12))
        conditional = own.means[..., None] + slope[..., None] * off_center
        return self._of_any((ndtr((conditional - threshold) / left[..., None]) * mass).sum(axis=-1))

    def added_at_least(self, centers: Expected, share: float) -> Float[np.ndarray, " m"]:
        """Return a lower bound of `added_to` for one center, which takes a small part of the time.

        The lottery exceeds the limit for sure where the center lies between its quantile at -3 deviations and the
        limit, and the other target exceeds what is left for it there.
        """
        at, own = centers.at, self.at
        left = np.maximum((1 - (1 - share) * mean_of(at.means - _LOW * at.sds)) / share, 0.0)
        missed = ndtr(-_LOW) + ndtr((at.means - PRIOR_MEAN) / at.sds)
        return self._of_any(np.maximum(ndtr((own.means - scale_of(left)) / own.sds) - missed, 0.0))

    def quantiles(self, levels: tuple[float, ...]) -> Float[np.ndarray, "l m k"]:
        """Return quantiles of every mean cost, in limits, with the weights w; 0 for a cost that is sure."""
        nodes = np.linspace(-4.0, 4.0, _MEMBERS)
        found = np.zeros((len(levels), len(self.Z), len(self.model.costs)))
        for k, cost in enumerate(self.model.costs):
            if cost is not None:
                weights = self.model.weights[0, k]
                own = self.model.of == k
                draws = self.at.means[own, :, None] + self.at.sds[own, :, None] * nodes  # (c, m, q)
                f = draws.transpose(1, 0, 2).reshape(len(self.Z), -1)
                mass = (weights[own, None] * np.exp(-0.5 * nodes**2)).reshape(-1)
                order = np.argsort(f, axis=1)
                below = np.cumsum(mass[order], axis=1) / mass.sum()
                for one, level in zip(found, levels, strict=True):
                    index = (below < level - _TIE).sum(axis=1, keepdims=True).clip(max=f.shape[1] - 1)
                    draw = np.take_along_axis(order, index, axis=1)
                    one[:, k] = mean_of(np.take_along_axis(f, draw, axis=1)[:, 0])
        return found

    def of_f(self) -> tuple[Float[np.ndarray, "k m"], Float[np.ndarray, "k m"]]:
        """Return mean and deviation of f over all components, with the weights v; 0 for a cost that is sure."""
        careful = self.model.weights[1]
        mean = careful @ self.at.means
        return mean, np.sqrt(careful @ (self.at.sds**2 + self.at.means**2) - mean**2)

    def _of_any(self, by_component: Float[np.ndarray, "c m"]) -> Float[np.ndarray, " m"]:
        """Return the probability of an event of any cost: the larger one of both weights, and at most 1."""
        return np.asarray(np.minimum((self.model.weights @ by_component).max(axis=0).sum(axis=0), 1.0))


def _weights(
    shares: Float[np.ndarray, " p"], log_evidence: Float[np.ndarray, " c"], least: float
) -> Float[np.ndarray, "v c"]:
    """Return both weights of the components of one cost, w and v."""
    evidence = log_evidence.reshape(len(shares), -1) + np.log([ROUGH, 1 - ROUGH])
    share = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    rough = share[:, 0] / share.sum(axis=1)
    pairs = (shares, rough), (floored(shares, least), np.maximum(rough, ROUGH))
    return np.stack([np.stack([by_phi * r, by_phi * (1 - r)], axis=1).reshape(-1) for by_phi, r in pairs])
