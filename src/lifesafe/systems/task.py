"""Task: an environment, its limits, its reference scores and where its data come from; and all tasks by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from lifesafe._config import nearest
from lifesafe.data import Dataset, read_dsrl
from lifesafe.errors import ConfigError, DatasetError, UnknownTaskError
from lifesafe.returns import per_cost


@dataclass(frozen=True, kw_only=True)
class Box:
    """Targets that the paper takes as safe to start from, as closed ranges."""

    reward: tuple[float, float]
    cost: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a policy is to do, and under which limits.

    A custom one needs a name, a way to make the environment, the sizes and the horizon:

    Examples:
        >>> Task(name="Mine", make="my_package:make", observations=4, actions=2, horizon=100, limits=(20.0,)).limits
        (20.0,)
    """

    name: str
    """What `task(name)` finds it by."""
    make: str | Callable[[], Any]
    """Makes one Gymnasium environment whose step puts the costs into `info["cost"]`: a number, or one per cost.
    A function, or where to find one: "package.module:function"."""
    observations: int
    """Size of an observation."""
    actions: int
    """Size of an action; every entry lies in [-1, 1]."""
    horizon: int
    """Steps after which an episode is cut off."""
    limits: tuple[float, ...] = (20.0,)
    """Largest mean cost of an episode, one per cost; any sequence, or a number alone, is kept as a tuple."""
    largest_costs: tuple[float, ...] = (1.0,)
    """Largest cost of one step, one per cost, in the same ways."""
    reference: tuple[float, float] | None = None
    """Lowest and highest return of the public dataset, by which published tables normalize rewards."""
    dataset_file: str | None = None
    """Name of the public DSRL file."""
    start: Box | None = None
    """The paper's set of targets to start from."""
    scripted: str | None = None
    """Where to find a function that makes a dataset without any file, if there is one: "package.module:function"."""
    vector: str | Callable[[int], Any] | None = None
    """Makes what steps so many episodes at once, if there is such a thing: a class or function of their number, or
    where to find one, "package.module:Class". Unless it has this task's `horizon` itself, it is cut off there."""
    envpool: str | None = None
    """Name of the same physics in EnvPool, if it has it."""
    cost: str = ""
    """What costs, in words."""
    summary: str = ""
    """One line for `lifesafe tasks`."""

    def __post_init__(self) -> None:
        for name in ("observations", "actions", "horizon"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Task {self.name!r}: {name} must be at least 1; got {getattr(self, name)}.")
        for name in ("limits", "largest_costs"):
            values = per_cost(f"Task {self.name!r}: {name}", getattr(self, name))
            object.__setattr__(self, name, values)  # the class is frozen for everybody else
        if not self.limits or len(self.limits) != len(self.largest_costs):
            raise ConfigError(
                f"Task {self.name!r} has {len(self.limits)} limits and {len(self.largest_costs)} largest costs;"
                " give one of each per cost."
            )

    def with_limits(self, limits: float | Sequence[float]) -> Self:
        """Return the same task under other limits.

        Raises:
            ConfigError: If they are no numbers, or not as many as there are costs.
        """
        values = per_cost("limits", limits)
        if len(values) != len(self.limits):
            raise ConfigError(f"Got {len(values)} limits for {len(self.limits)} costs; give one limit per cost.")
        return replace(self, limits=values)

    def environment(self) -> Any:
        """Return a new Gymnasium environment, which the caller closes."""
        return (load_entry_point(self.make) if isinstance(self.make, str) else self.make)()

    def dataset(self, directory: str | Path | None = None) -> Dataset:
        """Return the data of the task: made by its script if it has one, else its public file, fetched if needed.

        Args:
            directory: Where public files are kept; unless given, in the user's cache.

        Raises:
            DatasetError: If the task has no data of its own, or they cannot be fetched or read.
        """
        if self.scripted is not None:
            made: Dataset = load_entry_point(self.scripted)()
            return made
        if self.dataset_file is None:
            raise DatasetError(
                f"Task {self.name!r} has no data of its own; give some: --data FILE, in Python read_dsrl(file). For a"
                " task that `lifesafe tasks` lists `lifesafe data collect` makes some."
            )
        files = importlib.import_module("lifesafe.data.fetch")  # loads HTTP and TLS, which few programs need
        return read_dsrl(files.fetch(self.dataset_file, directory or files.default_directory()))

    def check(self, dataset: Dataset) -> None:
        """Refuse data of another task.

        Raises:
            DatasetError: If observations, actions or costs have other sizes.
        """
        found = (dataset.observations.shape[1], dataset.actions.shape[1], dataset.costs.shape[1])
        wanted = (self.observations, self.actions, len(self.limits))
        if found != wanted:
            told, asked = (f"{o} observations, {a} actions and {c} costs a step" for o, a, c in (found, wanted))
            raise DatasetError(f"The data have {told}; task {self.name!r} has {asked}. Give data of this task.")

    def normalize(self, reward: float) -> float:
        """Return a reward return on the scale of published tables: 0 and 1 are the extremes of the public dataset.

        Raises:
            ConfigError: If the task has no reference returns.
        """
        if self.reference is None:
            raise ConfigError(f"Task {self.name!r} has no reference returns; report its raw returns.")
        low, high = self.reference
        return (reward - low) / (high - low)


def load_entry_point(entry_point: str) -> Any:
    """Return what "package.module:name" names.

    Raises:
        ConfigError: If there is no such thing.
    """
    module, _, name = entry_point.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f'Cannot find {entry_point!r}: {error}. Write it as "package.module:name".') from error


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
