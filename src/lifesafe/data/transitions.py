"""Facts about single transitions: what the rest of their episode earns, and how far into it they are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe._random import generator
from lifesafe.data.dataset import Dataset
from lifesafe.errors import DatasetError


def returns_to_go(dataset: Dataset) -> Float[np.ndarray, "n r"]:
    """Return what each transition and the rest of its episode earned and cost, the reward first."""
    steps = np.column_stack([dataset.rewards, dataset.costs]).astype(np.float64)
    sums = np.cumsum(steps, axis=0)
    ends = np.repeat(dataset.offsets[1:] - 1, dataset.lengths)
    to_go: np.ndarray = sums[ends] - sums + steps
    return to_go


def steps_done(dataset: Dataset) -> Int[np.ndarray, " n"]:
    """Return how many steps of its episode lie before each transition."""
    steps: np.ndarray = np.arange(dataset.transitions) - np.repeat(dataset.offsets[:-1], dataset.lengths)
    return steps


def held_out_transitions(dataset: Dataset, fraction: float, *, seed: int) -> Bool[np.ndarray, " n"]:
    """Return a mask of the transitions of a random fraction of the episodes, at least one; no column is copied.

    Raises:
        DatasetError: If no episode would be left on one side.
    """
    count = max(1, round(fraction * len(dataset))) if fraction > 0 else 0
    if count >= len(dataset):
        raise DatasetError(
            f"Holding out {fraction} of {len(dataset)} episodes leaves none to learn from; give more episodes."
        )
    episodes = np.zeros(len(dataset), dtype=bool)
    episodes[generator(seed, "held out").permutation(len(dataset))[:count]] = True
    return np.repeat(episodes, dataset.lengths)
