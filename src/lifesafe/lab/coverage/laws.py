"""Laws of the costs of single episodes, with and without a stop.

An episode lasts from time 0 to time 1, and its cost only grows. It has a steady part, many small steps spread evenly
over the episode, and at most one fall, a lump of cost at a uniformly distributed time. With a stop, the episode ends
as soon as its cost reaches the stop. A fall is many steps in quick succession, so the stop interrupts it as well.
Costs are whole numbers of steps, so a stopped episode costs the smallest number of steps that reaches the stop.

Notation:
    m       mean cost of an episode at a target                       any shape
    t       time, from 0 to 1                                         any shape
    N(t)    steps of the steady part until t: Poisson of mean g mu(t)
    mu(t)   (1 - share) m t / step
    g       vigor of the episode: gamma with mean 1, variance 1 / k, so that N(t) is negative binomial
    s, L    steps that reach the stop; steps of a fall
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

from lifesafe.errors import ConfigError

Array = Float[np.ndarray, "..."]


@dataclass(frozen=True, kw_only=True)
class Paths:
    """The costs of some episodes as they grow in time."""

    vigor: Float[np.ndarray, " m"]
    events: Float[np.ndarray, "m e"]
    """Sorted times of the steady steps, infinite beyond the last."""
    falls: Float[np.ndarray, " m"]
    """Time of the fall, infinite where there is none."""
    step: float
    fall_steps: int

    def costs(self, times: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return what each episode has cost until its time."""
        steady = (self.events <= times[:, None]).sum(axis=1)
        return np.asarray(self.step * (steady + self.fall_steps * (self.falls <= times)))

    def ends(self, stop: float) -> Float[np.ndarray, " m"]:
        """Return when the cost of each episode reaches the stop; infinite where it never does."""
        needed = math.ceil(stop / self.step)
        after_fall = self._time(needed - self.fall_steps)
        return np.asarray(np.minimum(self._time(needed), np.maximum(self.falls, after_fall)))

    def _time(self, count: int) -> Float[np.ndarray, " m"]:
        """Return when the steady part has made so many steps."""
        if count > self.events.shape[1]:
            return np.full(len(self.events), np.inf)
        return self.events[:, count - 1] if count > 0 else np.zeros(len(self.events))


@dataclass(frozen=True, kw_only=True)
class Law:
    """The law of an episode's cost around its mean."""

    k: float = 3.0
    """Variance of the steady part is m step + m^2 / k; infinite for Poisson."""
    step: float = 1.0
    """Smallest amount of cost."""
    size: float = 0.0
    """Cost of a fall, rounded to whole steps."""
    share: float = 0.0
    """Share of the mean that comes from falls."""

    def __post_init__(self) -> None:
        if self.k <= 0 or self.step <= 0 or not 0 <= self.share <= 1 or (self.share > 0 and self.fall_steps < 1):
            raise ConfigError(
                f"Got {self}; k and step must be positive, share between 0 and 1, and falls at least one step large."
            )

    @property
    def fall_steps(self) -> int:
        """Steps of cost in one fall."""
        return round(self.size / self.step)

    def cap(self, stop: float) -> float:
        """Return what an episode costs that is ended by the stop."""
        return self.step * math.ceil(stop / self.step)

    def draw(self, mean: Float[np.ndarray, " m"], rng: np.random.Generator) -> Paths:
        """Return one episode for each mean."""
        vigor = rng.gamma(self.k, 1 / self.k, len(mean)) if math.isfinite(self.k) else np.ones(len(mean))
        counts = rng.poisson(vigor * (1 - self.share) * mean / self.step)
        exists = np.arange(counts.max(initial=0)) < counts[:, None]
        events = np.sort(np.where(exists, rng.random(exists.shape), np.inf), axis=1)
        falls = np.where(rng.random(len(mean)) < self._fall(mean), rng.random(len(mean)), np.inf)
        return Paths(vigor=vigor, events=events, falls=falls, step=self.step, fall_steps=self.fall_steps)

    def mean(self, mean: Array, time: Array | float = 1.0, stop: float | None = None) -> Array:
        """Return the exact mean cost until the given time, where an episode that reaches the stop has been ended.

        Without a stop this is `mean` times `time`, unless the mean is so large that one fall is too little.
        """
        mu, fallen = (1 - self.share) * mean * time / self.step, self._fall(mean) * time
        if stop is None:
            return np.asarray(self.step * (mu + self.fall_steps * fallen))
        s = math.ceil(stop / self.step)
        jump = min(self.fall_steps, s)
        with_fall = jump + self._capped(mu, s - jump)
        return np.asarray(self.step * ((1 - fallen) * self._capped(mu, s) + fallen * with_fall))

    def below(self, mean: Array, time: Array | float, stop: float) -> Array:
        """Return the probability that the cost until the given time is below the stop."""
        mu, fallen = (1 - self.share) * mean * time / self.step, self._fall(mean) * time
        s = math.ceil(stop / self.step)
        return np.asarray((1 - fallen) * self._fewer(mu, s) + fallen * self._fewer(mu, s - self.fall_steps))

    def _fall(self, mean: Array) -> Array:
        size = max(self.fall_steps, 1) * self.step
        return np.asarray(np.minimum(self.share * mean / size, 1.0))

    def _fewer(self, mu: Array, s: int, weights: int = 0) -> Array:
        """Return P(N < s); with `weights` = 1, that of N with its gamma factor weighted by itself."""
        if s <= 0:
            return np.zeros_like(mu)
        if math.isinf(self.k):
            return np.asarray(special.gammaincc(s, mu))
        return np.asarray(special.betainc(self.k + weights, s, self.k / (self.k + mu)))

    def _capped(self, mu: Array, s: int) -> Array:
        """Return E min(N, s), from n P(N = n) = mu P(N' = n - 1), where N' has the shape k + 1 and the same scale."""
        return np.asarray(mu * self._fewer(mu, s - 1, weights=1) + s * (1 - self._fewer(mu, s)))


def negative_binomial(k: float = 3.0) -> Law:
    """Return the law of steady costs that differ much between episodes: variance m + m^2 / k."""
    return Law(k=k)


def poisson() -> Law:
    """Return the law of steady costs that come independently."""
    return Law(k=math.inf)


def nearly_fixed() -> Law:
    """Return the law of a machine that repeats itself: the standard deviation is 9 % of a mean of 20."""
    return Law(k=400.0, step=0.1)


def lumps(size: float) -> Law:
    """Return the law of episodes that cost nothing or, seldom, the given size."""
    return Law(k=math.inf, size=size, share=1.0)


def steady_with_falls(size: float, share: float = 0.5, k: float = 3.0) -> Law:
    """Return the law of steady costs and rare falls of the given size, which carry a share of the mean."""
    return Law(k=k, size=size, share=share)
