"""The watch: has the mean cost of the target that is served risen above its limit?

Notation:
    X_t         cost of episode t since the target is served, at least 0                            ()
    b           limit on its mean                                                                   ()
    lambda_i    bet, in (0, 1/b)                                                                    (I,)
    w_i         weight of a bet, summing to 1                                                       (I,)
    gamma_t     share of the wealth that begins to bet at episode t; sum gamma_t <= 1               ()
    M_t,i       evidence, (1 + lambda_i (X_t - b)) (M_t-1,i + w_i gamma_t), from M_0,i = 0          (I,)
    a           level of one cost: the level of the watch divided by the number of costs            ()

Rules:
    mean        sum_i M_t,i >= 1/a
    bound       an episode costs more than the largest cost that was stated, by more than rounding

Theorem (few false alarms): if in every episode, given those before, the mean cost is at most b, then sum_i M_t,i plus
the shares that do not bet yet is a nonnegative supermartingale that starts at or below 1. So the rule "mean" *ever*
raises an alarm with probability at most a, whatever the distribution of the costs and without a largest cost. A target
that is served again later begins a new watch, with a probability of its own.

Theorem (silence): `silent_mean` bounds the realised mean cost, for sure. The proofs are in docs/guarantee.md.

Reference: Shin, Ramdas & Rinaldo 2024, *E-detectors: a nonparametric framework for sequential change detection*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float

from lifesafe._config import from_plain, to_plain
from lifesafe.errors import ConfigError
from lifesafe.safety.betting import ROUNDING, Costs, checked_costs

Rule = Literal["bound", "mean"]

_BETS = 0.95 * np.geomspace(0.02, 1.0, 8)  # lambda_i in units of 1/b; all weigh the same
_FIRST = 0.5
"""gamma_1; gamma_t is proportional to 1 / (n log^2 n) at n = t + 9 for t >= 2."""
_SUM = 0.4251569635730
"""Sum of 1 / (n log^2 n) over n >= 11 (0.42515696357296932...), rounded up so that sum gamma_t <= 1."""
_MOST = 1e300  # evidence is kept below this, far above every 1/a, so that it can be stored
_BATCH = 4096  # episodes handled at once: memory does not grow with what is given


@dataclass(frozen=True, kw_only=True)
class Excess:
    """A cost that is too high."""

    rule: Rule
    """Which rule noticed."""
    cost: int
    """Number of the cost, from 0."""
    episode: int
    """Episode since the target is served, from 1."""
    mean: float
    """Mean of that cost over all those episodes."""
    limit: float
    """Its limit."""
    costs: int
    """How many costs are watched."""

    def __str__(self) -> str:
        which = "" if self.costs == 1 else f" for cost {self.cost + 1}"
        noticed = {"bound": "it exceeded the largest cost stated", "mean": "the mean is above the limit by now"}
        numbers = f"mean of all episodes {self.mean:.3g}, limit {self.limit:g}, rule {self.rule}"
        return f"alarm in episode {self.episode}{which}: {noticed[self.rule]} ({numbers})"


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Both rules for every cost, after some episodes at one target. A value: `update` returns a new one.

    Examples:
        >>> watch = Watch.start(limits=(20.0,), level=0.01)
        >>> watch.update([[3.0], [0.0]]).alarm is None
        True
        >>> watch.update([[90.0]] * 10).alarm.episode
        5
    """

    limits: tuple[float, ...]
    """b of each cost."""
    level: float
    """Probability that the rule "mean" ever raises a false alarm at this target, over all costs."""
    largest: tuple[float | None, ...]
    """Largest possible cost of an episode, where it is known."""
    values: tuple[tuple[float, ...], ...]
    """M_t,i, one row per cost; after an alarm, those at the alarm."""
    sums: tuple[float, ...]
    """Sum of each cost over all episodes."""
    episodes: int = 0
    """Episodes since the target is served."""
    alarm: Excess | None = None
    """The first alarm, if there was one. Start a new watch after acting on it."""

    @classmethod
    def start(cls, limits: Sequence[float], level: float, largest: Sequence[float | None] | None = None) -> Self:
        """Return a watch before the first episode; only the rule "bound" needs `largest`.

        Raises:
            ConfigError: If a value is out of range, or there is not one largest cost per limit.
        """
        largest = (None,) * len(limits) if largest is None else largest
        if not 0 < len(limits) == len(largest):
            raise ConfigError(f"Got {len(limits)} limits and {len(largest)} largest costs; give one of each per cost.")
        if not all(0 < value < math.inf for value in (*limits, *(most for most in largest if most is not None))):
            raise ConfigError(f"Got limits {limits} and largest costs {largest}; give finite numbers above 0.")
        if not 1e-100 < level < 1:
            raise ConfigError(f"Got level = {level}; give a probability strictly between 0 and 1, say 0.01.")
        return cls(
            limits=tuple(map(float, limits)),
            level=float(level),
            largest=tuple(None if most is None else float(most) for most in largest),
            values=((0.0,) * len(_BETS),) * len(limits),
            sums=(0.0,) * len(limits),
        )

    @property
    def log_evidence(self) -> tuple[float, ...]:
        """Logarithm of sum_i M_t,i for each cost, -inf before the first episode. An alarm is due at log(K / level)."""
        totals = np.array(self.values).sum(axis=-1)
        return tuple(math.log(total) if total > 0 else -math.inf for total in totals.tolist())

    @property
    def realised_bounds(self) -> tuple[float, ...]:
        """Largest realised mean of each cost that is possible while the watch is silent, see `silent_mean`.

        Infinite where no largest cost is known, and after an alarm: then nothing is proved.
        """
        if self.alarm is not None:
            return (math.inf,) * len(self.limits)
        highest = [math.inf if most is None else most * (1 + ROUNDING) for most in self.largest]
        level, pairs = self.level / len(self.limits), zip(self.limits, highest, strict=True)
        return tuple(silent_mean(limit, most, level, self.episodes) for limit, most in pairs)

    def update(self, costs: Costs) -> Self:
        """Return the watch after further episodes. Many at once or one by one gives the same value, bit for bit.

        After an alarm, episodes and sums go on, and the evidence stays.

        Raises:
            TrialError: If an episode has a different number of costs, or a cost is not a finite number of at least 0.
        """
        X, after = checked_costs(costs, len(self.limits)), self
        for start in range(0, len(X), _BATCH):
            after = after._after(X[start : start + _BATCH])
        return after

    def to_plain(self) -> dict[str, Any]:
        """Return the watch as plain values."""
        return to_plain(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the watch that `to_plain` described, bit for bit."""
        return from_plain(cls, plain, "watch")

    def _after(self, X: Float[np.ndarray, "t k"]) -> Self:
        sums = np.cumsum(np.vstack([self.sums, X]), axis=0)[1:]
        after = replace(self, episodes=self.episodes + len(X), sums=tuple(sums[-1].tolist()))
        if self.alarm is not None:
            return after
        path = _evidence(X / self.limits, np.array(self.values), self.episodes)
        most = np.array([math.inf if most is None else most * (1 + ROUNDING) for most in self.largest])
        over, rich = most < X, path.sum(axis=-1) >= len(self.limits) / self.level
        hits = (over | rich).any(axis=1)
        t = int(hits.argmax()) if hits.any() else -1
        after = replace(after, values=tuple(map(tuple, np.minimum(path[t], _MOST).tolist())))
        if t == -1:
            return after
        rule: Rule = "bound" if over[t].any() else "mean"
        k, episode = int((over if rule == "bound" else rich)[t].argmax()), self.episodes + t + 1
        mean, costs = float(sums[t, k]) / episode, len(self.limits)
        alarm = Excess(rule=rule, cost=k, episode=episode, mean=mean, limit=self.limits[k], costs=costs)
        return replace(after, alarm=alarm)


def silent_mean(limit: float, largest: float, level: float, episodes: int) -> float:
    """Return the largest mean cost that these first episodes can have had if the watch of one cost was silent.

    True for sure, whatever happens: days, wear, an adversary. With p, the realised mean as a share of H, the largest
    cost, sum_i M_n,i is at least gamma_1 sum_i w_i exp(n (p log(1 + lambda_i (H - b)) + (1 - p) log(1 - lambda_i b))).
    That increases with p, and silence says that it is below 1/a.
    """
    if largest <= limit or episodes == 0 or largest == math.inf:
        return largest
    won, lost = np.log1p(_BETS * (largest / limit - 1)), np.log1p(-_BETS)
    low, high = 0.0, 1.0
    for _ in range(50):
        p = (low + high) / 2
        log_mean = np.logaddexp.reduce(episodes * (p * won + (1 - p) * lost)) - math.log(len(_BETS))
        low, high = (low, p) if log_mean >= -math.log(level * _FIRST) else (p, high)
    return high * largest


def _evidence(Y: Float[np.ndarray, "t k"], M: Float[np.ndarray, "k i"], before: int) -> Float[np.ndarray, "t k i"]:
    """Return M after each of these episodes, from costs in limits, after so many episodes before."""
    n = np.arange(before + 1, before + 1 + len(Y)) + 9.0
    gamma = (1 - _FIRST) / _SUM / (n * np.log(n) ** 2)
    if before == 0:
        gamma[0] = _FIRST
    path: Float[np.ndarray, "t k i"] = 1 + _BETS * (Y - 1)[..., None]
    begun = np.empty_like(M)
    with np.errstate(over="ignore"):  # after an alarm, evidence may grow beyond all numbers
        for factors, share in zip(path, gamma[:, None] / len(_BETS), strict=True):
            np.add(M, share, out=begun)
            M = np.multiply(factors, begun, out=factors)
    return path
