"""Anytime-valid tests of the mean episode cost, by betting.

Notation:
    X_t        cost of episode t, in [0, H]                                      (t,)
    b          limit on the mean cost                                            ()
    H          largest cost an episode can have                                  ()
    lambda_i   bet: the stake per unit of X - b, positive on costs above b       (k,)
    w_i        weight of a bet, summing to 1                                     (k,)
    W_t        wealth, sum_i w_i prod_{s <= t} (1 + lambda_i (X_s - b))          (t,)
    M_t        Shiryaev-Roberts value, sum_i M_t,i                               (t,)

If E[X_t | past] = b, no bet gains on average, and a bet on low costs (lambda < 0) gains on average only when
the mean is below b. So W_t is a nonnegative supermartingale while the hypothesis it bets against holds, and
the probability that it *ever* reaches 1 / level is at most the level (Ville). No distribution, independence
or fixed number of episodes is assumed; only 0 <= X_t <= H.

References: Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by betting*; Shin,
Ramdas & Rinaldo 2024, *E-detectors: a nonparametric framework for sequential change detection*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError, TrialError
from lifesafe.theory._checks import check_positive, check_probability

ROUNDING = 1e-5
"""Share of a bound by which a cost may exceed it: steps add up to a little more than so many times one of them."""
_SAFETY_SHARES = (0.99, 0.75, 0.5, 0.25, 0.12, 0.05)
_SAFETY_WEIGHTS = (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)
_ALARM_SHARES = tuple(float(share) for share in 0.95 * np.geomspace(0.01, 1.0, 12))
_ALARM_WEIGHTS = (1.0 / 12.0,) * 12


@dataclass(frozen=True, kw_only=True)
class BettingTest:
    """A test of one hypothesis on the mean cost, after some episodes. A value: `update` returns a new one.

    Made by `safety_test` and `alarm_test`.

    Examples:
        >>> test = safety_test(limit=20.0, bound=200.0, level=0.05)
        >>> test = test.update([0.0, 3.0, 1.0] * 20)
        >>> test.rejected, test.rejected_at
        (True, 37)
    """

    hypothesis: str
    """What is bet against, in words."""
    limit: float
    """b."""
    bound: float
    """H."""
    level: float
    """Probability of ever rejecting a true hypothesis, at most."""
    bets: tuple[float, ...]
    """lambda_i."""
    log_wealths: tuple[float, ...]
    """Logarithm of w_i prod (1 + lambda_i (X - b)), one per bet."""
    episodes: int = 0
    """Episodes seen."""
    rejected_at: int | None = None
    """Episode at which the wealth first reached 1 / level, counted from 1."""

    @property
    def rejected(self) -> bool:
        """Whether the hypothesis has been rejected; once rejected, it stays so."""
        return self.rejected_at is not None

    @property
    def log_wealth(self) -> float:
        """Logarithm of W."""
        return float(np.logaddexp.reduce(self.log_wealths))

    def update(self, costs: Sequence[float] | Float[np.ndarray, " t"]) -> BettingTest:
        """Return the test after these further episodes; many at once or one by one is the same.

        Raises:
            TrialError: If a cost is not in [0, bound].
        """
        X = _one_stream(costs, self.bound)
        if not len(X):
            return self
        path = _log_wealths(X, self.limit, np.array(self.bets), np.array(self.log_wealths))
        return replace(
            self,
            log_wealths=tuple(path[-1].tolist()),
            episodes=self.episodes + len(X),
            rejected_at=self.rejected_at or _first(np.logaddexp.reduce(path, axis=-1), 1.0 / self.level, self.episodes),
        )


def safety_test(limit: float, bound: float, level: float = 0.05) -> BettingTest:
    """Return a test against "mean cost >= limit": once rejected, the target is certified.

    Args:
        limit: b.
        bound: H, the largest cost an episode can have; the delay grows in proportion to it.
        level: Probability of ever certifying a target whose mean cost is at least the limit.

    Raises:
        ConfigError: If a value is out of range.
    """
    # NOTE: Half of the wealth on nearly the largest bet, the rest spread. Costs of a certifiable target are
    # small against H, and there the largest bet is the best one; spread evenly over 12 bets, half as many
    # episodes again are needed (58 for 38 at H = 200). The small bets are for rare lumps near H.
    _check(limit, bound, level)
    return BettingTest(
        hypothesis=f"mean cost >= {limit:g}",
        limit=limit,
        bound=bound,
        level=level,
        bets=tuple(-share / (bound - limit) for share in _SAFETY_SHARES),
        log_wealths=tuple(math.log(weight) for weight in _SAFETY_WEIGHTS),
    )


def alarm_test(limit: float, bound: float, level: float = 0.01) -> BettingTest:
    """Return a test against "mean cost <= limit": once rejected, raise the alarm.

    Args:
        limit: b.
        bound: H, the largest cost an episode can have.
        level: Probability of ever raising the alarm while every mean cost is at most the limit.

    Raises:
        ConfigError: If a value is out of range.
    """
    _check(limit, bound, level)
    return BettingTest(
        hypothesis=f"mean cost <= {limit:g}",
        limit=limit,
        bound=bound,
        level=level,
        bets=tuple(share / limit for share in _ALARM_SHARES),
        log_wealths=tuple(math.log(weight) for weight in _ALARM_WEIGHTS),
    )


@dataclass(frozen=True, kw_only=True)
class DriftDetector:
    """A Shiryaev-Roberts e-detector of a mean cost that has risen above the limit. A value, as a test is.

    M_t,i = (1 + lambda_i (X_t - b)) (M_t-1,i + w_i), alarm at M_t >= c. While the mean is at most b, M_t - t
    has no upward drift, so the mean time to a false alarm is at least c episodes (optional stopping). Unlike
    a test it does not lose its wealth during a long safe time, and unlike a test it will at some time raise a
    false alarm.

    Made by `drift_detector`.
    """

    limit: float
    """b."""
    bound: float
    """H."""
    run_length: float
    """c: mean number of episodes to a false alarm, at least."""
    bets: tuple[float, ...]
    """lambda_i."""
    log_weights: tuple[float, ...]
    """Logarithm of w_i."""
    log_values: tuple[float, ...]
    """Logarithm of M_t,i."""
    episodes: int = 0
    """Episodes seen."""
    alarmed_at: int | None = None
    """Episode of the first alarm, counted from 1."""

    @property
    def alarmed(self) -> bool:
        """Whether there has been an alarm; start a new detector after acting on it."""
        return self.alarmed_at is not None

    @property
    def log_value(self) -> float:
        """Logarithm of M; -inf before the first episode."""
        return float(np.logaddexp.reduce(self.log_values))

    def update(self, costs: Sequence[float] | Float[np.ndarray, " t"]) -> DriftDetector:
        """Return the detector after these further episodes; many at once or one by one is the same.

        Raises:
            TrialError: If a cost is not in [0, bound].
        """
        X = _one_stream(costs, self.bound)
        if not len(X):
            return self
        path = _log_detector(X, self.limit, np.array(self.bets), np.array(self.log_weights), np.array(self.log_values))
        return replace(
            self,
            log_values=tuple(path[-1].tolist()),
            episodes=self.episodes + len(X),
            alarmed_at=self.alarmed_at or _first(np.logaddexp.reduce(path, axis=-1), self.run_length, self.episodes),
        )


def drift_detector(limit: float, bound: float, run_length: float = 1000.0) -> DriftDetector:
    """Return a detector of drift above the limit.

    Args:
        limit: b.
        bound: H, the largest cost an episode can have.
        run_length: Mean number of episodes to a false alarm, at least.

    Raises:
        ConfigError: If a value is out of range.
    """
    _check(limit, bound, 0.5)
    check_positive("run_length", run_length)
    if run_length <= 1:
        raise ConfigError(f"Got run_length = {run_length!r}; give a number of episodes above 1, say 1000.")
    return DriftDetector(
        limit=limit,
        bound=bound,
        run_length=run_length,
        bets=tuple(share / limit for share in _ALARM_SHARES),
        log_weights=tuple(math.log(weight) for weight in _ALARM_WEIGHTS),
        log_values=(-math.inf,) * len(_ALARM_SHARES),
    )


def wealth_path(test: BettingTest, costs: Float[np.ndarray, "*streams t"]) -> Float[np.ndarray, "*streams t"]:
    """Return the logarithm of the wealth after each further episode, for many streams at once.

    Raises:
        TrialError: If a cost is not in [0, bound].
    """
    X = checked_costs(costs, test.bound)
    path = _log_wealths(X, test.limit, np.array(test.bets), np.array(test.log_wealths))
    return np.asarray(np.logaddexp.reduce(path, axis=-1))


def detector_path(detector: DriftDetector, costs: Float[np.ndarray, "*streams t"]) -> Float[np.ndarray, "*streams t"]:
    """Return the logarithm of M after each further episode, for many streams at once.

    Raises:
        TrialError: If a cost is not in [0, bound].
    """
    X = checked_costs(costs, detector.bound)
    weights, values = np.array(detector.log_weights), np.array(detector.log_values)
    path = _log_detector(X, detector.limit, np.array(detector.bets), weights, values)
    return np.asarray(np.logaddexp.reduce(path, axis=-1))


def checked_costs(
    costs: Sequence[float] | Float[np.ndarray, "*streams t"], bound: float
) -> Float[np.ndarray, "*streams t"]:
    """Return the costs as floats, or refuse: a cost out of range would void the guarantee.

    Raises:
        TrialError: If a cost is not in [0, bound].
    """
    values = np.atleast_1d(np.asarray(costs, dtype=np.float64))
    wrong = values[~((values >= 0) & (values <= bound))]
    if len(wrong):
        raise TrialError(
            f"Got an episode cost of {wrong[0]:g}; the test holds for costs from 0 to {bound:g}. "
            "Give a bound that no episode can exceed, such as horizon times the largest cost of a step."
        )
    return values


def _one_stream(costs: Sequence[float] | Float[np.ndarray, " t"], bound: float) -> Float[np.ndarray, " t"]:
    X = checked_costs(costs, bound)
    if X.ndim != 1:
        raise TrialError(f"Got costs of shape {X.shape}; give one number per episode.")
    return X


def _log_wealths(
    X: Float[np.ndarray, "*streams t"],
    limit: float,
    bets: Float[np.ndarray, " k"],
    start: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "*streams t k"]:
    gains = np.log1p(bets * (X[..., None] - limit))
    # The start is added first, not last: sums are then the same however the episodes are split.
    if gains.shape[-2]:
        gains[..., 0, :] += start
    return np.asarray(np.cumsum(gains, axis=-2))


def _log_detector(
    X: Float[np.ndarray, "*streams t"],
    limit: float,
    bets: Float[np.ndarray, " k"],
    log_weights: Float[np.ndarray, " k"],
    start: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "*streams t k"]:
    path = np.log1p(bets * (X[..., None] - limit))
    values = np.broadcast_to(start, (*X.shape[:-1], len(bets)))
    for t in range(X.shape[-1]):
        path[..., t, :] += np.logaddexp(values, log_weights)
        values = path[..., t, :]
    return path


def _first(log_path: Float[np.ndarray, " t"], threshold: float, before: int) -> int | None:
    """Return the number of the first episode at which the threshold is reached, counted over all."""
    hits = np.flatnonzero(log_path >= math.log(threshold))
    return before + int(hits[0]) + 1 if len(hits) else None


def _check(limit: float, bound: float, level: float) -> None:
    check_positive("limit", limit)
    check_positive("bound", bound)
    check_probability("level", level)
    if limit >= bound:
        raise ConfigError(
            f"Got limit = {limit!r} and bound = {bound!r}; give a bound above the limit, "
            "or no test: costs that never exceed the limit need none."
        )
