"""The certificate of one target: bets that win only if its mean costs keep their limits.

Notation:
    X_t,k     cost k of episode t at this target, in [0, H_k]                                       (t, K)
    mu_k      mean of cost k at this target                                                         (K,)
    b_k       limit on mu_k                                                                         (K,)
    H_k       largest possible cost of an episode                                                   (K,)
    a         level: the probability of a wrong certificate, at most                                ()
    s_j, w_j  stake of bet j as a share of the largest possible stake, and its weight; sum w_j = 1  (J,)
    W_t,k     wealth, sum_j w_j prod_{r <= t} (1 + s_j (b_k - X_r,k) / (H_k - b_k))                 (t, K)

Assumption: given everything before an episode at this target, the mean of its cost k is mu_k. Nothing else is assumed;
any rule may decide when the target is served and when to look. It fails if days differ or the machine wears, and for
episodes that were used to choose the target, so give only later ones.

Theorem: a target is *certified* when every W_k has reached 1/a at some time. If mu_k >= b_k for some k, then W_k is at
most a nonnegative martingale that starts at 1, so by Ville's inequality it *ever* reaches 1/a with probability at most
a. One cost is enough to stop a wrong certificate: the level is not split among costs. The levels of several targets add
up, and each is fixed before the first episode that is given. The proof is in docs/guarantee.md.

Reference: Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by betting*.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

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
    log_products: tuple[tuple[float, ...], ...]
    """Logarithm of w_j prod (1 + s_j (b - X) / (H - b)), one row per cost."""
    reached_at: tuple[int | None, ...]
    """Episode at which W first reached 1/a, for each cost; 0 where no episode can cost more than the limit."""
    episodes: int = 0
    """Episodes seen."""

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
            log_products=(tuple(_LOG_WEIGHTS.tolist()),) * len(limits),
            reached_at=tuple(0 if b >= most else None for b, most in zip(limits, largest, strict=True)),
        )

    @property
    def certified(self) -> bool:
        """Whether W of every cost has reached 1/a at some time. Later episodes do not change this."""
        return None not in self.reached_at

    @property
    def log_wealths(self) -> tuple[float, ...]:
        """Logarithm of W for each cost; 0 where no test is needed."""
        return tuple(np.logaddexp.reduce(self.log_products, axis=-1).tolist())

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
            episodes=self.episodes + len(X),
            log_products=tuple(map(tuple, path[-1].tolist())),
            reached_at=tuple(new if old is None else old for old, new in zip(self.reached_at, first, strict=True)),
        )


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
