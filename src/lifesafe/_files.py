"""Files written whole or not at all, locks, and checksums."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a reader, even after a crash, finds the old content or the new, never a part.

    Raises:
        OSError: If it cannot be written, naming the path; the old content is then still there.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a path to write to, whose file replaces the given one when all of it is on disk.

    Raises:
        OSError: If it cannot be written, naming the path; the old file is then still there.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except (OSError, RuntimeError) as error:  # h5py raises either for a full disk
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        raise OSError(getattr(error, "errno", None) or errno.EIO, f"Cannot write: {reason}", str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def sync_directory(path: str | Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: str | Path, busy: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file, which ends with this process however that dies, and is removed afterwards.

    Args:
        path: The lock file.
        busy: Called while the lock is held elsewhere, with words for who holds it; unless it raises, the lock is waited
            for.
    """
    path = Path(path)
    while True:
        with path.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                busy(file.read() or "another process")
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink == 0:  # its last holder removed it after we had opened it
                continue
            try:
                file.truncate(0)
                file.write(f"process {os.getpid()} on {os.uname().nodename}")
                file.flush()
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def sha256(content: str | bytes) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Return the SHA-256 of a file's content as 64 hexadecimal digits, without holding the file in memory."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
