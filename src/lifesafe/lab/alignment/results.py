"""What a study of targets against actual returns found, and the file that keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lifesafe._config import from_plain, to_plain
from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError

FILE = "alignment.json"


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """What one policy did at one target."""

    target: tuple[float, ...]
    """Reward and costs asked for."""
    episodes: tuple[tuple[float, ...], ...]
    """Reward and costs of every episode."""

    @property
    def mean(self) -> Float[np.ndarray, " r"]:
        """Mean reward and costs."""
        return np.asarray(np.mean(self.episodes, axis=0))


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """One seed's part of a study."""

    task: str
    seed: int
    dataset: str
    """Fingerprint of the data."""
    config: str
    """Fingerprint of the settings of the policy."""
    training: float
    """Seconds spent training since the last start."""
    evaluation: float
    """Seconds spent in the environment."""
    points: tuple[TargetResult, ...]


def write_alignment(part: Alignment, directory: str | Path) -> None:
    """Keep what one seed found in its directory."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    write_atomic(Path(directory) / FILE, json.dumps(to_plain(part)))


def read_alignment(directory: str | Path) -> Alignment:
    """Return what one seed of a study found.

    Raises:
        ConfigError: If there is nothing, or something else.
    """
    path = Path(directory) / FILE
    try:
        return from_plain(Alignment, json.loads(path.read_text(encoding="utf-8")), source=str(path))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}. Has the study been run?") from error
    except ValueError as error:
        raise ConfigError(f"{path} does not hold a study: {error}. Delete it to run that seed again.") from error
