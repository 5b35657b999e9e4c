"""Dataset: flat columns of transitions, and where each episode begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.data.episode import Episode
from lifesafe.data.summary import Summary, summarize
from lifesafe.errors import DatasetError

COLUMNS = ("observations", "actions", "rewards", "costs", "next_observations")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Episodes one after another in flat columns, n transitions in all; `dataset[i]` is an `Episode`.

    The columns are float32 and may be memory-mapped files, so nothing here copies or changes them.

    Attributes:
        observations: What was seen before each action.
        actions: What was done.
        rewards: What each step earned.
        costs: What each step cost, one column per cost.
        next_observations: What was seen after each action.
        terminated: Whether each episode ended by itself rather than by its time limit.
        offsets: Index of the first transition of each episode, and n at the end.
    """

    observations: Float[np.ndarray, "n o"]
    actions: Float[np.ndarray, "n a"]
    rewards: Float[np.ndarray, " n"]
    costs: Float[np.ndarray, "n k"]
    next_observations: Float[np.ndarray, "n o"]
    terminated: Bool[np.ndarray, " e"]
    offsets: Int[np.ndarray, " e+1"]

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in COLUMNS}
        _check_shapes(columns)
        _check_finite(columns)
        _check_costs(self.costs)
        _check_offsets(self.offsets, self.terminated, len(self.rewards))

    @classmethod
    def from_arrays(
        cls,
        *,
        observations: Any,
        actions: Any,
        rewards: Any,
        costs: Any,
        terminals: Any,
        timeouts: Any,
        next_observations: Any = None,
    ) -> Self:
        """Return the dataset in flat arrays, the episodes one after another, as DSRL and D4RL keep them.

        An episode ends where `terminals` or `timeouts` is true; steps after the last end are left out, since
        nobody knows how that episode went on (`lifesafe data check` counts them).

        All arrays have one row per transition; observations, actions and costs may be (n,) if a row is one number.
        `terminals` says where an episode ended by itself, `timeouts` where it was cut off. Without `next_observations`
        an episode's last step has the observation it began with as its next one, which only matters to methods that
        bootstrap.

        Raises:
            DatasetError: If the arrays do not fit together, hold no whole episode, NaN, infinities or negative costs.
        """
        rewards = _flat(as_column(rewards))
        terminated, truncated = _flags(terminals), _flags(timeouts)
        if not len(rewards) == len(terminated) == len(truncated):
            raise DatasetError(
                f"Got {len(rewards)} rewards, {len(terminated)} terminals and {len(truncated)} timeouts;"
                " give one of each per transition."
            )
        ends = np.flatnonzero(terminated | truncated) + 1
        if not len(ends):
            raise DatasetError(
                f"None of the {len(rewards)} transitions ends an episode; set timeouts at the last step of each."
            )
        columns = {
            "observations": _matrix(as_column(observations)),
            "actions": _matrix(as_column(actions)),
            "rewards": rewards,
            "costs": _matrix(as_column(costs)),
        }
        if next_observations is None:
            _check_shapes(columns)
            columns["next_observations"] = _following(columns["observations"], ends)
        else:
            columns["next_observations"] = _matrix(as_column(next_observations))
        _check_shapes(columns)
        return cls(
            **{name: column[: ends[-1]] for name, column in columns.items()},
            offsets=np.concatenate([[0], ends]),
            terminated=terminated[ends - 1],
        )

    @classmethod
    def from_episodes(cls, episodes: Iterable[Episode]) -> Self:
        """Return the episodes as one dataset.

        Raises:
            DatasetError: If there are none, or their shapes differ.
        """
        episodes = list(episodes)
        if not episodes:
            raise DatasetError("Got no episodes; give at least one.")
        for name in COLUMNS:
            shapes = {getattr(episode, name).shape[1:] for episode in episodes}
            if len(shapes) > 1:
                raise DatasetError(f"The {name} of the episodes have rows of shapes {sorted(shapes)}; give one shape.")
        return cls(
            **{name: as_column(np.concatenate([getattr(episode, name) for episode in episodes])) for name in COLUMNS},
            offsets=np.cumsum([0] + [len(episode) for episode in episodes]),
            terminated=np.array([episode.terminated for episode in episodes], dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.terminated)

    def __getitem__(self, index: int) -> Episode:
        index = range(len(self))[index]
        rows = slice(self.offsets[index], self.offsets[index + 1])
        return Episode(**{name: getattr(self, name)[rows] for name in COLUMNS}, terminated=bool(self.terminated[index]))

    def __iter__(self) -> Iterator[Episode]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"Dataset({len(self)} episodes, {self.transitions} transitions, {self.observations.shape[1]} observations,"
            f" {self.actions.shape[1]} actions, {self.costs.shape[1]} costs)"
        )

    @property
    def transitions(self) -> int:
        return len(self.rewards)

    @property
    def lengths(self) -> Int[np.ndarray, " e"]:
        return np.diff(self.offsets)

    @cached_property
    def returns(self) -> Float[np.ndarray, "e r"]:
        """What each episode earned and cost: one row per episode, the reward first."""
        steps = np.column_stack([self.rewards, self.costs]).astype(np.float64)
        return np.add.reduceat(steps, self.offsets[:-1], axis=0)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all values, as 64 hexadecimal digits: equal data have equal fingerprints, whatever the file."""
        digest = hashlib.sha256()
        for field in fields(self):
            array = np.ascontiguousarray(getattr(self, field.name))
            digest.update(f"{field.name} {array.dtype.str} {array.shape}".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def summary(self, limits: float | Sequence[float] | None = None) -> Summary:
        """Return the figures one would first ask for; printed, they are a table.

        With limits, one per cost, they also say how many episodes keep them, and which of those is the best.

        Raises:
            ConfigError: If their number is not that of the costs.
        """
        return summarize(self.returns, self.lengths, self.terminated, limits)

    def select(self, episodes: Int[np.ndarray, " m"] | Bool[np.ndarray, " e"] | Sequence[int]) -> Self:
        """Return some of the episodes, in the order named, or those where a mask is true.

        Raises:
            DatasetError: If none is selected, or one that does not exist.
        """
        wanted = np.asarray(episodes)
        try:
            chosen = np.arange(len(self))[wanted] if wanted.size else wanted
        except IndexError as error:
            raise DatasetError(f"Cannot select from {len(self)} episodes: {error}.") from error
        if not len(chosen):
            raise DatasetError("A dataset needs at least one episode; none was selected.")
        # Slices, not row indices: whole episodes are copied at the speed of memory.
        rows = [slice(*self.offsets[index : index + 2]) for index in chosen]
        return type(self)(
            **{name: np.concatenate([getattr(self, name)[part] for part in rows]) for name in COLUMNS},
            offsets=np.concatenate([[0], np.cumsum(self.lengths[chosen])]),
            terminated=self.terminated[chosen],
        )


def as_column(values: Any) -> np.ndarray:
    """Return values as a float32 array, without copying one that is; memory maps stay memory maps."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
            return np.asanyarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DatasetError(f"A column of a dataset holds numbers only: {error}.") from error


