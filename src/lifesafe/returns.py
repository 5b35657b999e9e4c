"""Returns: one reward return and one cost return per constraint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError, TrialError


@dataclass(frozen=True)
class Returns:
    """The returns of one episode: what a policy is asked for (a target) or what it earned.

    Examples:
        >>> Returns(310.0, 12.0)
        Returns(reward=310.0, costs=(12.0,))
        >>> Returns(310.0, (12.0, 0.5)).costs
        (12.0, 0.5)
    """

    reward: float
    costs: tuple[float, ...]

    def __init__(self, reward: float, costs: float | Iterable[float]) -> None:
        values = tuple(costs) if isinstance(costs, Iterable) else (costs,)
        object.__setattr__(self, "reward", float(reward))
        object.__setattr__(self, "costs", tuple(float(cost) for cost in values))
        if not self.costs:
            raise TrialError("Returns need at least one cost; got none.")
        for k, value in enumerate((self.reward, *self.costs)):
            if not math.isfinite(value):
                raise TrialError(f"Returns must be finite; got {self.names[k]} = {value}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries, in the order of iteration: reward, cost, or reward, cost 1, cost 2, ..."""
        return return_names(len(self.costs))

    def __iter__(self) -> Iterator[float]:
        yield self.reward
        yield from self.costs


def return_names(costs: int) -> tuple[str, ...]:
    """Return the names of one reward and so many costs."""
    return ("reward", "cost") if costs == 1 else ("reward", *(f"cost {k + 1}" for k in range(costs)))


def per_cost(name: str, values: float | Sequence[float], costs: int | None = None) -> tuple[float, ...]:
    """Return one number per cost; where it is known how many costs there are, a single number stands for all.

    Raises:
        ConfigError: If the values are no numbers, or not as many as there are costs.
    """
    try:
        numbers = np.atleast_1d(values)
    except ValueError:  # rows of different lengths
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or numbers.dtype.kind not in "fiu" or np.isnan(numbers).any():
        raise ConfigError(f"{name} must be a number, or a sequence with one number per cost; got {values!r}.")
    found = tuple(float(number) for number in numbers)
    if costs is None or len(found) == costs:
        return found
    if len(found) == 1:
        return found * costs
    raise ConfigError(f"Got {len(found)} numbers as {name} for {costs} costs; give one per cost.")


def returns_array(episodes: Sequence[Returns]) -> Float[np.ndarray, "episodes returns"]:
    """Return one row per episode, the reward first, then the costs.

    Raises:
        TrialError: If there is no episode or the episodes have different numbers of costs.
    """
    if not episodes:
        raise TrialError("Got no episodes; give the returns of at least one.")
    strange = [episode for episode in episodes if not isinstance(episode, Returns)]
    if strange:
        raise TrialError(f"Episodes are given as Returns(reward, costs); got {strange[0]!r}.")
    counts = {len(episode.costs) for episode in episodes}
    if len(counts) > 1:
        raise TrialError(f"Episodes have {sorted(counts)} costs; give the same number of costs for each.")
    return np.array([tuple(episode) for episode in episodes], dtype=np.float64)


def mean_returns(episodes: Sequence[Returns]) -> Returns:
    """Return the mean reward and the mean costs of episodes.

    Raises:
        TrialError: If there is no episode or the episodes have different numbers of costs.

    Examples:
        >>> mean_returns([Returns(310.0, 12.0), Returns(300.0, 14.0)])
        Returns(reward=305.0, costs=(13.0,))
    """
    reward, *costs = returns_array(episodes).mean(axis=0).tolist()
    return Returns(reward, costs)
