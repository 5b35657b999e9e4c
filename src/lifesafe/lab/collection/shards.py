"""Whole episodes in numbered files that are written once, and read back in part.

A shard holds the observations before each step and after the last one, so next observations cost nothing.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from lifesafe._files import write_atomic
from lifesafe.data import Episode
from lifesafe.errors import DatasetError


def shard_path(directory: Path, number: int) -> Path:
    """Return where the shard of that number is."""
    return directory / f"shard-{number:06d}.npz"


def write_shard(path: Path, episodes: Sequence[Episode]) -> None:
    """Write episodes to a file, all of them or none; what was there before is replaced."""
    stream = io.BytesIO()
    np.savez(
        stream,
        observations=np.concatenate([_seen(episode) for episode in episodes]),
        actions=np.concatenate([episode.actions for episode in episodes]),
        rewards=np.concatenate([episode.rewards for episode in episodes]),
        costs=np.concatenate([episode.costs for episode in episodes]),
        lengths=np.array([len(episode) for episode in episodes]),
        terminated=np.array([episode.terminated for episode in episodes]),
        returns=np.array([tuple(episode.returns) for episode in episodes]),
    )
    write_atomic(path, stream.getvalue())


def read_returns(path: Path) -> Float[np.ndarray, "e r"]:
    """Return what each episode of a shard earned and cost."""
    returns: np.ndarray = _read(path, ("returns",))["returns"]
    return returns


def read_episodes(path: Path, chosen: Int[np.ndarray, " m"]) -> Iterator[Episode]:
    """Yield some episodes of a shard."""
    names = ("observations", "actions", "rewards", "costs", "lengths", "terminated")
    columns = _read(path, names)
    ends = np.cumsum(columns["lengths"])
    for index in chosen:
        steps = slice(ends[index] - columns["lengths"][index], ends[index])
        seen = columns["observations"][steps.start + index : steps.stop + index + 1]  # one more row per episode
        yield Episode(
            observations=seen[:-1],
            actions=columns["actions"][steps],
            rewards=columns["rewards"][steps],
            costs=columns["costs"][steps],
            next_observations=seen[1:],
            terminated=bool(columns["terminated"][index]),
        )


def _seen(episode: Episode) -> Float[np.ndarray, "seen o"]:
    return np.concatenate([episode.observations, episode.next_observations[-1:]])


def _read(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    try:
        # NumPy leaves a file open that it opened itself and cannot read.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"{path} cannot be read: {error}. Restore it from a copy, or collect again in another directory."
        ) from error
