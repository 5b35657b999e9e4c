"""The tasks by name."""

from __future__ import annotations

from collections.abc import Sequence

from lifesafe._config import nearest
from lifesafe.errors import ConfigError, UnknownTaskError
from lifesafe.systems.task import Task

_tasks: dict[str, Task] = {}


def register(task: Task) -> Task:
    """Make a task known by its name, and return it.

    Raises:
        ConfigError: If another task has that name.
    """
    if _tasks.setdefault(task.name, task) != task:
        raise ConfigError(f"There is a task {task.name!r} already; give yours another name.")
    return task


def task(name: str, *, limits: float | Sequence[float] | None = None) -> Task:
    """Return the task of that name, under other limits if they are given.

    Raises:
        UnknownTaskError: If no task has that name.
        ConfigError: If the limits are no numbers, or not as many as there are costs.
    """
    found = _tasks.get(name)
    if found is None:
        raise UnknownTaskError(f'Unknown task {name!r}.{nearest(name, _tasks)} "lifesafe tasks" lists all.')
    return found if limits is None else found.with_limits(limits)


def tasks() -> tuple[Task, ...]:
    """Return all tasks known, in the order they were registered."""
    return tuple(_tasks.values())
