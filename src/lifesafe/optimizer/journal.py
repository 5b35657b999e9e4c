"""An append-only record of events in one SQLite file.

Each event carries a fingerprint of itself and of the event before it, and a head row holds the count and the
last fingerprint, so an edited, missing or moved event is found. The chain has no secret: it guards against
accidents and quiet edits, not against someone who rebuilds the whole file.

While a writer has a journal open, `-wal` and `-shm` (of SQLite) and `.lock` (ours) are beside it. After a
crash `-wal` may hold the newest event: leave it there, the next writer puts it in its place.
"""

import base64
import errno
import fcntl
import json
import math
import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TextIO

from lifesafe._files import sha256, write_atomic
from lifesafe.errors import JournalError

JOURNAL = "journal.sqlite"
"""Of the journal in the directory of a run."""

VERSION = 1
APPLICATION_ID = 0x6C736A6C  # "lsjl": tells our files from those of other programs
GENESIS = sha256(f"lifesafe journal {VERSION}")

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE event (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, time TEXT NOT NULL,
                    attachment BLOB, hash TEXT NOT NULL);
CREATE TABLE head (count INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO head VALUES (0, '{GENESIS}');
CREATE TRIGGER no_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'a journal is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'a journal is append-only'); END;
-- INSERT OR REPLACE deletes without asking the trigger above.
CREATE TRIGGER no_replace BEFORE INSERT ON event
    WHEN EXISTS (SELECT 1 FROM event WHERE number >= NEW.number)
    BEGIN SELECT RAISE(ABORT, 'a journal is append-only'); END;
"""

# The casts undo SQLite's loose column types: what is fingerprinted has the type of what is returned.
_SELECT = """
SELECT number, CAST(kind AS TEXT), CAST(body AS TEXT), CAST(time AS TEXT), CAST(attachment AS BLOB),
       CAST(hash AS TEXT)
FROM event ORDER BY number
"""

_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_RESTORE = "Restore the file from a copy, or give another path."


@dataclass(frozen=True)
class Event:
    """One thing that happened."""

    number: int
    """1 for the first event, then without gaps."""
    kind: str
    body: dict[str, Any]
    """What JSON can hold; treat as read-only."""
    time: str
    """UTC, ISO 8601, with microseconds."""
    hash: str
    """Hex SHA-256 of this event and of the hash before it."""
    attachment: bytes | None = None


class Journal:
    """The one writer of a journal.

    Example:
        >>> import tempfile
        >>> with Journal.open(tempfile.mkdtemp() + "/journal.sqlite") as journal:
        ...     journal.append("told", {"trial": 1, "reward": 0.5}).number
        1
    """

    def __init__(self, path: Path, lock: TextIO, connection: sqlite3.Connection, events: list[Event]) -> None:
        """Use `Journal.open`."""
        self.path = path
        self._lock = lock
        self._connection = connection
        self._events = events
        self._file = os.stat(path)
        self._is_open = True
        self._resources = ExitStack()
        self._mutex = threading.Lock()
        _open_journals.add(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open the journal at `path` for writing, making it if it is missing.

        Nothing is written to an existing file before all of it has been verified.

        Raises:
            JournalError: Another writer has it open, it is not a whole journal, or it cannot be written.
        """
        path = _resolve(path)
        with _explained(path, "open"), ExitStack() as resources:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path, resources)
            if not path.exists():
                _create(path)
            _check_access(path, os.W_OK)  # SQLite would open it, and fail at the first event
            events = _read(path)
            connection = resources.enter_context(closing(_connect(path, "rw")))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync does not reach the disk
            # Each event goes on into the main file at once: a lost -wal or a plain copy then misses nothing.
            connection.execute("PRAGMA wal_autocheckpoint = 1")
            connection.execute("BEGIN IMMEDIATE")  # fails now, not at the first event; makes -wal for readers
            connection.execute("ROLLBACK")
            journal = cls(path, lock, connection, events)
            journal._resources = resources.pop_all()
            return journal

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    def append(self, kind: str, body: Mapping[str, Any], attachment: bytes | None = None) -> Event:
        """Add one event; when this returns, it is on disk.

        Args:
            kind: A word, such as `told`.
            body: Text keys, and values that JSON holds exactly: text, finite numbers, booleans, None, lists.
            attachment: Anything larger, such as a compressed array.

        Raises:
            JournalError: The event cannot be written; the journal is as before, and one may try again.
        """
        if not self._is_open:
            raise JournalError(f"Journal {self.path} is not open in this process; open it again to append.")
        if not kind.isidentifier():
            raise JournalError(f"Event kind {kind!r} is not one word of letters, digits and underscores.")
        text = _canonical(dict(body))
        with self._mutex, _explained(self.path, "append to"):
            previous = self._events[-1].hash if self._events else GENESIS
            number, time = len(self._events) + 1, datetime.now(UTC).isoformat(timespec="microseconds")
            digest = _fingerprint(previous, number, kind, text, time, attachment)
            self._insert(previous, (number, kind, text, time, attachment, digest))
            # The body is read back from its text, so that live and replayed events are the same.
            event = Event(number, kind, json.loads(text), time, digest, attachment)
            self._events.append(event)
            return event

    def _insert(self, previous: str, row: tuple[int, str, str, str, bytes | None, str]) -> None:
        number, digest = row[0], row[-1]
        if not os.path.samestat(self._file, os.stat(self.path)):
            raise JournalError(f"{self.path} was replaced while open. Put the file back, or open it again.")
        with self._connection as connection:  # commits, or rolls back on any error
            connection.execute("BEGIN IMMEDIATE")
            moved = connection.execute(
                "UPDATE head SET count = ?, hash = ? WHERE count = ? AND hash = ?",
                (number, digest, number - 1, previous),
            )
            if moved.rowcount != 1:
                raise JournalError(f"{self.path} was changed by another program. Open it again to verify it.")
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        """Let other writers in; closing twice does nothing."""
        self._is_open = False
        with suppress(OSError):  # a .lock file that cannot be removed does no harm
            self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _abandon(self) -> None:
        # A forked child must not touch SQLite's connection, nor keep the lock when its parent is killed.
        self._is_open = False
        self._resources.pop_all()
        self._lock.close()


