"""Suites: the grid of tasks, methods, limits and seeds, with the budgets of the methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from lifesafe._config import fingerprint, from_plain, nearest, read_toml, to_plain
from lifesafe.errors import ConfigError
from lifesafe.lab.methods import METHODS, PLS, method_config
from lifesafe.life import Search, Start
from lifesafe.policies import LearnerConfig
from lifesafe.safety.problem import EPISODES, Promise


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is compared."""

    tasks: tuple[str, ...]
    """Tasks, as `lifesafe tasks` lists them."""
    methods: tuple[str, ...]
    """Methods, as `lifesafe train --help` lists them, and "pls"."""
    limits: tuple[float, ...] = (20.0, 40.0)
    """Limits on the cost of an episode."""
    seeds: int = 5
    """How many trainings of each."""
    episodes: int = 20
    """How many at the end of each training."""

    def __post_init__(self) -> None:
        for method in self.methods:
            if method not in (*METHODS, PLS):
                raise ConfigError(f"There is no method {method!r}.{nearest(method, [*METHODS, PLS])}")
        for name in ("tasks", "methods", "limits"):
            if not getattr(self, name):
                raise ConfigError(f"{name} must not be empty.")
        if not all(limit > 0 for limit in self.limits):
            raise ConfigError(f"limits must be positive; got {self.limits}.")
        for name in ("seeds", "episodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True)
class SafeSearch:
    """How "pls" searches: `lifetime.Search` with costs in limits, so that it serves all limits of a grid."""

    promise: Promise = "trial"
    """What is promised, "trial" or "total"; "total" needs `stop`."""
    delta: float = 0.1
    """Probability with which the promise may fail."""
    stop: float | None = None
    """Cost at which an episode of the search is ended, in limits; episodes run to their end unless given."""
    incident: float | Literal["horizon"] | None = None
    """Largest cost that one mishap adds where there is no stop, in limits, or "horizon"; 3 unless given."""
    episodes: int = EPISODES
    """Real episodes that a search takes at most."""
    start: Start = "data"
    """Where it begins: see `lifetime.Search`."""

    def __post_init__(self) -> None:
        if self.promise == "total" and self.stop is None:
            raise ConfigError('search: promise = "total" needs stop, 2 or 3 limits say; or set promise to "trial".')
        if self.stop is not None and self.incident is not None:
            raise ConfigError("search: give stop or incident, not both: with a stop no episode can cost more.")
        for name in ("stop", "incident"):
            value = getattr(self, name)
            if isinstance(value, float) and not value > 0:
                raise ConfigError(f"search: {name} must be positive; got {value:g}.")
        if not 0 < self.delta < 1:
            raise ConfigError(f"search: delta must lie between 0 and 1; got {self.delta:g}.")
        if self.episodes < 1:
            raise ConfigError(f"search: episodes must be at least 1; got {self.episodes}.")

    def under(self, limit: float) -> Search:
        """Return the search of a life with this limit."""
        return Search(
            promise=self.promise,
            delta=self.delta,
            stop_at=None if self.stop is None else (self.stop * limit,),
            incident=(self.incident * limit,) if isinstance(self.incident, float) else self.incident,
            episodes=self.episodes,
            start=self.start,
        )


@dataclass(frozen=True)
class Job:
    """One training and what is measured with it.

    Attributes:
        task: The task.
        method: The method.
        limits: For which limits; several if one training serves them all.
        seed: Decides everything that is random.
    """

    task: str
    method: str
    limits: tuple[float, ...]
    seed: int

    @property
    def name(self) -> str:
        """A name that no other job of its suite has."""
        return "-".join([self.task, self.method, *(f"{limit:g}" for limit in self.limits), str(self.seed)])


@dataclass(frozen=True)
class Suite:
    """A grid, and the settings that differ from the methods' own.

    Attributes:
        name: Of the suite.
        grid: What is compared.
        settings: Changed settings of methods, by name; "pls" has those of "cdt".
        tasks: Those that differ on one task from these, by its name and that of the method.
        search: How "pls" searches.
    """

    name: str
    grid: Grid
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    search: SafeSearch = SafeSearch()

    def jobs(self) -> list[Job]:
        """Return all jobs: the first seed of every task and method before the second of any."""
        grid = self.grid
        methods = [method for method in grid.methods if method != "cdt" or PLS not in grid.methods]
        return [
            Job(task, method, limits, seed)
            for seed in range(grid.seeds)
            for task in grid.tasks
            for method in methods
            for limits in ([(limit,) for limit in grid.limits] if _one_by_one(method) else [grid.limits])
        ]

    def config(self, job: Job) -> LearnerConfig:
        """Return the settings of a job's training.

        Raises:
            ConfigError: If a setting does not exist or does not fit.
        """
        method = "cdt" if job.method == PLS else job.method
        config = method_config(method, limits=job.limits[:1], task=job.task)
        own = self.tasks.get(job.task, {}).get(method, {})
        changed = {**to_plain(config), **self.settings.get(method, {}), **own}
        source = f"tasks.{job.task}.{method}" if own else f"settings.{method}"
        return from_plain(type(config), changed, source=f"suite {self.name}, {source}")

    def fingerprint(self, job: Job) -> str:
        """Return 16 digits that differ where a job is trained or measured otherwise."""
        search: list[Any] = [to_plain(self.search), job.seed] if job.method == PLS else []  # the seed draws trials
        return fingerprint([job.method, to_plain(self.config(job)), self.grid.episodes, search], 16)


def load_suite(name: str | Path) -> Suite:
    """Return a suite by its name, or from a TOML file.

    The file has a table `grid` with the fields of `Grid`, a table `search` with those of `SafeSearch` where "pls" does
    not search by its defaults, a table `settings.METHOD` for each method whose settings
    differ from its own, and a table `tasks.TASK.METHOD` where they differ from these on one task.

    Raises:
        ConfigError: If there is none, or it is not one.
    """
    path = Path(name)
    if path.suffix == ".toml":
        plain = read_toml(path)
    else:
        own = {entry.name.removesuffix(".toml"): entry for entry in files(__package__).joinpath("suites").iterdir()}
        if str(name) not in own:
            known = ", ".join(sorted(own))
            raise ConfigError(f"There is no suite {str(name)!r}; there are {known}, or give a file that ends in .toml.")
        plain = read_toml(str(own[str(name)]))
    unknown = plain.keys() - {"grid", "search", "settings", "tasks"}
    if unknown or "grid" not in plain:
        raise ConfigError(
            f"{name}: a suite has a table grid, and may have tables search, settings.METHOD and tasks.TASK.METHOD; got"
            f" {', '.join(sorted(plain))}."
        )
    grid = from_plain(Grid, plain["grid"], source=f"{name}, grid")
    search = from_plain(SafeSearch, plain.get("search", {}), source=f"{name}, search")
    suite = Suite(path.stem, grid, plain.get("settings", {}), plain.get("tasks", {}), search)
    _check_settings(name, "settings", suite.settings)
    for task, settings in suite.tasks.items():
        if task not in grid.tasks:
            raise ConfigError(f"{name}: tasks.{task} is about no task of the grid.{nearest(task, grid.tasks)}")
        _check_settings(name, f"tasks.{task}", settings)
    for job in suite.jobs():
        suite.config(job)
    return suite


def _check_settings(suite: str | Path, place: str, settings: Mapping[str, Mapping[str, Any]]) -> None:
    for method, changed in settings.items():
        if method not in METHODS:
            raise ConfigError(f"{suite}: {place}.{method} is about no method.{nearest(method, METHODS)}")
        if "limits" in changed:
            raise ConfigError(f"{suite}: {place}.{method} sets limits; those of all methods are grid.limits.")


def _one_by_one(method: str) -> bool:
    return method != PLS and METHODS[method].one_limit
