"""Acting in many environments at once, each episode under a limit of its own, and logging what happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from lifesafe._random import generator, integer
from lifesafe.data import Episode
from lifesafe.errors import EpisodeError
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Step, Vector

Act = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Means of the actions, given observations and the positions of the limits."""


@dataclass(frozen=True, eq=False)
class Segment:
    """What happened in t steps of n environments, for learning.

    Attributes:
        actions: What was chosen, before clipping.
        gains: What each step earned, then what it cost.
        ends: Whether the step ended its episode.
        observations: What was seen before each step, and after the last one.
        positions: Where the limit of the running episode lies between the tightest (0) and the loosest (1).
        times: Fraction of the horizon that has passed.
    """

    actions: Float[np.ndarray, "t n a"]
    gains: Float[np.ndarray, "t n r"]
    ends: Bool[np.ndarray, "t n"]
    observations: Float[np.ndarray, "t+1 n o"]
    positions: Float[np.ndarray, "t+1 n"]
    times: Float[np.ndarray, "t+1 n"]


@dataclass(frozen=True, eq=False)
class Finished:
    """One whole episode, and how it was acted: under the limit at a position, with a fraction of the noise."""

    episode: Episode
    position: float
    noise: float


class Explorer:
    """Environments of one task; the last of them, the exhibits, act with less noise than was learned."""

    def __init__(self, task: Task, vector: Vector, exhibits: int, seed: int, begun: int = 0) -> None:
        size, horizon = vector.size, task.horizon
        self.begun = begun
        self._vector, self._seed, self._horizon = vector, seed, horizon
        self._rows, self._learners = np.arange(size), size - exhibits
        self._times = np.zeros(size, dtype=np.int64)
        self._positions, self._noises = np.zeros(size), np.ones(size)
        # One row per environment, filled in place: the episodes that are running now.
        self._observations = np.empty((size, horizon + 1, task.observations), dtype=np.float32)
        self._actions = np.empty((size, horizon, task.actions), dtype=np.float32)
        self._gains = np.empty((size, horizon, 1 + len(task.limits)), dtype=np.float32)
        self._seen = np.empty((size, task.observations))
        self._begin(self._rows)

    def segment(self, act: Act, deviation: Float[np.ndarray, " a"], steps: int, noise: np.random.Generator) -> Segment:
        """Take so many steps in every environment and return what the learners among them did.

        Raises:
            EpisodeError: If an environment gives a number that is not finite.
        """
        self.finished: list[Finished] = []
        log: dict[str, list[np.ndarray]] = {name: [] for name in Segment.__dataclass_fields__}
        for _ in range(steps):
            white = noise.standard_normal((len(self._rows), len(deviation))) * self._noises[:, None]
            actions = act(self._seen, self._positions) + deviation * white
            self._record(log, actions=actions)
            step = self._vector.step(self._rows, np.clip(actions, -1, 1))
            if not (np.isfinite(step.observations).all() and np.isfinite(step.rewards + step.costs.sum(axis=1)).all()):
                raise EpisodeError("A step gave a number that is not finite; nothing can be learned from that.")
            ends = self._keep(np.clip(actions, -1, 1), step)
            log["gains"].append(np.column_stack([step.rewards, step.costs]))
            log["ends"].append(ends)
        self._record(log)
        return Segment(**{name: np.stack(values)[:, : self._learners] for name, values in log.items()})

    def _record(self, log: dict[str, list[np.ndarray]], **more: np.ndarray) -> None:
        now = {"observations": self._seen.copy(), "positions": self._positions.copy()}
        for name, value in {**now, "times": self._times / self._horizon, **more}.items():
            log[name].append(value)

    def _keep(self, actions: np.ndarray, step: Step) -> Bool[np.ndarray, " n"]:
        """Write the step into the running episodes, take out those that ended and begin others."""
        at = (self._rows, self._times)
        self._observations[at], self._actions[at] = self._seen, actions
        self._gains[at] = np.column_stack([step.rewards, step.costs])
        self._times += 1
        self._observations[self._rows, self._times] = step.observations
        self._seen = np.array(step.observations, dtype=np.float64)
        ends: np.ndarray = step.terminated | step.truncated
        ended = np.flatnonzero(ends)
        if len(ended):
            self.finished += [self._take(int(row), bool(step.terminated[row])) for row in ended]
            self._begin(ended)
        return ends

    def _take(self, row: int, terminated: bool) -> Finished:
        length = int(self._times[row])
        seen, gains = self._observations[row, : length + 1].copy(), self._gains[row, :length].copy()
        episode = Episode(
            observations=seen[:-1],
            actions=self._actions[row, :length].copy(),
            rewards=gains[:, 0],
            costs=gains[:, 1:],
            next_observations=seen[1:],
            terminated=terminated,
        )
        return Finished(episode, float(self._positions[row]), float(self._noises[row]))

    def _begin(self, rows: np.ndarray) -> None:
        numbers = range(self.begun, self.begun + len(rows))
        for row, number in zip(rows, numbers, strict=True):
            draw = generator(self._seed, "limit", number)
            self._positions[row] = draw.random()
            self._noises[row] = 1.0 if row < self._learners else 0.5 * draw.random()
        seeds = [integer(self._seed, "episode", number) for number in numbers]
        self.begun += len(rows)
        self._times[rows] = 0
        self._seen[rows] = self._vector.reset(rows, seeds)
