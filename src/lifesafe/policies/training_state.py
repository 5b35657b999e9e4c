"""A training on disk: its log, and always one whole checkpoint, whenever the process dies.

`training/state-<step>.safetensors` holds the tensors. `training/state.json` names that file, with its SHA-256, and
holds the rest; replacing it, in one atomic step, is what makes a new checkpoint the last one.
"""

from __future__ import annotations

import contextlib
import csv
import io
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


class CSVLog:
    """One row per logged step in a CSV file; a metric that a step does not have is left empty."""

    def __init__(self, path: Path, *, step: int) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # a killed process may leave half a row
        rows = list(csv.DictReader(io.StringIO(whole)))
        kept = [row for row in rows if row.get("step", "").isdecimal() and int(row["step"]) <= step]
        self._names = list(rows[0]) if rows else []
        if whole != text or len(kept) != len(rows):
            self._rewrite(kept)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        row = {"step": str(step), **{name: repr(value) for name, value in metrics.items()}}
        new = [name for name in row if name not in self._names]
        if new:  # the first row, or the first with held-out metrics
            rows = list(csv.DictReader(io.StringIO(self._path.read_text(encoding="utf-8")))) if self._names else []
            self._names += new
            self._rewrite([*rows, row])
        else:
            with writing(self._path.parent), self._path.open("a", encoding="utf-8", newline="") as stream:
                stream.write(_csv_text(self._names, [row]))

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        header = dict(zip(self._names, self._names, strict=True))
        with writing(self._path.parent):
            write_atomic(self._path, _csv_text(self._names, [header, *rows]) if rows else "")
        self._names = self._names if rows else []


def _csv_text(names: list[str], rows: list[dict[str, str]]) -> str:
    stream = io.StringIO()
    csv.DictWriter(stream, names, restval="", lineterminator="\n").writerows(rows)
    return stream.getvalue()


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
