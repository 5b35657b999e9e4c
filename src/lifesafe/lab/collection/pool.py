"""MuJoCo environments in EnvPool: many at once in C++ threads.

EnvPool has the same physics and rewards as Gymnasium's version 4, but draws its starts with a generator of its own,
so the same seed gives another episode than in Gymnasium. It seeds an environment only when it is made; so a reset
makes new ones (about 4 ms each), unless the caller does without exact seeds. It takes actions unclipped, and would
restart an ended episode at the next step; both are taken care of here.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from lifesafe._optional import require
from lifesafe.errors import ConfigError
from lifesafe.systems.simulators.velocity import Velocity
from lifesafe.systems.task import Task
from lifesafe.systems.vector import OnRows, Rows, Step, check_seen


def supports(task: Task) -> bool:
    """Return whether EnvPool is installed and has a task."""
    return task.vector is None and task.envpool is not None and find_spec("envpool") is not None


@dataclass(eq=False)
class _Pool:
    """Environments made together: entry i of a pool is row rows[i], or nobody's any more (-1)."""

    pool: Any
    rows: Int[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class _Route:
    """Which entries of a pool are asked for, and where each of them stands among the rows that are asked for."""

    pool: Any
    entries: Int[np.ndarray, " m"]
    places: Int[np.ndarray, " m"]
    place_of: Int[np.ndarray, " n"]  # of every entry of the pool, asked for or not


class EnvPool(OnRows):
    """Velocity tasks in EnvPool (a `Vector`).

    Args:
        task: One of the velocity tasks.
        size: How many rows.
        exact_seeds: Whether a seed decides its whole episode. If not, only the first episode of each row is decided
            by its seed and later ones go on with the row's own random stream: the same calls still give the same
            results, and resets cost nothing.
        threads: Threads in C++; unless given, one for each processor, or just one inside a worker process.
    """

    def __init__(self, task: Task, size: int, *, exact_seeds: bool = True, threads: int | None = None) -> None:
        if task.envpool is None or not isinstance(task.make, Velocity):
            raise ConfigError(f"Task {task.name!r} is not in EnvPool; only the velocity tasks are. Use workers.")
        self._module = require("envpool", name="EnvPool", extra="fast", user=f"Task {task.name!r} with EnvPool")
        self._task, self._make = task, task.make
        self._rows = Rows(task, size)
        self._exact = exact_seeds
        alone = multiprocessing.parent_process() is None  # else the workers are the parallelism
        self._threads = threads or (alone and os.cpu_count()) or 1
        self._pools: list[_Pool] = []
        self._routed: tuple[Int[np.ndarray, " m"], list[_Route]] | None = None  # the last rows, and the way to them

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float32[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen."""
        self._rows.begin(rows, seeds)
        known = np.isin(rows, np.concatenate([[], *(pool.rows for pool in self._pools)]))
        if self._exact or not known.all():
            for pool in self._pools:
                pool.rows[np.isin(pool.rows, rows)] = -1
            self._close([pool for pool in self._pools if (pool.rows < 0).all()])
            self._pools.append(self._made(rows, seeds))
        observations = np.empty((len(rows), self._task.observations), dtype=np.float32)
        for route in self._routes(rows):
            seen, info = route.pool.reset(route.entries)
            observations[route.place_of[info["env_id"]]] = seen
        check_seen(observations, self._task)
        return observations

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        taken = self._rows.check(rows, actions).astype(np.float64)
        m = len(rows)
        observations = np.empty((m, self._task.observations), dtype=np.float32)
        rewards, costs = np.empty(m), np.empty((m, 1))
        terminated, truncated = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
        routes = self._routes(rows)
        for route in routes:
            route.pool.send(taken[route.places], route.entries)
        for route in routes:
            seen, reward, ended, cut_off, info = route.pool.recv()
            places = route.place_of[info["env_id"]]
            observations[places], rewards[places] = seen, reward
            terminated[places], truncated[places] = ended, cut_off
            costs[places, 0] = self._make.too_fast(info)
        check_seen(observations, self._task)
        return Step(observations, rewards, costs, terminated, self._rows.end(rows, terminated, truncated))

    def close(self) -> None:
        """Stop the threads; closing twice does no harm."""
        self._close(list(self._pools))

    def _made(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> _Pool:
        pool = self._module.make_gymnasium(
            self._task.envpool,
            num_envs=len(rows),
            num_threads=min(self._threads, len(rows)),
            seed=[int(seed) for seed in seeds],
            max_episode_steps=self._task.horizon,
        )
        return _Pool(pool, rows.astype(np.int64))

    def _close(self, pools: list[_Pool]) -> None:
        for pool in pools:
            pool.pool.close()
            self._pools.remove(pool)
        self._routed = None

    def _routes(self, rows: Int[np.ndarray, " m"]) -> list[_Route]:
        """Return the way to the named rows; most steps are of the same rows as the last one."""
        if self._routed is None or not np.array_equal(self._routed[0], rows):
            routes = [_route(pool, rows) for pool in self._pools]
            self._routed = rows.copy(), [route for route in routes if len(route.entries)]
        return self._routed[1]


def _route(pool: _Pool, rows: Int[np.ndarray, " m"]) -> _Route:
    _, entries, places = np.intersect1d(pool.rows, rows, return_indices=True)
    place_of = np.full(len(pool.rows), -1)
    place_of[entries] = places
    return _Route(pool.pool, entries.astype(np.int32), places, place_of)
