"""An append-only record of events in one SQLite file.

Each event carries a fingerprint of itself and of the event before it, and a head row holds the count and the last
fingerprint, so an edited, missing or moved event is found. The chain has no secret: it guards against accidents and
quiet edits, not against someone who rebuilds the whole file.

While a writer has a journal open, `-wal` and `-shm` (of SQLite) and `.lock` (ours) are beside it. After a crash `-wal`
may hold the newest event: leave it there, the next writer puts it in its place.

A journal may hold millions of served episodes. Opening reads them only from the last snapshot on, and checks what it
reads; `read_records` with `everything` checks the whole chain.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TextIO

from lifesafe._files import write_atomic
from lifesafe.errors import JournalError
from lifesafe.journal.events import SERVED, SNAPSHOT, Event, decode, encode, kind_of

JOURNAL = "journal.sqlite"
"""Name of the journal in the directory of a run."""

VERSION = 2
APPLICATION_ID = 0x6C736A6C  # "lsjl": tells our files from those of other programs
GENESIS = hashlib.sha256(f"lifesafe journal {VERSION}".encode()).hexdigest()

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE event (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, time TEXT NOT NULL,
                    hash TEXT NOT NULL);
CREATE INDEX kinds ON event (number) WHERE kind != '{SERVED}';
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
_COLUMNS = "number, CAST(kind AS TEXT), CAST(body AS TEXT), CAST(time AS TEXT), CAST(hash AS TEXT)"
_EVERYTHING = f"SELECT {_COLUMNS}, NULL FROM event ORDER BY number"
_LAST_SNAPSHOT = f"SELECT max(number) FROM event WHERE kind != '{SERVED}' AND kind = '{SNAPSHOT}'"
_BEFORE = "(SELECT CAST(b.hash AS TEXT) FROM event b WHERE b.number = event.number - 1)"
# Two parts: up to the snapshot only what is no served episode, from there on everything.
_SUMMED_UP = f"SELECT {_COLUMNS}, {_BEFORE} FROM event WHERE kind != '{SERVED}' AND number <= ? ORDER BY number"
_SINCE = f"SELECT {_COLUMNS}, NULL FROM event WHERE number > ? ORDER BY number"

_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_RESTORE = "Restore the file from a copy, or give another path."

_Row = tuple[int, str, str, str, str, str | None]


@dataclass(frozen=True)
class Record:
    """One event, as it was recorded."""

    number: int
    """1 for the first event, then without gaps."""
    event: Event
    time: str
    """UTC, ISO 8601, with microseconds."""
    hash: str
    """Hex SHA-256 of this event and of the hash before it."""


class Journal:
    """The one writer of a journal. It keeps no events in memory: `open` hands over those that opening needs.

    Example:
        >>> import tempfile
        >>> from lifesafe.journal.events import Confirmed
        >>> journal, records = Journal.open(tempfile.mkdtemp() + "/journal.sqlite")
        >>> journal.append(Confirmed(reason="a wheel was loose")).number
        1
        >>> journal.close()
    """

    def __init__(self, path: Path, lock: TextIO, connection: sqlite3.Connection, count: int, head: str) -> None:
        """Use `Journal.open`."""
        self.path = path
        self.count = count
        """Events so far."""
        self.head = head
        """Fingerprint of the last event."""
        self._lock = lock
        self._connection = connection
        self._file = os.stat(path)
        self._is_open = True
        self._resources = ExitStack()
        self._mutex = threading.Lock()
        _open_journals.add(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> tuple[Self, list[Record]]:
        """Open the journal at `path` for writing, making it if it is missing, and return it with its records.

        Served episodes that a snapshot sums up are left out of the records. Nothing is written to an existing file
        before what was read has been verified.

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
            records, count, head = _read(path, everything=False)
            connection = resources.enter_context(closing(_connect(path, "rw")))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync does not reach the disk
            # Each event goes on into the main file at once: a lost -wal or a plain copy then misses nothing.
            connection.execute("PRAGMA wal_autocheckpoint = 1")
            connection.execute("BEGIN IMMEDIATE")  # fails now, not at the first event; makes -wal for readers
            connection.execute("ROLLBACK")
            journal = cls(path, lock, connection, count, head)
            journal._resources = resources.pop_all()
            return journal, records

    def append(self, event: Event) -> Record:
        """Add one event; when this returns, it is on disk.

        Raises:
            JournalError: The event cannot be written; the journal is as before, and one may try again.
        """
        if not self._is_open:
            raise JournalError(f"Journal {self.path} is not open in this process; open it again to append.")
        kind, text = kind_of(event), encode(event)
        with self._mutex, _explained(self.path, "append to"):
            if not os.path.samestat(self._file, os.stat(self.path)):
                raise JournalError(f"{self.path} was replaced while open. Put the file back, or open it again.")
            number, time = self.count + 1, datetime.now(UTC).isoformat(timespec="microseconds")
            digest = _fingerprint(self.head, number, kind, text, time)
            with self._connection as connection:  # commits, or rolls back on any error
                connection.execute("BEGIN IMMEDIATE")
                moved = connection.execute(
                    "UPDATE head SET count = ?, hash = ? WHERE count = ? AND hash = ?",
                    (number, digest, self.count, self.head),
                )
                if moved.rowcount != 1:
                    raise JournalError(f"{self.path} was changed by another program. Open it again to verify it.")
                connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (number, kind, text, time, digest))
            self.count, self.head = number, digest
        # The event is read back from its text, so that live and replayed events are the same.
        return Record(number, decode(kind, text), time, digest)

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


