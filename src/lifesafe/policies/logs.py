"""Where the metrics of a training go: a CSV file, TensorBoard, Weights & Biases, or nowhere."""

from __future__ import annotations

import csv
import io
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from lifesafe._config import nearest
from lifesafe._files import write_atomic
from lifesafe._optional import require
from lifesafe.errors import ConfigError
from lifesafe.policies.checkpoint import writing

LogKind = Literal["csv", "tensorboard", "wandb", "none"]


class Log(Protocol):
    """Takes the metrics of one step after another."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics at a step."""
        ...

    def close(self) -> None:
        """Write what is still held back."""
        ...


def check_log(kind: LogKind, directory: Path | None) -> None:
    """Refuse a log that cannot be kept, before any work is done.

    Raises:
        ConfigError: If there is no such log, or it needs a directory.
        DependencyError: If its package is not installed.
    """
    choices = typing.get_args(LogKind)
    if kind not in choices:
        raise ConfigError(f"log = {kind!r} is not one of {', '.join(choices)}.{nearest(str(kind), choices)}")
    if kind in ("tensorboard", "wandb") and directory is None:
        raise ConfigError(f"log = {kind!r} needs a directory to write to; give train a directory.")
    if kind == "tensorboard":
        _tensorboard()
    elif kind == "wandb":
        _wandb()


def open_log(kind: LogKind, directory: Path | None, *, step: int, run: str, config: Mapping[str, Any]) -> Log:
    """Return a log that goes on after the given step; what it holds of later steps is dropped.

    Args:
        kind: Which one; "csv" without a directory is none.
        directory: The folder of the training.
        step: The step that training resumes from, 0 for a new one.
        run: Identifies the training, so that a resumed one goes on in the same place.
        config: The settings, for logs that show them.
    """
    check_log(kind, directory)
    if kind == "none" or directory is None:
        return NoLog()
    if kind == "csv":
        return CSVLog(directory / "log.csv", step=step)
    if kind == "tensorboard":
        return TensorBoardLog(directory / "tensorboard", step=step)
    return WandbLog(directory, run=run, config=config)


class NoLog:
    """Keeps nothing."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


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

    def close(self) -> None:
        pass

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        header = dict(zip(self._names, self._names, strict=True))
        with writing(self._path.parent):
            write_atomic(self._path, _csv_text(self._names, [header, *rows]) if rows else "")
        self._names = self._names if rows else []


class TensorBoardLog:
    """Scalars in TensorBoard's event files."""

    def __init__(self, path: Path, *, step: int) -> None:
        # TensorBoard hides what was written for the purged steps before.
        self._writer = _tensorboard().SummaryWriter(str(path), purge_step=step + 1)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandbLog:
    """A run in Weights & Biases; it keeps the first value of a step that is logged twice."""

    def __init__(self, directory: Path, *, run: str, config: Mapping[str, Any]) -> None:
        self._run = _wandb().init(dir=str(directory), id=run, resume="allow", config=dict(config))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


def _csv_text(names: list[str], rows: list[dict[str, str]]) -> str:
    stream = io.StringIO()
    csv.DictWriter(stream, names, restval="", lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _tensorboard() -> Any:
    require("tensorboard", name="TensorBoard", extra="tensorboard", user="log = 'tensorboard'")
    return require("torch.utils.tensorboard", name="TensorBoard", extra="tensorboard", user="log = 'tensorboard'")


def _wandb() -> Any:
    return require("wandb", name="Weights & Biases", extra="wandb", user="log = 'wandb'")
