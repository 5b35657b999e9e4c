"""Minari datasets: read those that say what each step cost, and write ours.

Minari has no place of its own for costs. As in Gymnasium's step, they are kept in `infos["cost"]`: a number per step,
or a row with one number per cost. A Minari episode of t steps has t + 1 observations, and its infos have t + 1 entries
if that of the reset was recorded, which `DataCollector` does, or t if only the steps' were; both are read.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from lifesafe._optional import require
from lifesafe.data.dataset import Dataset, as_column
from lifesafe.data.episode import CostFunction, Episode
from lifesafe.errors import DatasetError


def read_minari(source: Any, *, cost: str | Sequence[str] | CostFunction = "cost", download: bool = False) -> Dataset:
    """Return the episodes of a Minari dataset.

    Observations in dictionaries or tuples are joined into one row, in the order of the space.

    Args:
        source: A `minari.MinariDataset`, or the name of one.
        cost: Which entry of the infos holds the costs, or the entries that hold one each, or a function of
            (observation, action, next observation, info) that gives what a step cost.
        download: Whether to fetch a dataset that is not on this machine.

    Raises:
        DatasetError: If there is no such dataset, it has no costs, or its spaces are not made of numbers.
        DependencyError: If Minari is not installed.
    """
    minari = require("minari", name="Minari", extra="minari", user="read_minari")
    stored = _find(minari, source, download=download) if isinstance(source, str) else source
    spaces = stored.observation_space, stored.action_space
    try:
        return Dataset.from_episodes(_episode(episode, spaces, cost) for episode in stored.iterate_episodes())
    except DatasetError as error:
        raise DatasetError(f"Minari dataset {stored.spec.dataset_id!r}: {error}") from error


def write_minari(
    dataset: Dataset,
    name: str,
    *,
    environment: Any = None,
    author: str | None = None,
    algorithm: str | None = None,
    description: str | None = None,
) -> Any:
    """Write a dataset where Minari keeps its own, and return it as a `minari.MinariDataset`.

    Args:
        dataset: The episodes.
        name: Such as "hopper/velocity-v0"; Minari asks for a version at the end.
        environment: The Gymnasium environment, or its name, that the data come from: Minari then can make it again.
            Without one the spaces are boxes, that of the actions [-1, 1] if all of them lie in it.
        author: Who made the data.
        algorithm: What acted.
        description: A few words on it.

    Raises:
        DatasetError: If there is one of that name, the name is not one for Minari, or an observation after a step is
            not the one before the next, since Minari keeps only one of the two.
        DependencyError: If Minari is not installed.
    """
    minari = require("minari", name="Minari", extra="minari", user="write_minari")
    _check_chain(dataset)
    place = minari.storage.datasets_root_dir.get_dataset_path(name)
    if place.exists():
        raise DatasetError(f"There is a Minari dataset {name!r} already, at {place}; give another name, or delete it.")
    try:
        with warnings.catch_warnings():
            # Minari warns of every word about the data that is not given; here they may be left out.
            warnings.simplefilter("ignore", UserWarning)
            return minari.create_dataset_from_buffers(
                dataset_id=name,
                buffer=[_buffer(minari, number, episode) for number, episode in enumerate(dataset)],
                author=author,
                algorithm_name=algorithm,
                description=description,
                **_spaces(dataset, environment),
            )
    except BaseException as error:
        shutil.rmtree(place, ignore_errors=True)  # a part of a dataset would be taken for a whole one
        if isinstance(error, (ValueError, AssertionError, LookupError)):
            raise DatasetError(f"Cannot write Minari dataset {name!r}: {error}.") from error
        raise


def _find(minari: Any, name: str, *, download: bool) -> Any:
    try:
        return minari.load_dataset(name, download=download)
    except (OSError, ValueError, KeyError) as error:
        raise DatasetError(
            f'Cannot open Minari dataset {name!r}: {error}. "minari list local" shows those on this machine.'
        ) from error


def _episode(stored: Any, spaces: tuple[Any, Any], cost: str | Sequence[str] | CostFunction) -> Episode:
    steps = len(stored.rewards)
    observations = _rows(spaces[0], stored.observations, "observations")
    actions = _rows(spaces[1], stored.actions, "actions")
    if len(observations) != steps + 1:
        raise DatasetError(f"Episode {stored.id} has {steps} steps and {len(observations)} observations, not one more.")
    infos = {name: _per_step(values, steps) for name, values in (stored.infos or {}).items()}
    if callable(cost):
        each = zip(observations[:-1], actions, observations[1:], _each(infos, steps), strict=True)
        costs = as_column([cost(*step) for step in each])
    else:
        costs = _columns(infos, [cost] if isinstance(cost, str) else list(cost), stored.id)
    return Episode(
        observations=observations[:-1],
        actions=actions,
        rewards=as_column(stored.rewards),
        costs=costs.reshape(steps, -1),
        next_observations=observations[1:],
        terminated=bool(stored.terminations[-1]),
    )


def _rows(space: Any, values: Any, name: str) -> np.ndarray:
    """Return values of a space, one per step, as one row of numbers per step."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        rows = as_column(values)
        return rows.reshape(len(rows), -1)
    if isinstance(space, spaces.Dict):
        return np.concatenate([_rows(part, values[key], name) for key, part in space.spaces.items()], axis=1)
    if isinstance(space, spaces.Tuple):
        parts = zip(space.spaces, values, strict=True)
        return np.concatenate([_rows(part, value, name) for part, value in parts], axis=1)
    raise DatasetError(f"its {name} are of space {space}; only boxes, and dictionaries and tuples of boxes, are read.")


