"""One number per method over all tasks, and how sure it is.

After Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice": the mean of the
middle half of all normalized scores, with intervals from a bootstrap that draws seeds within each task and limit.
These are a few lines; the authors' library rliable would bring pandas, statsmodels and seaborn along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import trim_mean

from lifesafe._random import generator
from lifesafe.lab.benchmark.results import Row

_DRAWS = 2000


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % bootstrap interval, NaN if there is one seed of everything."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f}" + ("" if math.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]")


@dataclass(frozen=True)
class Aggregate:
    """What a method did over all tasks, limits and seeds.

    Attributes:
        reward: Mean of the middle half of the normalized rewards.
        cost: The same of the costs as shares of their limits.
        safe: Share of the trainings whose mean cost was within the limit.
        runs: How many trainings and limits these are.
        idle: With how many of them nothing was run: they are in the share, but not in the means.
    """

    reward: Interval
    cost: Interval
    safe: Interval
    runs: int
    idle: int


def aggregates(rows: Sequence[Row]) -> dict[str, Aggregate]:
    """Return the aggregate of every method; seeds that ran nothing count as safe and are left out of the rest."""
    found = {}
    for method in dict.fromkeys(row.method for row in rows):
        chosen = [row for row in rows if row.method == method]
        ran = [row for row in chosen if row.cost is not None]
        if not ran:
            continue
        rewards = _strata(ran, lambda row: row.normalized_reward)
        costs = _strata(ran, lambda row: row.normalized_cost)
        safe = _strata(chosen, lambda row: float(row.cost is None or row.cost <= row.limit))
        found[method] = Aggregate(
            reward=interval(rewards, middle_mean),
            cost=interval(costs, middle_mean),
            safe=interval(safe, np.mean),
            runs=len(chosen),
            idle=len(chosen) - len(ran),
        )
    return found


def middle_mean(values: np.ndarray, axis: int = -1) -> Any:
    """Return the mean of the middle half: less noisy than the median, less led by outliers than the mean."""
    return trim_mean(values, 0.25, axis=axis)


def interval(strata: Sequence[Float[np.ndarray, " _"]], of: Callable[..., Any], *, seed: int = 0) -> Interval:
    """Return a statistic of all values and its interval; values are drawn again within each stratum.

    Args:
        strata: The values of the seeds of each task and limit.
        of: The statistic of an array along an axis, such as `numpy.mean`.
        seed: Decides which values are drawn.
    """
    value = float(of(np.concatenate(strata), axis=-1))
    if max(map(len, strata)) == 1:  # drawn again it is the same, which says nothing
        return Interval(value, math.nan, math.nan)
    random = generator(seed, "bootstrap")
    drawn = [random.choice(stratum, size=(_DRAWS, len(stratum))) for stratum in strata]
    low, high = np.quantile(of(np.concatenate(drawn, axis=1), axis=-1), [0.025, 0.975])
    return Interval(value, float(low), float(high))


def _strata(rows: Sequence[Row], value: Callable[[Row], float | None]) -> list[Float[np.ndarray, " _"]]:
    grouped: dict[tuple[str, float], list[float]] = {}
    for row in sorted(rows, key=lambda row: (row.task, row.limit, row.seed)):
        number = value(row)
        assert number is not None
        grouped.setdefault((row.task, row.limit), []).append(number)
    return [np.array(values) for values in grouped.values()]
