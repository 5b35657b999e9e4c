"""Segments of consecutive steps in the flat columns of a dataset, and facts about single transitions.

Notation: n transitions, e episodes, b segments of l steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe._random import generator
from lifesafe.data.dataset import Dataset
from lifesafe.errors import DatasetError

Starts = Literal["whole", "anywhere"]


@dataclass(frozen=True)
class SegmentRows:
    """Some segments, as rows of the flat columns.

    Attributes:
        rows: Index of each step's transition. Steps after the end of the episode repeat its last transition.
        real: Whether the step belongs to the episode.
        times: Number of each step within its episode, from 0; goes on after the end.
        episodes: Which episode each segment was cut from.
    """

    rows: Int[np.ndarray, "b l"]
    real: Bool[np.ndarray, "b l"]
    times: Int[np.ndarray, "b l"]
    episodes: Int[np.ndarray, " b"]

    def pick(self, segments: Int[np.ndarray, " m"]) -> SegmentRows:
        """Return some of the segments."""
        return SegmentRows(self.rows[segments], self.real[segments], self.times[segments], self.episodes[segments])


class Segments:
    """Draws segments of a fixed length: an episode with chance proportional to its weight, then where to start.

    With starts "whole", a start is drawn from all places where the segment would share a step with the episode, then
    moved so that it lies within: segments are padded only if the episode is shorter, and the first and last steps of
    an episode are seen at least as often as the rest. With starts "anywhere" it is any step of the episode, so
    segments near the end are padded, and the first step is seen `length` times more rarely than the rest (as in OSRL).
    """

    def __init__(
        self,
        first: Int[np.ndarray, " e"],
        lengths: Int[np.ndarray, " e"],
        weights: Float[np.ndarray, " e"],
        *,
        length: int,
        starts: Starts = "whole",
    ) -> None:
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise DatasetError(
                f"Episodes need weights that are not negative, one of them positive; got {weights.min()} to"
                f" {weights.max()}."
            )
        self.length = length
        self.starts = starts
        self._first = first
        self._lengths = lengths
        self._cumulative = np.cumsum(weights, dtype=np.float64)

    def draw(self, random: np.random.Generator, segments: int) -> SegmentRows:
        """Return so many random segments."""
        chances = random.random((2, segments))
        episodes = np.searchsorted(self._cumulative, chances[0] * self._cumulative[-1], side="right")
        episodes = np.minimum(episodes, len(self._cumulative) - 1)  # 0.999... * total may round up to total
        lengths = self._lengths[episodes]
        if self.starts == "anywhere":
            return self.at(episodes, (chances[1] * lengths).astype(np.int64))
        places = (chances[1] * (lengths + self.length - 1)).astype(np.int64) - (self.length - 1)
        return self.at(episodes, np.clip(places, 0, np.maximum(lengths - self.length, 0)))

    def cover(self, segments: int) -> SegmentRows:
        """Return so many segments spread evenly over all steps of all episodes, or all disjoint ones if fewer."""
        counts = -(-self._lengths // self.length)
        episodes = np.repeat(np.arange(len(counts)), counts)
        starts = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)) * self.length
        chosen = np.unique(np.linspace(0, len(episodes) - 1, min(segments, len(episodes))).astype(np.int64))
        return self.at(episodes[chosen], starts[chosen])

    def at(self, episodes: Int[np.ndarray, " b"], starts: Int[np.ndarray, " b"]) -> SegmentRows:
        """Return the segments that begin at these steps of these episodes."""
        moments = starts[:, None] + np.arange(self.length)
        lengths = self._lengths[episodes][:, None]
        rows = self._first[episodes][:, None] + np.minimum(moments, lengths - 1)
        return SegmentRows(rows=rows, real=moments < lengths, times=moments, episodes=episodes)


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
