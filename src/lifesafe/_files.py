"""Files written whole or not at all, JSON lines, and checksums."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from lifesafe.errors import DatasetError


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a reader, even after a crash, finds the old content or the new, never a part.

    Raises:
        OSError: If it cannot be written, naming the path; the old content is then still there.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with _naming(path):
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)


def sync_directory(path: str | Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def json_line(value: Any) -> str:
    """Return a value as one line of JSON, newline included.

    Raises:
        ValueError: If it holds NaN or infinity, which are not JSON.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n"


def write_json_lines(path: str | Path, rows: Iterable[Any]) -> None:
    """Write one JSON value per line, all or nothing."""
    write_atomic(path, "".join(json_line(row) for row in rows))


def append_json_line(path: str | Path, row: Any) -> None:
    """Append one JSON value and make it last; a line that a crash left unfinished is dropped first."""
    path, line = Path(path), json_line(row).encode()
    with _naming(path), path.open("ab+") as stream:
        stream.truncate(_end_of_last_line(stream))
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read_json_lines(path: str | Path) -> list[Any]:
    """Return the values of a file of JSON lines, without a last line that a crash left unfinished.

    Raises:
        DatasetError: If a finished line is not JSON, naming the line.
    """
    lines = Path(path).read_bytes().split(b"\n")[:-1]
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line, parse_constant=_refuse_constant))
        except ValueError as error:
            raise DatasetError(f"{path}, line {number} is not JSON: {error}.") from error
    return rows


def sha256(content: str | bytes) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Return the SHA-256 of a file's content as 64 hexadecimal digits, without holding the file in memory."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make an OSError name the file the caller meant; a full disk, for one, names none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"Cannot write: {error.strerror or error}", str(path)) from error


def _end_of_last_line(stream: Any) -> int:
    """Return the offset just after the last newline, or 0."""
    end = stream.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 4096)
        stream.seek(start)
        found = stream.read(end - start).rfind(b"\n")
        if found >= 0:
            return int(start + found + 1)
        end = start
    return 0


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
