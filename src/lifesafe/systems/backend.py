"""Open many environments of a task in this process."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Literal

from lifesafe._config import nearest
from lifesafe.errors import ConfigError
from lifesafe.systems.stop import Stopped, checked_stop
from lifesafe.systems.task import Task, load
from lifesafe.systems.vector import InProcess, Shortened, Vector

Backend = Literal["auto", "process", "native"]


def open_vector(task: Task, size: int, *, backend: Backend = "auto", stop_at: Sequence[float] | None = None) -> Vector:
    """Return many environments of a task, which the caller closes.

    Args:
        task: Which task.
        size: How many episodes run side by side.
        backend: "native" for the task's own vector, "process" for one environment after the other; "auto" takes the
            first that there is. Both give the same episode for the same seed and actions, to the bit.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.

    Raises:
        ConfigError: If the task cannot be run in that way.
    """
    if backend not in typing.get_args(Backend):
        choices = typing.get_args(Backend)
        raise ConfigError(f"backend = {backend!r} is not one of {', '.join(choices)}.{nearest(str(backend), choices)}")
    if backend == "native" and task.vector is None:
        raise ConfigError(f"Task {task.name!r} has no vector of its own; use another backend.")
    stop = None if stop_at is None else checked_stop(stop_at, len(task.limits))
    vector = InProcess(task, size) if backend == "process" or task.vector is None else _native(task, size)
    return vector if stop is None else Stopped(vector, task, stop)


def _native(task: Task, size: int) -> Vector:
    assert task.vector is not None
    vector: Vector = (load(task.vector) if isinstance(task.vector, str) else task.vector)(size)
    # Made of nothing but its size, it cannot know the horizon of a task that was changed.
    return vector if getattr(vector, "horizon", None) == task.horizon else Shortened(vector, task)
