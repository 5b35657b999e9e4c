"""Open many environments of a task, in the way that suits the machine."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Literal

from lifesafe._config import nearest
from lifesafe.environments.pool import EnvPool
from lifesafe.environments.stop import Stopped, checked_stop
from lifesafe.environments.task import Task, load
from lifesafe.environments.vector import InProcess, Shortened, Vector
from lifesafe.environments.workers import Workers
from lifesafe.errors import ConfigError

Backend = Literal["auto", "process", "workers", "envpool", "native"]


def open_vector(
    task: Task,
    size: int,
    *,
    workers: int = 0,
    backend: Backend = "auto",
    timeout: float = 60.0,
    exact_seeds: bool = True,
    stop_at: Sequence[float] | None = None,
) -> Vector:
    """Return many environments of a task, which the caller closes.

    All but EnvPool give the same episode for the same seed and actions, to the bit; EnvPool has episodes of its own.

    Args:
        task: Which task.
        size: How many episodes run side by side.
        workers: How many processes to spread them over; 0 for none.
        backend: "native" for the task's own vector, "process" for one environment after the other in this process,
            "workers" for processes, "envpool" for EnvPool's threads. "auto" takes the first that fits of native,
            workers (if `workers` is not 0), process.
        timeout: Seconds for one step of one environment; a worker that takes longer for all of its own together counts
            as hanging and is replaced.
        exact_seeds: Whether a seed must decide its whole episode; without that, EnvPool resets faster.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.

    Raises:
        ConfigError: If the task cannot be run in that way.
        DependencyError: If EnvPool is asked for and not installed.
    """
    stop = None if stop_at is None else checked_stop(stop_at, len(task.limits))
    vector = _opened(task, size, workers, backend, timeout, exact_seeds)
    return vector if stop is None else Stopped(vector, task, stop)


def _opened(task: Task, size: int, workers: int, backend: Backend, timeout: float, exact_seeds: bool) -> Vector:
    if backend not in typing.get_args(Backend):
        choices = typing.get_args(Backend)
        raise ConfigError(f"backend = {backend!r} is not one of {', '.join(choices)}.{nearest(str(backend), choices)}")
    if backend == "auto":
        backend = "native" if task.vector is not None else "workers" if workers else "process"
    if backend == "native":
        if task.vector is None:
            raise ConfigError(f"Task {task.name!r} has no vector of its own; use another backend.")
        vector: Vector = (load(task.vector) if isinstance(task.vector, str) else task.vector)(size)
        # Made of nothing but its size, it cannot know the horizon of a task that was changed.
        return vector if getattr(vector, "horizon", None) == task.horizon else Shortened(vector, task)
    if backend == "workers":
        return Workers(task, size, workers=workers or 1, timeout=timeout)
    if backend == "envpool":
        return EnvPool(task, size, exact_seeds=exact_seeds)
    return InProcess(task, size)
