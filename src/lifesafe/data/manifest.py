"""The record of fetched files: size and SHA-256 of each, in a `manifest.json` beside them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from lifesafe._config import from_plain
from lifesafe._files import sha256_file, write_atomic
from lifesafe.errors import ConfigError, DatasetError

NAME = "manifest.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a file was when it was first found whole."""

    size: int
    sha256: str
    source: str
    """Where it came from."""
    date: str
    """When, in UTC."""
    modified: int
    """The file's own time of last change in nanoseconds; while it stays, the digest need not be computed again."""

    @classmethod
    def of(cls, path: Path, source: str) -> Self:
        """Return the entry of a file as it is now."""
        status = path.stat()
        return cls(
            size=status.st_size,
            sha256=sha256_file(path),
            source=source,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            modified=status.st_mtime_ns,
        )


def read_manifest(directory: Path) -> dict[str, Entry]:
    """Return the entries by file name.

    Raises:
        DatasetError: If there is a manifest and it is not one of ours.
    """
    path = directory / NAME
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["version"] != VERSION:
            raise DatasetError(f"{path} has format {plain['version']}, this lifesafe reads {VERSION}. Upgrade it.")
        return {name: from_plain(Entry, entry, f"{path}, {name}") for name, entry in plain["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DatasetError(f"Cannot read {path}: {error.strerror}.") from error
    except (ConfigError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(
            f"{path} is not a manifest of lifesafe ({error}). Delete it: the next fetch writes it anew, from the files"
            " that are there."
        ) from error


def record(path: Path, entry: Entry) -> None:
    """Write the entry of a file into the manifest beside it."""
    with locked(path.parent / f".{NAME}.lock"):
        files = read_manifest(path.parent) | {path.name: entry}
        plain = {"version": VERSION, "files": {name: asdict(files[name]) for name in sorted(files)}}
        write_atomic(path.parent / NAME, json.dumps(plain, indent=2) + "\n")


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock file, which is removed afterwards; while another process holds it, wait.

    Args:
        path: The lock file.
        waiting: Called once if another process holds it.
    """
    while True:
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink == 0:  # its last holder removed it after we had opened it
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return
