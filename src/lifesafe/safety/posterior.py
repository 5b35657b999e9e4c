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
from jaxtyping import Float
from scipy.special import ndtr

from lifesafe.safety.likelihood import FLOOR, dispersion_weights, dispersions, floored, kept, mean_of, scale_of
from lifesafe.safety.process import LENGTHS, ROUGH, Fitted, fit, kernels

_FAR = 6.0  # deviations from a mean beyond which nothing matters
_NODES, _MASSES = np.polynomial.legendre.leggauss(96)  # for lotteries, from -1 to 1
_MEMBERS = 24  # draws along each component, for quantiles
_REWARD_LENGTH = 1.0
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

    fitted: Fitted
    weights: Float[np.ndarray, " c"]
    """w."""
    careful: Float[np.ndarray, " c"]
    """v."""
    phi: float
    """Mean dispersion, in limits."""

    @classmethod
    def given(cls, sums: Sums, k: int, s: float, least: float = FLOOR) -> Cost:
        """Return what episodes say of cost k.

        Args:
            sums: The episodes.
            k: Number of the cost, from 0.
            s: Largest cost that can come at once, in limits.
            least: Weight that it keeps as the dispersion, whatever was seen.
        """
        n, S, Q = sums.episodes, sums.totals[:, 1 + k], sums.squares[:, 1 + k]
        phis = dispersions(s)
        weights = kept(dispersion_weights(phis, zip(n, S, Q, strict=True)))
        chosen = (weights > 0) | (phis == s)
        fitted = fit(sums.X, n, S, phis[chosen])
        evidence = fitted.log_evidence.reshape(-1, len(LENGTHS)) + np.log([ROUGH, 1 - ROUGH])
        share = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        rough = share[:, 0] / share.sum(axis=1)
        phi = float(weights @ phis)
        plain = _components(weights[chosen], rough)
        careful = _components(floored(weights[chosen], least), np.maximum(rough, ROUGH))
        return cls(fitted, plain, careful, phi)

    def tails(
        self, means: Float[np.ndarray, "c m"], sds: Float[np.ndarray, "c m"], limit: float = 1.0
    ) -> Float[np.ndarray, " m"]:
        """Return the probability that the mean cost exceeds a limit, given the moments of f."""
        return self._larger(ndtr((means - scale_of(np.array(limit))) / sds))

    def beyond(
        self,
        center: tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]],
        others: tuple[Float[np.ndarray, "c m"], Float[np.ndarray, "c m"]],
        covariance: Float[np.ndarray, "c m"],
        share: float,
    ) -> Float[np.ndarray, " m"]:
        """Return the probability that a center keeps the limit and its lottery with another target does not.

        Args:
            center: Mean and deviation of f at the center.
            others: The same at each of the others.
            covariance: Of f at the center with f at each of the others.
            share: Share of the tickets that the other target has.
        """
        mean, sd = center
        # Nodes end where the center breaks the limit: across that edge the sum would depend on where they fall.
        half = 0.5 * (np.clip((1.0 - mean) / sd, -_FAR, _FAR) + _FAR)[:, None]  # f is 1 at the limit
        u = half * (_NODES + 1) - _FAR  # (c, q)
        mass = half * _MASSES * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
        f = mean[:, None] + sd[:, None] * u
        m = mean_of(f)
        # The lottery exceeds the limit if the other target's mean cost exceeds this.
        threshold = scale_of(np.maximum((1 - (1 - share) * m) / share, 0.0))
        slope = covariance / sd[:, None] ** 2  # of the conditional mean in f at the center
        left = np.sqrt(np.maximum(others[1] ** 2 - covariance * slope, 1e-12))
        conditional = others[0][:, :, None] + slope[:, :, None] * (f - mean[:, None])[:, None, :]
        tail = ndtr((conditional - threshold[:, None, :]) / left[:, :, None])
        return self._larger(np.einsum("cmq,cq->cm", tail, mass))

    def quantiles(
        self, means: Float[np.ndarray, "c m"], sds: Float[np.ndarray, "c m"], levels: tuple[float, ...]
    ) -> Float[np.ndarray, "l m"]:
        """Return quantiles of the mean cost, in limits, with the weights w."""
        nodes = np.linspace(-4.0, 4.0, _MEMBERS)
        f = (means[..., None] + sds[..., None] * nodes).transpose(1, 0, 2).reshape(means.shape[1], -1)
        mass = (self.weights[:, None] * np.exp(-0.5 * nodes**2)).reshape(-1)
        order = np.argsort(f, axis=1)
        below = np.cumsum(mass[order], axis=1) / mass.sum()
        at = [(below < level).sum(axis=1).clip(max=f.shape[1] - 1) for level in levels]
        values = np.take_along_axis(f, order, axis=1)
        return mean_of(np.stack([values[np.arange(len(values)), index] for index in at]))

    def moments(
        self, means: Float[np.ndarray, "c m"], sds: Float[np.ndarray, "c m"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and deviation of f over all components, with the weights v."""
        mean = self.careful @ means
        return mean, np.sqrt(self.careful @ (sds**2 + means**2) - mean**2)

    def _larger(self, by_component: Float[np.ndarray, "c m"]) -> Float[np.ndarray, " m"]:
        return np.asarray(np.maximum(self.weights @ by_component, self.careful @ by_component))


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
        inverse = np.linalg.inv(self._kernel(sums.X, sums.X) + np.diag(noise / n + 1e-8))
        return inverse @ (mean - self._prior(sums.X)), inverse

    def moments(self, Z: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return mean and standard deviation at some targets."""
        if not len(self.sums.X):
            return self._prior(Z), np.full(len(Z), self._sd)
        a, inverse = self._fitted
        cross = self._kernel(Z, self.sums.X)
        var = self._sd**2 - np.einsum("mn,mn->m", cross @ inverse, cross)
        return self._prior(Z) + cross @ a, np.sqrt(np.maximum(var, 1e-12))

    @property
    def _sd(self) -> float:
        return _UNTOLD_SD if self.asked is None else _REWARD_SD

    def _kernel(self, Z: Float[np.ndarray, "m d"], X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m n"]:
        smooth = LENGTHS.index(_REWARD_LENGTH)
        return np.asarray(kernels(Z, X)[smooth] * (self._sd**2 / kernels(Z[:1], Z[:1])[smooth][0, 0]))

    def _prior(self, Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        if self.asked is not None:
            return Z[:, self.asked]
        n = self.sums.episodes
        first = float(self.sums.totals[0, 0] / n[0]) if len(n) else 0.5
        return np.full(len(Z), first)


def _components(by_phi: Float[np.ndarray, " p"], rough: Float[np.ndarray, " p"]) -> Float[np.ndarray, " c"]:
    """Return the weights of all components, the process running fastest."""
    return np.stack([by_phi * rough, by_phi * (1 - rough)], axis=1).reshape(-1)
