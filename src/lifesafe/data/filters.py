"""The filters of DSRL, which make a dataset harder or easier, each a function from dataset to dataset.

DSRL applies them through one method, `pre_process_data`; its arguments and what stands for them here:

    density, cbins, rbins, max_npb, min_npb    thin(cost_bins, reward_bins, most, fewest)
    outliers_percent                           add_outliers(fraction)
    inpaint_ranges                             cut_out(regions)
    epsilon > 0                                without_best(within, among="safe")
    epsilon < 0                                without_best(within, among="unsafe")
    noise_scale                                add_noise(scale)

DSRL runs them in this order, but cuts no outliers out: so do `cut_out` before `add_outliers`. Extremes are those of the
dataset that is given, where DSRL has a table of constants (equal to the extremes of its public files). Nothing is drawn
or printed, and the same seed gives the same dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lifesafe._config import nearest
from lifesafe._random import generator
from lifesafe.data.dataset import Dataset
from lifesafe.data.summary import checked_limits
from lifesafe.errors import ConfigError, DatasetError


class Region(NamedTuple):
    """A part of the plane of cost and reward returns, its sides as fractions between 0 and 1.

    The cost sides are fractions of the range of costs in the dataset, the reward sides fractions of the range of
    rewards among the episodes whose cost lies between the cost sides.
    """

    cost_low: float
    cost_high: float
    reward_low: float
    reward_high: float


def thin(dataset: Dataset, *, cost_bins: int, reward_bins: int, most: int, fewest: int = 1, seed: int) -> Dataset:
    """Return the dataset with at most so many episodes in every cell of a grid over its returns.

    Args:
        dataset: The episodes, whose order is kept.
        cost_bins: Cells along every cost, between its least and its largest return.
        reward_bins: Cells along the reward.
        most: Episodes that a cell keeps, drawn at random.
        fewest: Cells with fewer episodes are emptied. (DSRL's `min_npb` is one less.)
        seed: Decides which are kept.

    Raises:
        ConfigError: If a number is less than 1.
        DatasetError: If no cell holds enough.
    """
    chosen = thinned(dataset.returns, cost_bins=cost_bins, reward_bins=reward_bins, most=most, fewest=fewest, seed=seed)
    if not len(chosen):
        raise DatasetError(f"No cell of the grid holds {fewest} episodes; take fewer bins, or a smaller fewest.")
    return dataset.select(chosen)


def thinned(
    returns: Float[np.ndarray, "e r"], *, cost_bins: int, reward_bins: int, most: int, fewest: int = 1, seed: int
) -> Int[np.ndarray, " m"]:
    """Return which episodes `thin` keeps, in rising order, given their returns (the reward first)."""
    for name, value in {"cost_bins": cost_bins, "reward_bins": reward_bins, "most": most, "fewest": fewest}.items():
        if value < 1:
            raise ConfigError(f"{name} must be at least 1; got {value}.")
    bins = np.array([reward_bins] + [cost_bins] * (returns.shape[1] - 1))
    low, high = returns.min(axis=0), returns.max(axis=0)
    place = (returns - low) / np.where(high > low, high - low, 1.0)  # in [0, 1]; the largest goes to the last cell
    places = np.minimum((place * bins).astype(np.int64), bins - 1)
    _, cells, sizes = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    cells = cells.reshape(-1)  # NumPy 2.0 alone gives it another shape
    # Sorted by cell, in random order within: an episode's rank is its distance from the start of its cell.
    order = np.lexsort([generator(seed, "thin").random(len(returns)), cells])
    ranks = np.empty(len(returns), dtype=np.int64)
    ranks[order] = np.arange(len(returns)) - (np.cumsum(sizes) - sizes)[cells[order]]
    return np.flatnonzero((ranks < most) & (sizes[cells] >= fewest))


def density(task: str, share: float) -> dict[str, int]:
    """Return the settings of `thin` by which DSRL keeps about that share of a task's public dataset.

    Examples:
        >>> density("CarCircle", 0.5)
        {'cost_bins': 10, 'reward_bins': 50, 'most': 5, 'fewest': 3}

    Raises:
        ConfigError: If DSRL has none for the task or the share.
    """
    if task not in _DENSITIES:
        raise ConfigError(
            f"DSRL has no density settings for task {task!r}.{nearest(task, _DENSITIES)}"
            f" Give thin(...) your own numbers. It has some for {', '.join(_DENSITIES)}."
        )
    settings = _DENSITIES[task]
    if share not in settings:
        raise ConfigError(f"DSRL thins {task} to shares of {' and '.join(map(str, settings))}; got {share}.")
    cost_bins, reward_bins, most = settings[share]
    return {"cost_bins": cost_bins, "reward_bins": reward_bins, "most": most, "fewest": 3}


def add_outliers(
    dataset: Dataset, *, fraction: float, limits: float | Sequence[float], factor: float = 1.5, seed: int
) -> Dataset:
    """Return the dataset with some risky episodes made to look safe and better than they were.

    Risky are those with at least half of the highest reward and half of the highest of some cost. Of an outlier the
    costs become 1 at random steps, fewer than the limit, and 0 elsewhere; its rewards are multiplied by the factor.

    Args:
        dataset: The episodes, none of which is left out.
        fraction: Share of all episodes to change; at least one is.
        limits: One per cost.
        factor: By how much the rewards of an outlier grow.
        seed: Decides which, and where they cost.

    Raises:
        ConfigError: If the fraction is not between 0 and 1, or a limit is less than 1.
        DatasetError: If fewer episodes are risky than are to be changed.
    """
    if not 0 < fraction <= 1:
        raise ConfigError(f"fraction must lie between 0 and 1; got {fraction}.")
    tops = checked_limits(limits, dataset.costs.shape[1]).astype(np.int64)
    if (tops < 1).any():
        raise ConfigError(f"Outliers have whole costs below the limits, so these must be at least 1; got {limits}.")
    outliers = max(int(fraction * len(dataset)), 1)
    halves = dataset.returns.max(axis=0) / 2
    risky = np.flatnonzero((dataset.returns[:, 0] >= halves[0]) & (dataset.returns[:, 1:] >= halves[1:]).any(axis=1))
    if len(risky) < outliers:
        raise DatasetError(
            f"{outliers} episodes are to become outliers, but only {len(risky)} have half of the highest reward and"
            " half of the highest cost; take a smaller fraction."
        )
    rng = generator(seed, "outliers")
    rewards, costs = dataset.rewards.copy(), dataset.costs.copy()
    for index in rng.choice(risky, size=outliers, replace=False):
        start, end = dataset.offsets[index], dataset.offsets[index + 1]
        rewards[start:end] *= factor
        costs[start:end] = 0.0
        for k, top in enumerate(tops):
            steps = rng.choice(end - start, size=min(rng.integers(top), end - start), replace=False)
            costs[start + steps, k] = 1.0
    return replace(dataset, rewards=rewards, costs=costs)


def cut_out(
    dataset: Dataset, regions: Sequence[Region | tuple[float, float, float, float]], *, cost: int = 0
) -> Dataset:
    """Return the dataset without the episodes in some regions of the plane of cost and reward returns.

    Every region is measured on the whole dataset, so their order does not matter, and one in which no episode lies
    takes none away.

    Args:
        dataset: The episodes.
        regions: Each as (cost_low, cost_high, reward_low, reward_high), fractions between 0 and 1; see `Region`.
        cost: Which of several costs.

    Raises:
        ConfigError: If a side is not a fraction, or lies above its opposite.
        DatasetError: If no episode is left.
    """
    rewards, costs = dataset.returns[:, 0], dataset.returns[:, 1 + cost]
    gone = np.zeros(len(dataset), dtype=bool)
    for region in map(Region._make, regions):
        if not (0 <= region.cost_low <= region.cost_high <= 1 and 0 <= region.reward_low <= region.reward_high <= 1):
            raise ConfigError(f"The sides of a region are fractions between 0 and 1, the lower first; got {region}.")
        band = _between(costs, costs, region.cost_low, region.cost_high)
        if band.any():
            gone |= band & _between(rewards, rewards[band], region.reward_low, region.reward_high)
    return dataset.select(~gone)


def without_best(
    dataset: Dataset, *, limits: float | Sequence[float], within: float, among: Literal["safe", "unsafe"] = "safe"
) -> Dataset:
    """Return the dataset without the episodes that come close to the highest reward of their kind.

    Without the best safe ones learning is harder, without the best unsafe ones easier.

    Args:
        dataset: The episodes.
        limits: One per cost; an episode that keeps all of them is safe.
        within: How close: the largest distance in reward return.
        among: Which kind.

    Raises:
        ConfigError: If the distance is negative.
        DatasetError: If there is no episode of that kind, or none is left.
    """
    if not within >= 0:
        raise ConfigError(f"within must not be negative; got {within}.")
    rewards, costs = dataset.returns[:, 0], dataset.returns[:, 1:]
    safe = (costs <= checked_limits(limits, costs.shape[1])).all(axis=1)
    kind = safe if among == "safe" else ~safe
    if not kind.any():
        raise DatasetError(f"No episode is {among} under the limits {limits}, so there is no best one to leave out.")
    return dataset.select(~(kind & (rewards >= rewards[kind].max() - within)))


def add_noise(dataset: Dataset, *, scale: float, seed: int) -> Dataset:
    """Return the dataset with Gaussian noise on its observations.

    An observation gets the same noise wherever it stands: as the next one of a step and as the one before the
    following step. (DSRL draws it twice, so that what was seen after a step is not what is seen before the next.)

    Args:
        dataset: The episodes.
        scale: Standard deviation of the noise, as a multiple of that of all observed numbers together.
        seed: Decides the noise.

    Raises:
        ConfigError: If the scale is negative.
    """
    if not scale >= 0:
        raise ConfigError(f"scale must not be negative; got {scale}.")
    size = np.float32(scale * np.std(dataset.observations, dtype=np.float64))
    rng, shape = generator(seed, "noise"), dataset.observations.shape
    noise = size * rng.standard_normal(shape, dtype=np.float32)
    last = size * rng.standard_normal((len(dataset), shape[1]), dtype=np.float32)
    after = np.concatenate([noise[1:], last[-1:]])
    after[dataset.offsets[1:] - 1] = last
    return replace(
        dataset,
        observations=dataset.observations + noise,
        next_observations=dataset.next_observations + after,
    )


def _between(values: np.ndarray, measured: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return which values lie between two fractions of the range of those measured."""
    least, width = measured.min(), np.ptp(measured)
    inside: np.ndarray = (values >= least + low * width) & (values <= least + high * width)
    return inside


# DSRL's table for the tasks that are known here: share -> cost bins, reward bins, most per cell.
_DENSITIES: dict[str, dict[float, tuple[int, int, int]]] = {
    "AntRun": {0.5: (10, 50, 6), 0.75: (10, 50, 10)},
    "AntCircle": {0.5: (10, 50, 12), 0.75: (10, 50, 20)},
    "CarRun": {0.5: (10, 20, 6), 0.75: (10, 20, 11)},
    "CarCircle": {0.5: (10, 50, 5), 0.75: (10, 50, 9)},
    "DroneRun": {0.5: (10, 50, 6), 0.75: (10, 50, 18)},
    "DroneCircle": {0.5: (10, 50, 10), 0.75: (10, 50, 18)},
    "BallRun": {0.5: (10, 15, 7), 0.75: (10, 15, 12)},
    "BallCircle": {0.5: (10, 20, 5), 0.75: (10, 30, 10)},
    "HalfCheetahVelocity": {0.25: (10, 10, 12), 0.5: (10, 10, 26)},
    "SwimmerVelocity": {0.25: (10, 10, 7), 0.5: (10, 10, 14)},
    "Walker2dVelocity": {0.25: (10, 10, 10), 0.5: (10, 10, 22)},
}
