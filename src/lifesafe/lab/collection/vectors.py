"""Open many environments for a collection: in this process, in processes of their own, or in EnvPool's threads."""

from __future__ import annotations

from lifesafe.lab.collection.pool import EnvPool, supports
from lifesafe.lab.collection.workers import Workers
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Vector, open_vector


def open_many(task: Task, size: int, *, workers: int = 0) -> Vector:
    """Return many environments of a task in the fastest way there is, which the caller closes.

    Args:
        task: Which task.
        size: How many episodes run side by side.
        workers: Processes, where neither the task nor EnvPool runs them side by side; 0 for none.
    """
    if supports(task):
        return EnvPool(task, size)
    if task.vector is None and workers:
        return Workers(task, size, workers=workers)
    return open_vector(task, size)
