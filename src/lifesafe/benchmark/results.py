"""Results: one row for each task, method, limit and seed, in JSON files that tables are made from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lifesafe._config import from_plain, to_plain
from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError

ROWS = "rows"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one method did on one task under one limit, with one seed."""

    task: str
    """The task."""
    method: str
    """The method."""
    limit: float
    """The limit on the mean cost of an episode."""
    seed: int
    """The seed."""
    reward: float | None
    """Mean reward of the episodes at the end; none if nothing was known to be safe, so that nothing was run."""
    cost: float | None
    """Their mean cost."""
    reward_deviation: float | None
    """Standard deviation of the reward from episode to episode."""
    cost_deviation: float | None
    """The same of the cost."""
    episodes: int
    """How many these were."""
    references: tuple[float, float] | None
    """Rewards that count as 0 and as 1: the extremes of the public dataset; none for tasks that have none."""
    target: tuple[float, ...]
    """What the policy was asked for: reward, cost; empty if it cannot be asked."""
    steps: int
    """Gradient steps."""
    training_seconds: float
    """How long they took."""
    seconds: float
    """How long all else took."""
    trials: int = 0
    """Trials of a safe search."""
    online_episodes: int = 0
    """Episodes on the system before the end: those of the trials."""
    violations: int = 0
    """Trials whose mean cost was above the limit."""
    clear_violations: int = 0
    """Those among them that were above it by more than two standard errors."""
    trial_costs: tuple[float, ...] = ()
    """Mean cost of every trial."""
    data: str = ""
    """Name of the data file."""
    fingerprint: str = ""
    """Of the dataset."""
    source: str = ""
    """Where it comes from, if the file says so."""
    settings: str = ""
    """Fingerprint of the method's settings and of how it is measured."""
    versions: tuple[str, ...] = ()
    """Of the packages that matter."""

    @property
    def normalized_reward(self) -> float | None:
        """The reward between the references; itself where there are none."""
        if self.references is None or self.reward is None:
            return self.reward
        low, high = self.references
        return (self.reward - low) / (high - low)

    @property
    def normalized_cost(self) -> float | None:
        """The cost as a share of the limit."""
        return None if self.cost is None else self.cost / self.limit

    @property
    def learned_from(self) -> str:
        """The data, in words: file, first digits of the fingerprint, source."""
        words = " ".join([self.data or "the task's own", self.fingerprint[:8]]).strip()
        return f"{words} ({self.source})" if self.source else words


@dataclass(frozen=True)
class Cell:
    """What a method did on a task under a limit, over the seeds with which it ran anything.

    Attributes:
        reward: Mean normalized reward.
        reward_deviation: Its standard deviation over seeds.
        cost: Mean normalized cost.
        cost_deviation: Its standard deviation over seeds.
        seeds: How many ran something.
        idle: How many did not, since nothing was known to be safe.
    """

    reward: float
    reward_deviation: float
    cost: float
    cost_deviation: float
    seeds: int
    idle: int = 0

    @property
    def safe(self) -> bool:
        """Whether the mean cost is at most the limit."""
        return self.seeds > 0 and self.cost <= 1

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Cell:
        """Return the means and deviations of some rows."""
        rewards = [value for row in rows if (value := row.normalized_reward) is not None]
        costs = [value for row in rows if (value := row.normalized_cost) is not None]
        return cls(*_spread(rewards), *_spread(costs), len(costs), len(rows) - len(costs))


@dataclass(frozen=True)
class Key:
    """A place in a table."""

    task: str
    method: str
    limit: float


@dataclass(frozen=True)
class Table:
    """All cells, in the order in which rows and columns are shown."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    limits: tuple[float, ...]
    cells: Mapping[Key, Cell] = field(default_factory=dict)
    data: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the methods learned from, by task, in words: more than one entry if rows differ in it."""

    @classmethod
    def of(cls, rows: Iterable[Row], *, tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> Table:
        """Return the cells of some rows; tasks and methods in the order given, else in that of the rows."""
        grouped: dict[Key, list[Row]] = {}
        data: dict[str, set[str]] = {}
        for row in sorted(rows, key=lambda row: row.seed):
            grouped.setdefault(Key(row.task, row.method, row.limit), []).append(row)
            data.setdefault(row.task, set()).add(row.learned_from)
        return cls(
            tasks=_ordered((key.task for key in grouped), tasks),
            methods=_ordered((key.method for key in grouped), methods),
            limits=tuple(sorted({key.limit for key in grouped})),
            cells={key: Cell.of(group) for key, group in grouped.items()},
            data={task: tuple(sorted(words)) for task, words in data.items()},
        )

    def best(self, task: str, limit: float) -> str | None:
        """Return the safe method that earns most; none if none is safe."""
        safe = {
            key.method: cell.reward
            for key, cell in self.cells.items()
            if key.task == task and key.limit == limit and cell.safe
        }
        return max(safe, key=lambda method: safe[method]) if safe else None


def rows_file(directory: Path, name: str) -> Path:
    """Return where the rows of a job are."""
    return directory / ROWS / f"{name}.json"


def write_rows(directory: Path, name: str, rows: Sequence[Row]) -> None:
    """Write the rows of a job, whole or not at all."""
    (directory / ROWS).mkdir(parents=True, exist_ok=True)
    text = json.dumps([to_plain(row) for row in rows], indent=1, allow_nan=False)
    write_atomic(rows_file(directory, name), text + "\n")


def read_rows(path: str | Path) -> list[Row]:
    """Return the rows in the directory of a suite, or in a single JSON file.

    Raises:
        ConfigError: If there are none, or a file holds something else.
    """
    path = Path(path)
    paths = [path] if path.is_file() else sorted((path / ROWS).glob("*.json"))
    if not paths:
        raise ConfigError(f"There are no results in {path}; `lifesafe bench run` makes them.")
    rows = []
    for each in paths:
        try:
            entries: list[dict[str, Any]] = json.loads(each.read_text())
        except ValueError as error:
            raise ConfigError(f"{each} is not JSON: {error}. Remove it, and run the suite again.") from error
        if not isinstance(entries, list):
            raise ConfigError(f"{each} must hold a list of rows.")
        rows += [from_plain(Row, entry, source=str(each)) for entry in entries]
    return rows


def _ordered(found: Iterable[str], wanted: Sequence[str]) -> tuple[str, ...]:
    names = list(dict.fromkeys(found))
    return tuple([name for name in wanted if name in names] + [name for name in names if name not in wanted])


def _spread(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    mean = sum(values) / len(values)
    return mean, (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
