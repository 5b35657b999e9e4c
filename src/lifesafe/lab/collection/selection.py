"""Which of all logged episodes become the dataset: evenly over the plane of cost and reward, the best ones always."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe._random import generator


def select(
    returns: Float[np.ndarray, "e r"], *, highest: float, episodes: int, cost_cells: int, reward_cells: int, seed: int
) -> Int[np.ndarray, " m"]:
    """Return about so many episodes, in rising order: as many from each cell of a grid, and the whole frontier.

    Where there are more cells with episodes than episodes are wanted, one each from some of the cells.

    Args:
        returns: The reward of each episode, then its costs.
        highest: Episodes that cost more are left out, unless all do.
        episodes: How many to keep, about: the frontier comes on top.
        cost_cells: Cells of the grid along every cost.
        reward_cells: Cells of the grid along the reward.
        seed: Decides which are kept where a cell has too many, and which cells where these are too many.
    """
    inside = np.flatnonzero((returns[:, 1:] <= highest).all(axis=1))
    inside = inside if len(inside) else np.arange(len(returns))
    returns = returns[inside]

    def kept(most: int) -> Int[np.ndarray, " m"]:
        return thinned(returns, cost_cells=cost_cells, reward_cells=reward_cells, most=most, seed=seed)

    fits, too_many = 1, len(returns) + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if len(kept(middle)) <= episodes else (fits, middle)
    even = kept(fits)
    if len(even) > episodes:
        even = generator(seed, "cells").permutation(even)[:episodes]
    chosen: np.ndarray = inside[np.union1d(even, np.flatnonzero(frontier(returns)))]
    return chosen


def frontier(returns: Float[np.ndarray, "e r"]) -> Bool[np.ndarray, " e"]:
    """Return which episodes no other one beats: none earned at least as much at lower costs, nor more at the same."""
    order = np.lexsort((*returns[:, 1:].T, -returns[:, 0]))  # most reward first, then lowest costs
    result = np.zeros(len(returns), dtype=bool)
    best = np.empty((0, returns.shape[1] - 1))
    for index in order:
        costs = returns[index, 1:]
        if not (best <= costs).all(axis=1).any():
            result[index] = True
            best = np.vstack([best, costs])
    return result


def thinned(
    returns: Float[np.ndarray, "e r"], *, cost_cells: int, reward_cells: int, most: int, seed: int
) -> Int[np.ndarray, " m"]:
    """Return at most so many random episodes from each cell of a grid over the returns, in rising order."""
    bins = np.array([reward_cells] + [cost_cells] * (returns.shape[1] - 1))
    low, high = returns.min(axis=0), returns.max(axis=0)
    place = (returns - low) / np.where(high > low, high - low, 1.0)  # in [0, 1]; the largest goes to the last cell
    places = np.minimum((place * bins).astype(np.int64), bins - 1)
    _, cells, sizes = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    cells = cells.reshape(-1)  # NumPy 2.0 alone gives it another shape
    # Sorted by cell, in random order within: an episode's rank is its distance from the start of its cell.
    order = np.lexsort([generator(seed, "thin").random(len(returns)), cells])
    ranks = np.empty(len(returns), dtype=np.int64)
    ranks[order] = np.arange(len(returns)) - (np.cumsum(sizes) - sizes)[cells[order]]
    return np.flatnonzero(ranks < most)
