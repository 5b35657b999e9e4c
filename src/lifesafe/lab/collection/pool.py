"""MuJoCo environments in EnvPool: many at once in C++ threads.

EnvPool has the same physics and rewards as Gymnasium's version 4, but draws its starts with a generator of its own,
so the same seed gives another episode than in Gymnasium. It seeds an environment only when it is made: the first
episode of a row is decided by its seed, later ones go on with the row's own random stream. So the same calls give the
same results, and resets cost nothing. It takes actions unclipped, and would restart an ended episode at the next step;
both are taken care of here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from lifesafe._optional import require
from lifesafe.errors import ConfigError
from lifesafe.systems.simulators.velocity import Velocity
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Rows, Step, check_seen


def supports(task: Task) -> bool:
    """Return whether EnvPool is installed and has a task."""
    return task.vector is None and task.envpool is not None and find_spec("envpool") is not None


class EnvPool(Rows):
    """Velocity tasks in EnvPool (a `Vector`, but for later seeds); the first reset names all rows, in their order."""

    def __init__(self, task: Task, size: int) -> None:
        if task.envpool is None or not isinstance(task.make, Velocity):
            raise ConfigError(f"Task {task.name!r} is not in EnvPool; only the velocity tasks are. Use workers.")
        super().__init__(task, size)
        self._module = require("envpool", name="EnvPool", extra="fast", user=f"Task {task.name!r} with EnvPool")
        self._make = task.make
        self._pool: Any = None

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float32[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen."""
        if self._pool is None:
            if not np.array_equal(rows, np.arange(self.size)):
                raise ConfigError(f"EnvPool makes all rows at their first reset: name 0 to {self.size - 1}.")
            self._pool = self._module.make_gymnasium(
                self._task.envpool,
                num_envs=self.size,
                num_threads=min(os.cpu_count() or 1, self.size),
                seed=[int(seed) for seed in seeds],
                max_episode_steps=self._task.horizon,
            )
        self._begin(rows, seeds)
        observations = np.empty((len(rows), self._task.observations), dtype=np.float32)
        seen, info = self._pool.reset(rows.astype(np.int32))
        observations[self._places(rows, info)] = seen
        check_seen(observations, self._task)
        return observations

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        taken = self._check(rows, actions).astype(np.float64)
        self._pool.send(taken, rows.astype(np.int32))
        seen, rewards, terminated, truncated, info = self._pool.recv()
        order = np.argsort(self._places(rows, info))
        observations, terminated = seen[order].astype(np.float32), terminated[order]
        check_seen(observations, self._task)
        return Step(
            observations=observations,
            rewards=rewards[order].astype(np.float64),
            costs=self._make.too_fast(info)[order, None].astype(np.float64),
            terminated=terminated,
            truncated=self._end(rows, terminated, truncated[order]),
        )

    def close(self) -> None:
        """Stop the threads; closing twice does no harm."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _places(self, rows: Int[np.ndarray, " m"], info: Mapping[str, Any]) -> Int[np.ndarray, " m"]:
        """Return where each result belongs: environments in threads answer in any order."""
        place_of = np.empty(self.size, dtype=np.int64)
        place_of[rows] = np.arange(len(rows))
        places: Int[np.ndarray, " m"] = place_of[info["env_id"]]
        return places
