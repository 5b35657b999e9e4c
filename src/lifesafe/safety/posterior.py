"""What is known of the mean costs and the mean reward of every target, given all episodes so far.

Notation:
    f       a mean cost on the modeled scale, see `likelihood`
    c       components: dispersions and processes, see `process`
    w       posterior weights of the components                        (c,)
    v       the same, held up: the largest dispersion keeps a tenth, the rough process a quarter

A risk is computed with w and with v, and the larger one counts. So the ledger holds if the world is a draw from the
mixture, and it stays careful if the world is rougher or lumpier than it has looked so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr

from lifesafe.safety.likelihood import FLOOR, dispersion_weights, dispersions, floored, kept, mean_of, scale_of
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
_NODES, _MASSES = np.polynomial.legendre.leggauss(96)  # for lotteries, from -1 to 1
_MEMBERS = 24  # draws along each component, for quantiles
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
class Cost:
    """One mean cost."""

    sums: Sums
    k: int
    """Number of the cost, from 0."""
    phis: Float[np.ndarray, " p"]
    """Dispersions that are considered."""
    shares: Float[np.ndarray, " p"]
    """Posterior weight of each."""
    least: float
    """Weight that the largest dispersion keeps, whatever was seen."""

    @classmethod
    def given(cls, sums: Sums, k: int, s: float, least: float = FLOOR) -> Cost:
        """Return what episodes say of cost k.

        Args:
            sums: The episodes.
            k: Number of the cost, from 0.
            s: Largest cost that can come at once, in limits.
            least: Weight that it keeps as the dispersion, whatever was seen.
        """
        phis = dispersions(s)
        groups = zip(sums.episodes, sums.totals[:, 1 + k], sums.squares[:, 1 + k], strict=True)
        shares = kept(dispersion_weights(phis, groups))
        matter = (shares > 0) | (phis == s)
        return cls(sums, k, phis[matter], shares[matter], least)

    @property
    def phi(self) -> float:
        """Mean dispersion, in limits."""
        return float(self.shares @ self.phis)

    @cached_property
    def fitted(self) -> Fitted:
        """The process given the episodes."""
        return fit(self.sums.X, self.sums.episodes, self.sums.totals[:, 1 + self.k], self.phis)

    @cached_property
    def weights(self) -> Float[np.ndarray, "v c"]:
        """Both weights of every component, w and v; the process runs fastest."""
        evidence = self.fitted.log_evidence.reshape(-1, len(LENGTHS)) + np.log([ROUGH, 1 - ROUGH])
        share = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        rough = share[:, 0] / share.sum(axis=1)
        pairs = (self.shares, rough), (floored(self.shares, self.least), np.maximum(rough, ROUGH))
        return np.stack([np.stack([by_phi * r, by_phi * (1 - r)], axis=1).reshape(-1) for by_phi, r in pairs])

    def tails(self, at: Moments, limit: float = 1.0) -> Float[np.ndarray, " m"]:
        """Return the probability that the mean cost of each target exceeds a limit."""
        return self._larger(ndtr((at.means - scale_of(np.array(limit))) / at.sds))

    def beyond(
        self, center: Moments, others: Moments, covariance: Float[np.ndarray, "c m"], share: float
    ) -> Float[np.ndarray, " m"]:
        """Return the probability that a center keeps the limit and its lottery with another target does not.

        Args:
            center: What is known of the center: of one for all others, or of one for each.
            others: What is known of each of the others.
            covariance: Of f at the center with f at each of the others.
            share: Share of the tickets that the other target has.
        """
        # Nodes end where the center breaks the limit: across that edge the sum would depend on where they fall.
        half = 0.5 * (np.clip((PRIOR_MEAN - center.means) / center.sds, -_FAR, _FAR) + _FAR)[..., None]
        u = half * (_NODES + 1) - _FAR  # (c, 1 or m, q)
        mass = half * _MASSES * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
        off_center = center.sds[..., None] * u
        # The lottery exceeds the limit if f at the other target exceeds this; alone, if it exceeds that of the limit.
        spent = np.zeros(1) if share == 1 else (1 - share) * mean_of(center.means[..., None] + off_center)
        threshold = scale_of(np.maximum((1 - spent) / share, 0.0))
        slope = covariance / center.sds**2  # of the conditional mean in f at the center
        left = np.sqrt(np.maximum(others.sds**2 - covariance * slope, 1e-12))
        conditional = others.means[..., None] + slope[..., None] * off_center
        tail = ndtr((conditional - threshold) / left[..., None])
        return self._larger((tail * mass).sum(axis=-1))

    def quantiles(self, at: Moments, levels: tuple[float, ...]) -> Float[np.ndarray, "l m"]:
        """Return quantiles of the mean cost, in limits, with the weights w."""
        nodes = np.linspace(-4.0, 4.0, _MEMBERS)
        f = (at.means[..., None] + at.sds[..., None] * nodes).transpose(1, 0, 2).reshape(at.means.shape[1], -1)
        mass = (self.weights[0][:, None] * np.exp(-0.5 * nodes**2)).reshape(-1)
        order = np.argsort(f, axis=1)
        below = np.cumsum(mass[order], axis=1) / mass.sum()
        found = [(below < level).sum(axis=1).clip(max=f.shape[1] - 1) for level in levels]
        values = np.take_along_axis(f, order, axis=1)
        return mean_of(np.stack([values[np.arange(len(values)), index] for index in found]))

    def of_f(self, at: Moments) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and deviation of f over all components, with the weights v."""
        careful = self.weights[1]
        mean = careful @ at.means
        return mean, np.sqrt(careful @ (at.sds**2 + at.means**2) - mean**2)

    def _larger(self, by_component: Float[np.ndarray, "c m"]) -> Float[np.ndarray, " m"]:
        return np.asarray((self.weights @ by_component).max(axis=0))