def _per_step(values: Any, steps: int) -> Any:
    """Return an entry of the infos without that of the reset, parts of a dictionary each."""
    if isinstance(values, dict):
        return {name: _per_step(part, steps) for name, part in values.items()}
    return values[1:] if np.ndim(values) and len(values) == steps + 1 else values


def _each(infos: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    def at(values: Any, step: int) -> Any:
        return {name: at(part, step) for name, part in values.items()} if isinstance(values, dict) else values[step]

    return [at(infos, step) for step in range(steps)]


def _columns(infos: dict[str, Any], names: Sequence[str], number: int) -> np.ndarray:
    missing = [name for name in names if name not in infos]
    if missing:
        raise DatasetError(
            f"the infos of episode {number} have no {missing[0]!r}, only {sorted(infos) or 'nothing'};"
            " name the entry that holds the costs, or give a function: read_minari(..., cost=...)."
        )
    return np.column_stack([as_column(infos[name]) for name in names])


def _buffer(minari: Any, number: int, episode: Episode) -> Any:
    ends = np.zeros(len(episode), dtype=bool)
    ends[-1] = True
    costs = episode.costs[:, 0] if episode.costs.shape[1] == 1 else episode.costs
    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=np.concatenate([episode.observations, episode.next_observations[-1:]]),
        actions=episode.actions,
        rewards=episode.rewards,
        terminations=ends & episode.terminated,
        truncations=ends & (not episode.terminated),
        infos={"cost": costs},
    )


def _spaces(dataset: Dataset, environment: Any) -> dict[str, Any]:
    from gymnasium.spaces import Box

    reach = 1.0 if np.abs(dataset.actions).max() <= 1.0 else np.inf
    flat = {
        "observation_space": Box(-np.inf, np.inf, dataset.observations.shape[1:], np.float32),
        "action_space": Box(-reach, reach, dataset.actions.shape[1:], np.float32),
    }
    return flat if environment is None else {"env": environment, "eval_env": environment, **flat}


def _check_chain(dataset: Dataset) -> None:
    inner = np.ones(dataset.transitions, dtype=bool)
    inner[dataset.offsets[1:] - 1] = False
    steps = np.flatnonzero(inner)
    broken = (dataset.next_observations[steps] != dataset.observations[steps + 1]).any(axis=1)
    if broken.any():
        raise DatasetError(
            f"The observation after transition {steps[broken][0]} is not the one before the next (and so for"
            f" {broken.sum()} transitions in all), and Minari keeps only one of the two; write the dataset with"
            " write_dsrl."
        )