def read_records(path: str | os.PathLike[str], *, everything: bool = True) -> list[Record]:
    """Return the records of a journal, verified; `everything` is also the served episodes that a snapshot sums up.

    A writer may be active.

    Raises:
        JournalError: The file cannot be read or is not a whole journal; names the first event that is not sound.
    """
    path = _resolve(path)
    with _explained(path, "read"):
        return _read(path, everything=everything)[0]


def export_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Return one JSON text per event."""
    for record in read_records(path):
        kind, body = kind_of(record.event), json.loads(encode(record.event))
        plain = {"number": record.number, "kind": kind, "body": body, "time": record.time, "hash": record.hash}
        yield json.dumps(plain, sort_keys=True)


def journal_path(run: str | os.PathLike[str]) -> Path:
    """Return the journal of a run, given its directory or the journal itself.

    Raises:
        JournalError: If there is none.
    """
    run = Path(run)
    path = run if run.is_file() else run / JOURNAL
    if not path.exists():
        what = f"has no {JOURNAL}" if run.exists() else "does not exist"
        raise JournalError(f"{run} {what}; give the directory of a run, such as runs/demo.")
    return path


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


def _read(path: Path, *, everything: bool, attempts: int = 3) -> tuple[list[Record], int, str]:
    """Return the records, the number of all events, and the last fingerprint."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise JournalError(f"{path} is a directory or device, not a journal. Give the path of a file.")
    if status.st_size < 512:  # less than one page, which SQLite takes for a new database
        raise JournalError(f"{path} is empty or cut short ({status.st_size} bytes), no journal. {_RESTORE}")
    _check_access(path, os.R_OK)
    # Without -wal nobody writes: read as immutable, which leaves no -shm behind and works on read-only media. With -wal
    # we must not: closing an immutable file drops the locks of a writer in this process, as would closing a plain file.
    immutable = not os.path.exists(f"{path}-wal")
    try:
        with closing(_connect(path, "ro&immutable=1" if immutable else "ro")) as connection:
            return _load(path, connection, everything=everything)
    except JournalError:
        if immutable and attempts > 1:  # a writer may have come meanwhile and changed pages under us
            return _read(path, everything=everything, attempts=attempts - 1)
        raise


def _check_access(path: Path, mode: int) -> None:
    if not os.access(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _load(path: Path, connection: sqlite3.Connection, *, everything: bool) -> tuple[list[Record], int, str]:
    records: list[Record] = []
    try:
        connection.execute("BEGIN")  # one snapshot for events and head
        _check_format(path, connection)
        with closing(_rows(connection, everything=everything)) as rows:  # before the connection is closed
            records.extend(_chain(path, rows))
        heads = connection.execute("SELECT count, CAST(hash AS TEXT) FROM head").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the second, if SQLite complains of a name that is damaged
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise
        where = f"{path} is not a whole journal: {error}, after event {len(records)}"
        raise JournalError(f"{where}. {_RESTORE}") from error
    number, last = (records[-1].number, records[-1].hash) if records else (0, GENESIS)
    if heads != [(number, last)]:
        count, found = heads[0] if heads else (0, "none")
        raise JournalError(
            f"{path}: event {number + 1} is missing, or the head edited: expected {count} events ending in fingerprint"
            f" {str(found)[:12]}, found {number} ending in {last[:12]}. {_RESTORE}"
        )
    return records, number, last


def _rows(connection: sqlite3.Connection, *, everything: bool) -> Generator[_Row, None, None]:
    """Return the rows to read; each that does not follow the one before it has the fingerprint of its predecessor."""
    snapshot = None if everything else connection.execute(_LAST_SNAPSHOT).fetchone()[0]
    if snapshot is None:
        yield from connection.execute(_EVERYTHING)
        return
    yield from connection.execute(_SUMMED_UP, (snapshot,))
    yield from connection.execute(_SINCE, (snapshot,))


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise JournalError(
            f"{path} is a SQLite file of another program (application id {application:#x}, a journal has"
            f" {APPLICATION_ID:#x}). Give another path."
        )
    if version < VERSION:
        raise JournalError(f"{path} was recorded by lifesafe 0.1, which was never released; begin a new run.")
    if version > VERSION:
        raise JournalError(f"{path} has journal format {version}, this lifesafe reads {VERSION}. Upgrade it.")


def _chain(path: Path, rows: Iterator[_Row]) -> Iterator[Record]:
    previous, due = GENESIS, 1
    for number, kind, body, time, found, before in rows:
        if number != due and before is None:
            raise JournalError(
                f"{path}: event {due} is missing: expected it after fingerprint {previous[:12]}, found event {number}"
                f" with fingerprint {str(found)[:12]}. {_RESTORE}"
            )
        expected = _fingerprint(previous if number == due else str(before), number, kind, body, time)
        if found != expected:
            raise JournalError(
                f"{path}: event {number} ({kind}) or one before it was edited or moved: expected fingerprint"
                f" {expected[:12]}, found {str(found)[:12]}. {_RESTORE}"
            )
        try:
            yield Record(number, decode(kind, body), time, found)
        except JournalError as error:
            raise JournalError(f"{path}: event {number}: {error}") from error
        previous, due = found, number + 1


def _fingerprint(previous: str, number: int, kind: str, body: str, time: str) -> str:
    return hashlib.sha256(json.dumps([previous, number, kind, body, time]).encode()).hexdigest()


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
