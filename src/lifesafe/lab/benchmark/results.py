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
    seconds: float | None
    """How long all else took; none if an earlier process had begun the search, whose share nothing tells."""
    promise: str = ""
    """What a safe search promised: "trial" or "total". Empty without a search, and in rows of version 0.1's search."""
    stop_at: float | None = None
    """Cost at which its episodes were ended, and those at the end; none if they ran to their end."""
    trials: int = 0
    """Trials of a safe search."""
    online_episodes: int = 0
    """Real episodes before the end: those of the trials."""
    ended: int = 0
    """Those among them that the stop has ended."""
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
        reward_deviation: Its standard deviation over seeds: of just these, so the mean square is over their number.
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
        """Return the means and deviations of rows that differ in their seeds only."""
        rewards = [value for row in rows if (value := row.normalized_reward) is not None]
        costs = [row.cost for row in rows if row.cost is not None]
        cost, deviation = _spread(costs)
        limit = rows[0].limit  # divided by last: a mean of just the limit is 1, and no rounding makes it more
        return cls(*_spread(rewards), cost / limit, deviation / limit, len(costs), len(rows) - len(costs))


@dataclass(frozen=True)
class Key:
    """A place in a table."""

    task: str
    method: str
    limit: float


@dataclass(frozen=True)
class Cells:
    """All cells, in the order in which rows and columns are shown."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    limits: tuple[float, ...]
    cells: Mapping[Key, Cell] = field(default_factory=dict)
    data: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the methods learned from, by task, in words: more than one entry if rows differ in it."""

    @classmethod
    def of(cls, rows: Iterable[Row], *, tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> Cells:
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

    def best(self, task: str, limit: float) -> tuple[str, ...]:
        """Return the safe methods that earn most: one, none if none is safe, several if they earn just the same."""
        safe = {
            key.method: cell.reward
            for key, cell in self.cells.items()
            if key.task == task and key.limit == limit and cell.safe
        }
        return tuple(method for method, reward in safe.items() if reward == max(safe.values()))


def rows_file(directory: Path, name: str) -> Path:
    """Return where the rows of a job are."""
    return directory / ROWS / f"{name}.json"


def write_rows(directory: Path, name: str, rows: Sequence[Row]) -> None:
    """Write the rows of a job, whole or not at all."""
    (directory / ROWS).mkdir(parents=True, exist_ok=True)
    text = json.dumps([to_plain(row) for row in rows], indent=1, allow_nan=False)
    write_atomic(rows_file(directory, name), text + "\n")


def read_rows(*results: str | Path) -> list[Row]:
    """Return the rows in directories of suites, or in single JSON files, each run once.

    Two jobs may have measured the same: one that was asked for one limit, and later one for both. The first counts.

    Raises:
        ConfigError: If there are none, a file holds something else, or two files disagree about a run.
    """
    found: dict[tuple[str, str, float, int], tuple[Row, Path]] = {}
    for path in (file for each in results for file in _files_of(Path(each))):
        for row in _read_file(path):
            first, place = found.setdefault((row.task, row.method, row.limit, row.seed), (row, path))
            if _measured(first) != _measured(row):
                raise ConfigError(
                    f"{place} and {path} disagree about {row.method} on {row.task} under {row.limit:g}, seed"
                    f" {row.seed}: {_said(first)}, and {_said(row)}. A run counts once; move one of them elsewhere."
                )
    return [row for row, _ in found.values()]


def _files_of(path: Path) -> list[Path]:
    paths = [path] if path.is_file() else sorted((path / ROWS).glob("*.json"))
    if not paths:
        raise ConfigError(f"There are no results in {path}; `lifesafe bench run` makes them.")
    return paths


def _read_file(path: Path) -> list[Row]:
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}. Remove it, and run the suite again.") from error
    if not isinstance(entries, list):
        raise ConfigError(f"{path} must hold a list of rows.")
    return [from_plain(Row, entry, source=str(path)) for entry in entries]


def _measured(row: Row) -> tuple[object, ...]:
    """Return what a run came to: not how long it took, nor by which job it was done."""
    return row.reward, row.cost, row.episodes, row.trial_costs, row.fingerprint


def _said(row: Row) -> str:
    ran = "nothing was run" if row.reward is None else f"reward {row.reward:.6g} at cost {row.cost:.6g}"
    return f"{ran}, from {row.learned_from}"


def _ordered(found: Iterable[str], wanted: Sequence[str]) -> tuple[str, ...]:
    names = list(dict.fromkeys(found))
    return tuple([name for name in wanted if name in names] + [name for name in names if name not in wanted])


def _spread(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
