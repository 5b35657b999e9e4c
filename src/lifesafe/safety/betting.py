"""The certificate of one target: bets that win only if its mean costs keep their limits.

Notation:
    X_t,k     cost k of episode t at this target, in [0, H_k]                                       (t, K)
    mu_k      mean of cost k at this target                                                         (K,)
    b_k       limit on mu_k                                                                         (K,)
    H_k       largest possible cost of an episode                                                   (K,)
    a         level: the probability of a wrong certificate, at most                                ()
    s_j, w_j  stake of bet j as a share of the largest possible stake, and its weight; sum w_j = 1  (J,)
    W_t,k(m)  wealth, sum_j w_j prod_{r <= t} (1 + s_j (m - X_r,k) / (H_k - m))                     (t, K)

Assumption (A): given everything before an episode at this target, the mean of its cost k is mu_k. Nothing else is
assumed: costs may have any distribution on [0, H_k] and depend on each other, and any rule may decide when the target
is served and when to look. (A) fails if days differ or the machine wears. It also fails for episodes that were used to
choose the target, so give only later ones.

Theorem (Ville): each factor of W_k(mu_k) has mean 1 given the past, so W_k(mu_k) is a nonnegative martingale that
starts at 1, and the probability that it *ever* reaches 1/a is at most a. W_k(m) increases with m. Hence

    certificate   A target is certified when every W_k(b_k) has reached 1/a. If the target is unsafe, mu_k >= b_k for
                  some k; then W_k(b_k) <= W_k(mu_k) reaches 1/a with probability at most a. So a wrong certificate
                  has probability at most a with any number of costs: the level is not split among them.
    bound         With probability 1 - a, mu_k <= inf {m: W_t,k(m) >= 1/a} for all t at once. This holds for each
                  cost; for all K costs together the probability is 1 - K a.

The levels of several targets add up. A level must be fixed before the first episode that is given.

Reference: Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by betting*.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError, TrialError

Costs = Sequence[Sequence[float]] | Float[np.ndarray, "t k"]

ROUNDING = 1e-5  # share of the largest cost by which an episode may exceed it: a sum of steps is rounded
# NOTE: Costs of a target that can be certified are small against H, where the largest stake is the best, so it has half
# of the weight. The small stakes are for rare costs near H.
_STAKES = np.array([0.99, 0.75, 0.5, 0.25, 0.12, 0.05])
_LOG_WEIGHTS = np.log([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])


@dataclass(frozen=True, kw_only=True)
class Bet:
    """The bets on one target, after some of its episodes. A value: `update` returns a new one.

    Examples:
        >>> bet = Bet.start(limits=(20.0,), largest=(60.0,), level=0.05)
        >>> bet.update([[3.0], [0.0]] * 3).certified
        False
        >>> bet.update([[3.0], [0.0]] * 6).certified
        True
    """

    limits: tuple[float, ...]
    """b."""
    largest: tuple[float, ...]
    """H."""
    level: float
    """a."""
    costs: tuple[tuple[float, ...], ...]
    """X, one row per episode, clipped to H."""
    log_products: tuple[tuple[float, ...], ...]
    """Logarithm of w_j prod (1 + s_j (b - X) / (H - b)), one row per cost."""
    reached_at: tuple[int | None, ...]
    """Episode at which W(b) first reached 1/a, for each cost; 0 where no episode can cost more than the limit."""

    @classmethod
    def start(cls, limits: Sequence[float], largest: Sequence[float], level: float) -> Self:
        """Return the bets before the first episode. A cost with H <= b needs no test: every episode keeps the limit.

        Raises:
            ConfigError: If there is not one largest cost per limit, or a value is out of range.
        """
        if not 0 < len(limits) == len(largest):
            raise ConfigError(f"Got {len(limits)} limits and {len(largest)} largest costs; give one of each per cost.")
        if not all(0 < value < math.inf for value in (*limits, *largest)):
            raise ConfigError(f"Got limits {limits} and largest costs {largest}; a bet needs finite numbers above 0.")
        if not 0 < level < 1:
            raise ConfigError(f"Got level = {level}; give a probability strictly between 0 and 1, say 0.05.")
        return cls(
            limits=tuple(map(float, limits)),
            largest=tuple(map(float, largest)),
            level=float(level),
            costs=(),
            log_products=(tuple(_LOG_WEIGHTS.tolist()),) * len(limits),
            reached_at=tuple(0 if b >= most else None for b, most in zip(limits, largest, strict=True)),
        )

    @property
    def episodes(self) -> int:
        """Episodes seen."""
        return len(self.costs)

    @property
    def certified(self) -> bool:
        """Whether W(b) of every cost has reached 1/a at some time. Later episodes do not change this."""
        return None not in self.reached_at

    @property
    def log_wealths(self) -> tuple[float, ...]:
        """Logarithm of W(b) for each cost; 0 where no test is needed."""
        return tuple(np.logaddexp.reduce(self.log_products, axis=-1).tolist())

    @cached_property
    def upper(self) -> tuple[float, ...]:
        """Upper confidence bound of each mean: inf {m: W(m) >= 1/a}, and at most b once W(b) has reached 1/a."""
        # NOTE: Not the smallest of the bounds so far: it may rise again, up to b once b is reached. Valid at all times.
        return tuple(self._upper(k) for k in range(len(self.limits)))

    def update(self, costs: Costs) -> Self:
        """Return the bets after further episodes. Many at once or one by one gives the same value, bit for bit.

        Raises:
            TrialError: If an episode has a different number of costs, or a cost is not in [0, H].
        """
        X = checked_costs(costs, len(self.limits))
        if not len(X):
            return self
        limits, largest = np.array(self.limits), np.array(self.largest)
        if (largest * (1 + ROUNDING) < X).any():
            found = f"Got episodes with costs up to {X.max(axis=0)}; the bet holds for costs up to {largest}."
            raise TrialError(f"{found} Start a new bet with a largest cost that no episode can exceed.")
        X = np.minimum(X, largest)
        room = np.where(largest > limits, largest - limits, math.inf)  # no room to lose: no test, the wealth stays 1
        path = np.log1p(_STAKES * ((limits - X) / room)[..., None])
        path[0] += self.log_products  # first, not last: the sums are then the same however the episodes are split
        path = np.cumsum(path, axis=0)
        rich = np.logaddexp.reduce(path, axis=-1) >= -math.log(self.level)
        first = [self.episodes + 1 + int(column.argmax()) if column.any() else None for column in rich.T]
        return replace(
            self,
            costs=self.costs + tuple(map(tuple, X.tolist())),
            log_products=tuple(map(tuple, path[-1].tolist())),
            reached_at=tuple(new if old is None else old for old, new in zip(self.reached_at, first, strict=True)),
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the settings and the costs as plain values; everything else follows from them."""
        rows = [list(row) for row in self.costs]
        return {"limits": list(self.limits), "largest": list(self.largest), "level": self.level, "costs": rows}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the bets that `to_plain` described, bit for bit."""
        return cls.start(plain["limits"], plain["largest"], plain["level"]).update(plain["costs"])

    def _upper(self, k: int) -> float:
        X, low, high = np.array(self.costs).reshape(-1, len(self.limits))[:, k], 0.0, self.largest[k]
        for _ in range(45):  # W(0) <= 1 < 1/a, and no mean exceeds H: the answer lies between
            m = (low + high) / 2
            products = _LOG_WEIGHTS + np.log1p(_STAKES[:, None] * ((m - X) / (self.largest[k] - m))).sum(axis=-1)
            rich = np.logaddexp.reduce(products) >= -math.log(self.level)
            low, high = (low, m) if rich else (m, high)
        return high if self.reached_at[k] is None else min(high, self.limits[k])


def clean_episodes(limit: float, largest: float, level: float) -> int:
    """Return how many episodes without any cost certify a target."""
    if Bet.start((limit,), (largest,), level).certified:
        return 0
    gains, needed = np.log1p(_STAKES * (limit / (largest - limit))), -math.log(level)
    enough = math.ceil((needed - _LOG_WEIGHTS[0]) / gains[0])  # the first bet alone gets there
    return bisect.bisect_left(range(enough), needed, key=lambda n: np.logaddexp.reduce(_LOG_WEIGHTS + n * gains))


def checked_costs(costs: Costs, count: int) -> Float[np.ndarray, "t k"]:
    """Return the costs of some episodes as an array, one row per episode and one column per cost.

    Raises:
        TrialError: If an episode does not have this many costs, or a cost is not a finite number of at least 0.
    """
    X = np.asarray(costs, dtype=np.float64)
    X = X.reshape(0, count) if X.shape[:1] == (0,) else X
    if X.ndim != 2 or X.shape[1] != count:
        raise TrialError(f"Got costs of shape {X.shape}; give one row per episode, with {count} costs each.")
    if X.size and not 0 <= X.min() <= X.max() < math.inf:  # refuses NaN, too
        raise TrialError(f"Got episodes with costs from {X.min():g} to {X.max():g}; costs are finite and at least 0.")
    return X