def _matrix(array: np.ndarray) -> np.ndarray:
    return array[:, None] if array.ndim == 1 else array


def _flat(array: np.ndarray) -> np.ndarray:
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _flags(values: Any) -> np.ndarray:
    flags = _flat(np.asarray(values))
    if flags.ndim != 1 or flags.dtype.kind not in "biuf":
        raise DatasetError(f"Ends are given as one flag per transition; got {flags.dtype} of shape {flags.shape}.")
    return flags.astype(bool)


def _following(observations: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the observation one step later, and at the ends the last one seen."""
    following = np.concatenate([observations[1:], observations[-1:]])
    following[ends - 1] = observations[ends - 1]
    return following


def _check_shapes(columns: dict[str, np.ndarray]) -> None:
    for name, column in columns.items():
        dimensions = 1 if name == "rewards" else 2
        if column.ndim != dimensions:
            raise DatasetError(f"{name} must have {dimensions} dimension(s); got shape {column.shape}.")
        if 0 in column.shape[1:]:
            raise DatasetError(f"{name} must have at least one number per row; got shape {column.shape}.")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DatasetError(f"All columns need the same number of rows; got {lengths}.")
    now, after = columns["observations"], columns.get("next_observations")
    if after is not None and now.shape != after.shape:
        raise DatasetError(f"observations have shape {now.shape}, next_observations {after.shape}; they must agree.")


def _check_finite(columns: dict[str, np.ndarray]) -> None:
    for name, column in columns.items():
        finite = np.isfinite(column)
        if not finite.all():
            row = int(np.argwhere(~finite)[0, 0])
            raise DatasetError(
                f"{name} of transition {row} is {column[row]}: all values must be finite."
                ' "lifesafe data check" lists every such transition.'
            )


def _check_costs(costs: np.ndarray) -> None:
    negative = costs < 0
    if negative.any():
        row, k = np.argwhere(negative)[0]
        raise DatasetError(
            f"A logged step costs {costs[row, k]:g} (cost {k + 1}, transition {row}); costs are never negative. Shift"
            ' them, or count what is good as reward. "lifesafe data check" lists every such transition.'
        )


def _check_offsets(offsets: np.ndarray, terminated: np.ndarray, transitions: int) -> None:
    if len(offsets) != len(terminated) + 1 or len(offsets) < 2:
        raise DatasetError(f"Got {len(offsets)} offsets for {len(terminated)} episodes; give one more than episodes.")
    if offsets[0] != 0 or offsets[-1] != transitions or (np.diff(offsets) < 1).any():
        raise DatasetError(
            f"Offsets must rise from 0 to the number of transitions, {transitions}; got {offsets[0]} to {offsets[-1]}."
        )
