"""The state of a training on disk: there is always one whole checkpoint, whenever the process dies.

`training/state-<step>.safetensors` holds the tensors. `training/state.json` names that file, with its SHA-256, and
holds the rest; replacing it, in one atomic step, is what makes a new checkpoint the last one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from lifesafe._config import canonical_json, fingerprint
from lifesafe._files import locked, sha256, write_atomic
from lifesafe.errors import CheckpointError, ConfigError
from lifesafe.policies.checkpoint import json_bytes, parse, read, read_tensors, tensor_bytes, writing

FORMAT = 1
STATE = "state.json"


@dataclass(frozen=True)
class Identity:
    """What decides the result of a training: the same identity, the same policy.

    Attributes:
        method: Name of the class of the config.
        config: The settings, as plain values.
        dataset: Fingerprint of the data.
        seed: The seed.
    """

    method: str
    config: dict[str, Any]
    dataset: str
    seed: int

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def check(self, stored: Any, place: Path) -> None:
        """Refuse what another training left in the same place.

        Raises:
            ConfigError: If it has another identity, naming what differs.
        """
        own = self.plain()
        if stored == own:
            return
        theirs = stored if isinstance(stored, dict) else {}
        differences = [
            f"{name} {_short(theirs.get(name))} there, {_short(value)} here"
            for name, value in own.items()
            if theirs.get(name) != value
        ]
        settings = _differing(theirs.get("config"), self.config)
        raise ConfigError(
            f"{place} belongs to another training, {fingerprint(stored, 8)}; this one is {fingerprint(own, 8)}"
            f" ({'; '.join(differences)}{settings}). Give another directory, or the original arguments."
        )


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Everything that a training needs to go on.

    Attributes:
        step: Gradient steps taken.
        tensors: The large part.
        plain: The rest, as plain values.
    """

    step: int
    tensors: dict[str, Tensor]
    plain: dict[str, Any]


class TrainingDirectory:
    """The `training` folder of a run, for one process at a time; use as a context."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path = path
        self._identity = identity

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Make the folder and keep other processes out of it.

        Raises:
            CheckpointError: If another process trains in it, or it cannot be made.
        """
        with contextlib.ExitStack() as held:
            with writing(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(self.path / "lock", self._refuse))
            self._clear()
            yield

    def _refuse(self, holder: str) -> None:
        raise CheckpointError(
            f"Another process trains in {self.path}: {holder}. Wait for it, or give another directory."
        )

    def write(self, state: TrainingState) -> None:
        """Make this the last checkpoint; when this returns, it is on disk.

        Raises:
            CheckpointError: If it cannot be written; the one before is then still there.
        """
        name = f"state-{state.step}.safetensors"
        content = tensor_bytes(state.tensors)
        body = {
            "format": FORMAT,
            "identity": self._identity.plain(),
            "step": state.step,
            "tensors": {"file": name, "sha256": sha256(content)},
            "plain": state.plain,
        }
        with writing(self.path, hint=f"Step {state.step} is lost, the checkpoint before it is whole. "):
            try:
                write_atomic(self.path / name, content)
                write_atomic(self.path / STATE, json_bytes({**body, "sha256": _digest(body)}))
            except BaseException:
                self._clear()
                raise
            self._clear()

    def read(self) -> TrainingState | None:
        """Return the last checkpoint, or nothing before the first.

        Raises:
            CheckpointError: If it is damaged.
            ConfigError: If it belongs to another training.
        """
        path = self.path / STATE
        if not path.exists():
            return None
        way_out = f"Remove {self.path} to train from the start."
        body = parse(path, read(path))
        if body.pop("sha256", None) != _digest(body):
            raise CheckpointError(f"{path} is damaged or was edited. {way_out}")
        if body.get("format") != FORMAT:
            raise CheckpointError(f"{path} has format {body.get('format')!r}; this version reads {FORMAT}. {way_out}")
        self._identity.check(body["identity"], self.path.parent)
        tensors = read_tensors(self.path / body["tensors"]["file"], body["tensors"]["sha256"])
        return TrainingState(body["step"], tensors, body["plain"])

    def _clear(self) -> None:
        """Remove the tensors of other checkpoints than the last, and what killed processes left unfinished."""
        try:
            last = parse(self.path / STATE, read(self.path / STATE))["tensors"]["file"]
        except (CheckpointError, KeyError, TypeError):
            last = None
            if (self.path / STATE).exists():
                return  # damaged: what it named may be wanted yet
        for path in [*self.path.glob("state-*.safetensors"), *self.path.glob(".*.tmp")]:
            if path.name != last:
                with contextlib.suppress(OSError):
                    path.unlink()


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(canonical_json(body))


def _short(value: Any) -> str:
    """Return a value as it stands in a message: a long one by its fingerprint."""
    text = value if isinstance(value, str) else canonical_json(value)
    if len(text) == 64 and isinstance(value, str):
        return text[:8]
    return text if len(text) <= 32 else fingerprint(value, 8)


def _differing(theirs: Any, ours: Mapping[str, Any]) -> str:
    """Return the settings that differ, for a message."""
    if not isinstance(theirs, dict):
        return ""
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    return "".join(f"; config.{name} = {theirs.get(name)!r} there, {ours.get(name)!r} here" for name in names[:3])
