"""How far a job is: a small file in its directory, for whoever watches. Nothing depends on it."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from lifesafe._config import from_plain, to_plain
from lifesafe._files import write_atomic

NAME = "status.json"
_SECONDS = 2.0  # between two writes


@dataclass(frozen=True)
class Status:
    """What a job is doing.

    Attributes:
        doing: In a few words.
        done: How many of the steps or trials of this part are done.
        total: How many there are.
        seconds: How long this process has been at it.
        begun_at: How many an earlier process had done.
    """

    doing: str
    done: int
    total: int
    seconds: float
    begun_at: int

    @property
    def seconds_left(self) -> float | None:
        """Time that this part will still take at this pace; none before the first step of it is done."""
        done = self.done - self.begun_at
        return self.seconds / done * (self.total - self.done) if done > 0 else None


class Reporter:
    """Writes how far a job is, now and then, and what it begins, at once.

    Args:
        directory: Of the job.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._path.unlink(missing_ok=True)  # of an earlier process
        self._doing, self._begun_at, self._begun = "", 0, 0.0
        self._written = 0.0

    def __call__(self, doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        if doing != self._doing:
            self._doing, self._begun_at, self._begun = doing, done, now
        elif now < self._written + _SECONDS:
            return
        self._written = now
        status = Status(doing, done, total, now - self._begun, self._begun_at)
        with contextlib.suppress(OSError):  # a job does not fail because nobody can watch it
            write_atomic(self._path, json.dumps(to_plain(status)))


def read_status(directory: Path) -> Status | None:
    """Return how far the job of a directory is, if that is known here."""
    with contextlib.suppress(OSError, ValueError):
        return from_plain(Status, json.loads((directory / NAME).read_text()), source=NAME)
    return None