@dataclass(frozen=True, eq=False)
class Reward:
    """The mean reward, as a share of its range: a Gaussian process around the reward that is asked for."""

    sums: Sums
    asked: int | None
    """The axis that asks for a reward; none for knobs, around whose mean reward the process varies."""

    @cached_property
    def _fitted(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]:
        sums, n = self.sums, self.sums.episodes
        mean = sums.totals[:, 0] / n
        squares = float(np.maximum(sums.squares[:, 0] - sums.totals[:, 0] * mean, 0.0).sum())
        df = float((n - 1).sum())
        noise = (squares + _NOISE_DF * _REWARD_NOISE**2) / (df + _NOISE_DF)
        inverse = np.linalg.inv(self._scale * kernels(sums.X, sums.X)[_REWARD_PROCESS] + np.diag(noise / n + 1e-8))
        return inverse @ (mean - self._prior(sums.X)), inverse

    def moments(
        self, Z: Float[np.ndarray, "m d"], cross: Float[np.ndarray, "q m n"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation at some targets, given their prior covariance with those tried."""
        if not len(self.sums.X):
            return self._prior(Z), np.full(len(Z), self._sd)
        a, inverse = self._fitted
        own = self._scale * cross[_REWARD_PROCESS]
        var = self._sd**2 - np.einsum("mn,mn->m", own @ inverse, own)
        return self._prior(Z) + own @ a, np.sqrt(np.maximum(var, 1e-12))

    @property
    def _sd(self) -> float:
        return _UNTOLD_SD if self.asked is None else _REWARD_SD

    @property
    def _scale(self) -> float:
        """Variance of the reward, as a multiple of that of the process whose length it has."""
        return (self._sd / DEVIATIONS[_REWARD_PROCESS]) ** 2

    def _prior(self, Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        if self.asked is not None:
            return Z[:, self.asked]
        n = self.sums.episodes
        first = float(self.sums.totals[0, 0] / n[0]) if len(n) else 0.5
        return np.full(len(Z), first)


@dataclass(frozen=True, eq=False)
class Model:
    """What is known of all mean returns."""

    sums: Sums
    costs: tuple[Cost | None, ...]
    """None for a cost that every single episode keeps for sure."""
    reward: Reward

    def expect(self, Z: Float[np.ndarray, "m d"]) -> Expected:
        """Return what is expected of some targets, every axis from 0 to 1."""
        with one_thread():
            cross = kernels(Z, self.sums.X)
            at = tuple(None if cost is None else cost.fitted.moments(cross) for cost in self.costs)
            return Expected(self, Z, cross, at, *self.reward.moments(Z, cross))


@dataclass(frozen=True, eq=False)
class Expected:
    """What is expected of some targets."""

    model: Model
    Z: Float[np.ndarray, "m d"]
    cross: Float[np.ndarray, "q m n"]
    """Prior covariance with the targets that were tried."""
    at: tuple[Moments | None, ...]
    """What is known of f, for each cost; none for one that is sure."""
    reward: Float[np.ndarray, " m"]
    reward_sd: Float[np.ndarray, " m"]

    def rows(self, chosen: Int[np.ndarray, " r"]) -> Expected:
        """Return what is expected of some of the targets."""
        at = tuple(None if pair is None else pair.rows(chosen) for pair in self.at)
        return Expected(
            self.model, self.Z[chosen], self.cross[:, chosen], at, self.reward[chosen], self.reward_sd[chosen]
        )

    def risks(self, limit: float = 1.0) -> Float[np.ndarray, " m"]:
        """Return the probability that some mean cost of each target exceeds a limit, given in limits."""
        total = np.zeros(len(self.Z))
        for cost, at in self._modeled:
            total += cost.tails(at, limit)
        return np.minimum(total, 1.0)

    def added_to(self, centers: Expected, share: float) -> Float[np.ndarray, " m"]:
        """Return the probability that a center keeps the limits and its lottery with each of these targets does not.

        Args:
            centers: One for all of these targets, or one for each.
            share: Share of the tickets that these targets have; with 1, the event is that they break a limit.
        """
        total = np.zeros(len(self.Z))
        prior = matern(np.sqrt(((self.Z - centers.Z) ** 2).sum(axis=1)))
        processes = len(LENGTHS)
        for (cost, own), (_, center) in zip(self._modeled, centers._modeled, strict=True):
            explained = [
                np.einsum("mn,mn->m", each, np.broadcast_to(centers.cross[c % processes], each.shape))
                for c, each in enumerate(own.explained)
            ]
            covariance = np.tile(prior, (len(explained) // processes, 1)) - np.stack(explained)
            total += cost.beyond(center, own, covariance, share)
        return np.minimum(total, 1.0)

    def quantiles(self, levels: tuple[float, ...]) -> Float[np.ndarray, "l m k"]:
        """Return quantiles of every mean cost, in limits; 0 for a cost that is sure."""
        found = np.zeros((len(levels), len(self.Z), len(self.at)))
        for k, (cost, at) in enumerate(zip(self.model.costs, self.at, strict=True)):
            if cost is not None and at is not None:
                found[..., k] = cost.quantiles(at, levels)
        return found

    @property
    def f(self) -> list[tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]]:
        """Mean and deviation of f, for each cost that is not sure."""
        return [cost.of_f(at) for cost, at in self._modeled]

    @property
    def _modeled(self) -> list[tuple[Cost, Moments]]:
        pairs = zip(self.model.costs, self.at, strict=True)
        return [(cost, at) for cost, at in pairs if cost is not None and at is not None]
