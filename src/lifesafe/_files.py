"""Files written whole or not at all, and checksums."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


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