def read_events(path: str | os.PathLike[str]) -> tuple[Event, ...]:
    """Return all events, verified; a writer may be active.

    Raises:
        JournalError: The file cannot be read or is not a whole journal.
    """
    path = _resolve(path)
    with _explained(path, "read"):
        return tuple(_read(path))


def verify(path: str | os.PathLike[str]) -> int:
    """Return the number of events if all are sound.

    Raises:
        JournalError: Names the first event that is not, with the expected and the found fingerprint.
    """
    return len(read_events(path))


def export_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Return one JSON text per event, with the attachment as `{"base64": ..., "sha256": ...}` or null."""
    return (json.dumps(_exported(event), sort_keys=True) for event in read_events(path))


def _exported(event: Event) -> dict[str, Any]:
    if event.attachment is None:
        return asdict(event)
    text = base64.b64encode(event.attachment).decode()
    return asdict(event) | {"attachment": {"base64": text, "sha256": sha256(event.attachment)}}


def _resolve(path: str | os.PathLike[str]) -> Path:
    # SQLite puts -wal beside the file a link points to; so must the lock be, or two names let in two writers.
    return Path(os.path.realpath(path))


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda raw: raw.decode(errors="replace")  # the fingerprint then names the event
    return connection


def _create(path: Path) -> None:
    for leftover in (Path(f"{path}-wal"), Path(f"{path}-journal")):
        if leftover.exists():  # SQLite would write the old events into the new file
            raise JournalError(f"{path} is missing, but {leftover} is there. Restore or remove both.")
    # Written whole: SQLite's own way leaves an empty file for a moment, and a kill then would spoil the path.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_SCHEMA)
        write_atomic(path, connection.serialize())


def _read(path: Path, attempts: int = 3) -> list[Event]:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise JournalError(f"{path} is a directory or device, not a journal. Give the path of a file.")
    if status.st_size < 512:  # less than one page, which SQLite takes for a new database
        raise JournalError(f"{path} is empty or cut short ({status.st_size} bytes), no journal. {_RESTORE}")
    _check_access(path, os.R_OK)
    # Without -wal nobody writes: read as immutable, which leaves no -shm behind and works on read-only media.
    # With -wal we must not: closing an immutable file drops the locks of a writer in this process, as would
    # closing a plain file.
    immutable = not os.path.exists(f"{path}-wal")
    try:
        with closing(_connect(path, "ro&immutable=1" if immutable else "ro")) as connection:
            return _load(path, connection)
    except JournalError:
        if immutable and attempts > 1:  # a writer may have come meanwhile and changed pages under us
            return _read(path, attempts - 1)
        raise


def _check_access(path: Path, mode: int) -> None:
    if not os.access(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _load(path: Path, connection: sqlite3.Connection) -> list[Event]:
    events: list[Event] = []
    try:
        connection.execute("BEGIN")  # one snapshot for events and head
        _check_format(path, connection)
        events.extend(_chain(path, connection.execute(_SELECT)))
        heads = connection.execute("SELECT count, CAST(hash AS TEXT) FROM head").fetchall()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise
        where = f"{path} is not a whole journal: {error}, after event {len(events)}"
        raise JournalError(f"{where}. {_RESTORE}") from error
    last = events[-1].hash if events else GENESIS
    if heads != [(len(events), last)]:
        count, found = heads[0] if heads else (0, "none")
        due = len(events) + 1
        raise JournalError(
            f"{path}: event {due} is missing, or the head edited: expected {count} events ending in "
            f"fingerprint {str(found)[:12]}, found {len(events)} ending in {last[:12]}. {_RESTORE}"
        )
    return events


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise JournalError(
            f"{path} is a SQLite file of another program (application id {application:#x}, a journal has "
            f"{APPLICATION_ID:#x}). Give another path."
        )
    if version != VERSION:
        raise JournalError(f"{path} has journal format {version}, this lifesafe reads {VERSION}. Upgrade it.")


def _chain(path: Path, rows: sqlite3.Cursor) -> Iterator[Event]:
    previous, due = GENESIS, 1
    for number, kind, body, time, attachment, found in rows:
        if number != due:
            raise JournalError(
                f"{path}: event {due} is missing: expected it after fingerprint {previous[:12]}, found event "
                f"{number} with fingerprint {str(found)[:12]}. {_RESTORE}"
            )
        expected = _fingerprint(previous, number, kind, body, time, attachment)
        if found != expected:
            raise JournalError(
                f"{path}: event {number} ({kind}) or one before it was edited or moved: expected fingerprint "
                f"{expected[:12]}, found {str(found)[:12]}. {_RESTORE}"
            )
        yield Event(number, kind, json.loads(body), time, found, attachment)
        previous, due = found, due + 1


def _fingerprint(previous: str, number: int, kind: str, body: str, time: str, data: bytes | None) -> str:
    attached = None if data is None else sha256(data)
    return sha256(json.dumps([previous, number, kind, body, time, attached]))


def _canonical(body: dict[str, Any]) -> str:
    _check_json(body, "body")
    # Python writes a float as the shortest text that reads back as the same float.
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_json(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):  # JSON turns 1 into "1", and a replay would see another dict
                raise JournalError(f"Key {key!r} in {where} is {type(key).__name__}; keys must be text.")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_json(item, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise JournalError(f"{where} is {value}; a journal holds finite numbers only.")
    elif not isinstance(value, str | int | float | None):
        accepted = "text, numbers, booleans, None, lists and dicts"
        raise JournalError(f"{where} is {type(value).__name__}; a journal holds {accepted}.")


def _take_lock(path: Path, resources: ExitStack) -> TextIO:
    # flock: ends with the process however that dies, and also keeps out a second writer in this process.
    lock = Path(f"{path}.lock")
    file = resources.enter_context(lock.open("a+", encoding="utf-8"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read() or "another process"
        raise JournalError(f"{path} is open for writing in {holder}. Close it there, or only read.") from None
    if os.fstat(file.fileno()).st_nlink == 0:  # its last holder removed it after we had opened it
        return _take_lock(path, resources)
    resources.callback(lock.unlink, missing_ok=True)  # runs before the file is closed, so it is ours
    file.truncate(0)
    file.write(f"process {os.getpid()} on {os.uname().nodename}")
    file.flush()
    return file


@contextmanager
def _explained(path: Path, action: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        advice = "Check free space, size limits and permissions, then try again."
        raise JournalError(f"Cannot {action} {path}: {reason} ({code}). {advice}") from error


_open_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _abandon_open_journals() -> None:
    for journal in tuple(_open_journals):
        journal._abandon()


os.register_at_fork(after_in_child=_abandon_open_journals)
