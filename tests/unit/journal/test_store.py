"""The journal: what was written comes back, what was changed is found, one writer, and no kill loses anything."""

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lifesafe.errors import JournalError
from lifesafe.journal import Journal, Record, read_records
from lifesafe.journal.events import Asked, Confirmed, Event, Forecast, Limited, Opened, Served, Serving, Snapshot, Told
from lifesafe.journal.store import APPLICATION_ID, GENESIS, VERSION, export_lines

TRIGGERS = ("no_update", "no_delete", "no_replace")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "journal.sqlite"


def told(trial: int = 1) -> Told:
    return Told(trial=trial, episodes=((trial / 3, 0.0),))


@contextmanager
def writing(path: Path) -> Iterator[Journal]:
    journal, _ = Journal.open(path)
    with journal:
        yield journal


def write(path: Path, events: int = 5) -> list[Record]:
    journal, before = Journal.open(path)
    with journal:
        return before + [journal.append(told(trial)) for trial in range(events)]


def lines(path: Path) -> list[str]:
    return list(export_lines(path))


def count(path: Path) -> int:
    return len(read_records(path))


def edit(path: Path, *statements: str) -> None:
    """Do what an intruder with a SQLite shell would, triggers out of the way."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in TRIGGERS:
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in statements:
            connection.execute(statement)


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@contextmanager
def child(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def output(script: str, *arguments: object) -> list[str]:
    with child(script, *arguments) as process:
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return text.splitlines()


# What is written comes back.


def test_every_kind_of_event_comes_back_as_it_was_written(path: Path) -> None:
    forecast = Forecast(reward=(0.1 + 0.2, 1e-308), costs=((1.0, 2.0),), risk=0.05)
    events: list[Event] = [
        Opened(problem={"limits": [20.0], "targets": None, "promise": "trial"}, version="1.0"),
        Asked(
            trial=1, stage="start", targets=((200.0, 2.0),), tickets=(0, 0), charge=0.0, paid=(), allowance=0.05,
            forecasts=(forecast,),
        ),
        Told(trial=1, episodes=((1.7976931348623157e308, -0.0), (0.1 + 0.2, 5e-324))),
        Confirmed(reason="\u00e4 \U0001f600 \n\0"),
    ]  # fmt: skip
    with writing(path) as journal:
        written = [journal.append(event) for event in events]
    read = read_records(path)
    assert read == written
    assert [record.event for record in read] == events
    assert str(read[2].event.episodes[0][1]) == "-0.0"
    assert [record.number for record in read] == [1, 2, 3, 4]
    assert all(len(record.time) == len("2025-01-01T00:00:00.000000+00:00") for record in read)
    assert all(record.time.endswith("+00:00") for record in read)


def test_reopening_hands_over_what_is_there_and_goes_on_with_the_chain(path: Path) -> None:
    first = write(path, 2)
    journal, found = Journal.open(path)
    with journal:
        assert found == first
        assert (journal.count, journal.head) == (2, first[-1].hash)
        record = journal.append(Limited(limits=(20.0,), starts=()))
        assert (journal.count, journal.head) == (3, record.hash)
    assert read_records(path) == [*first, record]


def test_the_fingerprint_covers_everything_and_the_fingerprint_before(path: Path) -> None:
    previous = GENESIS
    body = '{"kind":"told","trial":7,"episodes":[[0.5,1.0]]}'
    with writing(path) as journal:
        for number in (1, 2):
            record = journal.append(Told(trial=7, episodes=((0.5, 1.0),)))
            parts = [previous, number, "told", body, record.time]
            previous = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
            assert record.hash == previous


@pytest.mark.parametrize("name", ["with space.sqlite", "50%?mode=memory#.sqlite", "änderung"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 1)
    assert os.listdir(tmp_path) == [name]
    assert count(tmp_path / name) == 1


def test_a_closed_journal_is_one_file_and_reading_leaves_nothing_behind(path: Path) -> None:
    write(path)
    before = contents(path.parent)
    read_records(path)
    assert list(before) == ["journal.sqlite"]
    assert contents(path.parent) == before


def test_readers_and_copies_of_the_main_file_have_each_event_while_the_writer_is_active(
    path: Path, tmp_path: Path
) -> None:
    with writing(path) as journal:
        for _ in range(3):
            journal.append(told())
            shutil.copyfile(path, tmp_path / "copy")
            assert count(path) == count(tmp_path / "copy") == journal.count


def test_exported_lines_hold_all_of_each_event(path: Path) -> None:
    (record,) = write(path, 1)
    (line,) = map(json.loads, export_lines(path))
    assert line == {
        "number": 1, "kind": "told", "time": record.time, "hash": record.hash,
        "body": {"kind": "told", "trial": 0, "episodes": [[0.0, 0.0]]},
    }  # fmt: skip


def test_an_event_that_cannot_be_written_changes_nothing(path: Path) -> None:
    with writing(path) as journal:
        with pytest.raises(JournalError, match=r"told.episodes\[0\]\[1\] is nan"):
            journal.append(Told(trial=1, episodes=((0.0, float("nan")),)))
        assert (journal.count, journal.head) == (0, GENESIS)
        assert journal.append(told()).number == 1
    assert count(path) == 1
    with pytest.raises(JournalError, match="not open"):
        journal.append(told())


def test_threads_may_append_to_one_journal(path: Path) -> None:
    with writing(path) as journal:
        threads = [threading.Thread(target=lambda: [journal.append(told()) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [record.number for record in read_records(path)] == list(range(1, 21))


# Served episodes that a snapshot sums up need not be read again.

SERVING = Serving(target=(200.0, 2.0), why="the best", limits=(20.0,), level=0.01, largest=(61.0,), rung=0)
SNAPSHOT = Snapshot(services=(), watch={}, account=())


def serve(path: Path) -> list[Record]:
    """Write a journal with two snapshots, and return its records."""
    with writing(path) as journal:
        records = [journal.append(told()), journal.append(SERVING)]
        for _ in range(2):
            records += [journal.append(Served(episodes=((1.0, float(i)),))) for i in range(3)]
            records.append(journal.append(SNAPSHOT))
        records += [journal.append(told(2)), journal.append(Served(episodes=((1.0, 9.0),)))]
    return records


def test_opening_leaves_out_the_served_episodes_before_the_last_snapshot_and_nothing_else(path: Path) -> None:
    records = serve(path)
    journal, found = Journal.open(path)
    journal.close()
    assert [record.number for record in found] == [1, 2, 6, 10, 11, 12]
    assert found == [record for record in records if record.number in (1, 2, 6, 10, 11, 12)]
    assert read_records(path, everything=False) == found
    assert read_records(path) == records
    assert journal.count == 12
    with writing(path) as journal:  # the chain goes on over what was left out
        journal.append(told(3))
    assert count(path) == 13


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE event SET body = body || ' ' WHERE number = 1", r"event 1 \(told\)"),
        ("UPDATE event SET body = body || ' ' WHERE number = 6", r"event 6 \(snapshot\)"),
        ("UPDATE event SET body = body || ' ' WHERE number = 10", r"event 10 \(snapshot\)"),
        ("UPDATE event SET hash = 'abc' WHERE number = 9", r"event 10 \(snapshot\) or one before it was edited"),
        ("DELETE FROM event WHERE number = 9", "event 7 is missing"),
        ("DELETE FROM event WHERE number = 11", "event 11 is missing"),
        ("DELETE FROM event WHERE number = 12", "event 12 is missing"),
        ("UPDATE event SET body = body || ' ' WHERE number = 12", r"event 12 \(served\)"),
        ("UPDATE event SET body = body || ' ' WHERE number = 4", None),  # among those that opening does not read
        ("DELETE FROM event WHERE number = 4", None),
    ],
)
def test_opening_checks_all_that_it_reads_and_reading_checks_everything(
    path: Path, statement: str, message: str | None
) -> None:
    serve(path)
    edit(path, statement)
    with pytest.raises(JournalError, match="event" if message is not None else "event 4"):
        read_records(path)
    if message is not None:
        with pytest.raises(JournalError, match=message):
            Journal.open(path)


# What was changed is found.


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["UPDATE event SET body = '{\"trial\":9}' WHERE number = 3"], r"event 3 \(told\)"),
        (["UPDATE event SET kind = 'asked' WHERE number = 2"], r"event 2 \(asked\)"),
        (["UPDATE event SET time = '2000-01-01' WHERE number = 4"], "event 4"),
        (["UPDATE event SET hash = 'abc' WHERE number = 5"], "event 5 .* found abc"),
        (["UPDATE event SET hash = 7 WHERE number = 5"], "event 5 .* found 7"),
        (["UPDATE event SET body = x'fffe' WHERE number = 2"], "event 2"),
        (["DELETE FROM event WHERE number = 1"], "event 1 is missing.*found event 2"),
        (["DELETE FROM event WHERE number = 5"], "event 5 is missing.*expected 5 events.*found 4"),
        (["DELETE FROM event"], "event 1 is missing.*expected 5 events.*found 0"),
        (  # swapped
            [
                "UPDATE event SET number = 99 WHERE number = 2",
                "UPDATE event SET number = 2 WHERE number = 3",
                "UPDATE event SET number = 3 WHERE number = 99",
            ],
            "event 2",
        ),
        (  # removed and renumbered
            ["DELETE FROM event WHERE number = 2", "UPDATE event SET number = number - 1 WHERE number > 2"],
            "event 2",
        ),
        (  # duplicated at the end
            ["INSERT INTO event SELECT 6, kind, body, time, hash FROM event WHERE number = 5"],
            "event 6",
        ),
        (["UPDATE head SET count = 4"], "head edited"),
        (["DELETE FROM head"], "head edited"),
        (["DROP TABLE head"], "no such table: head, after event 5"),
        (["DROP TABLE event"], "no such table: event, after event 0"),
    ],
)  # fmt: skip
def test_a_changed_event_is_found_and_named(path: Path, statements: list[str], message: str) -> None:
    write(path)
    edit(path, *statements)
    before = contents(path.parent)
    for use in (read_records, lines, Journal.open):
        with pytest.raises(JournalError, match=message) as caught:
            use(path)
        assert str(path) in str(caught.value)
    assert contents(path.parent) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET body = '{}' WHERE number = 2",
        "DELETE FROM event WHERE number = 5",
        "INSERT OR REPLACE INTO event VALUES (5, 'told', '{}', '', '')",
        "INSERT OR REPLACE INTO event SELECT * FROM event WHERE number = 1",
    ],
)
def test_the_file_itself_refuses_changes(path: Path, statement: str) -> None:
    write(path)
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)
    assert count(path) == 5


def test_an_event_from_another_program_stops_the_writer(path: Path) -> None:
    with writing(path) as journal:
        journal.append(told())
        edit(path, "UPDATE head SET count = 7")
        with pytest.raises(JournalError, match="changed by another program"):
            journal.append(told())
        edit(path, "UPDATE head SET count = 1")
        journal.append(told())
    assert count(path) == 2


def test_a_file_removed_or_replaced_under_the_writer_stops_it(path: Path) -> None:
    with writing(path) as journal:
        journal.append(told())
        aside = path.rename(path.with_name("aside"))
        with pytest.raises(JournalError, match="No such file"):
            journal.append(told())
        shutil.copyfile(aside, path)
        with pytest.raises(JournalError, match="was replaced"):
            journal.append(told())
        aside.rename(path)
        assert journal.append(told()).number == 2
    assert count(path) == 2


# Files that are not ours, or not whole, are refused and left alone.


def foreign(path: Path, mode: str, statement: str = "CREATE TABLE t (a)") -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(statement)


def newer(path: Path) -> None:
    write(path)
    edit(path, f"PRAGMA user_version = {VERSION + 1}")


def truncated(path: Path, size: int) -> None:
    write(path, 40)
    os.truncate(path, size)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), r"is empty or cut short \(0 bytes\)"),
        (lambda path: path.write_text("reward,cost\n" * 99), "not a whole journal: file is not a database"),
        (lambda path: path.write_text("x"), r"cut short \(1 bytes\)"),
        (lambda path: foreign(path, "DELETE"), "another program .application id 0x0, a journal has 0x6c736a6c"),
        (lambda path: foreign(path, "WAL"), "another program"),
        (
            lambda path: foreign(path, "DELETE", f"PRAGMA application_id = {APPLICATION_ID}"),
            "recorded by lifesafe 0.1, which was never released; begin a new run",
        ),
        (newer, f"journal format {VERSION + 1}, this lifesafe reads {VERSION}. Upgrade"),
        (lambda path: truncated(path, 50), r"cut short \(50 bytes\)"),
        (lambda path: truncated(path, 512), "not a whole journal"),
        (lambda path: truncated(path, 4096), "not a whole journal"),
        (lambda path: truncated(path, 9000), "not a whole journal"),
    ],
)
def test_a_file_that_is_no_whole_journal_is_refused_and_untouched(
    path: Path, make: Callable[[Path], object], message: str
) -> None:
    path.parent.mkdir()
    make(path)
    before = contents(path.parent)
    for use in (Journal.open, read_records):
        with pytest.raises(JournalError, match=message) as caught:
            use(path)
        assert str(path) in str(caught.value)
    assert contents(path.parent) == before


def test_a_new_journal_is_not_made_beside_the_newest_events_of_a_lost_one(path: Path) -> None:
    with writing(path) as journal:
        journal.append(told())
        wal = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(wal)
    with pytest.raises(JournalError, match=r"is missing, but .*-wal is there"):
        Journal.open(path)
    assert not path.exists()


def test_a_journal_that_is_missing_a_directory_or_below_a_file_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        read_records(path)
    assert not path.parent.exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="Cannot open"):
        Journal.open(tmp_path / "file" / "journal.sqlite")
    with pytest.raises(JournalError, match="is a directory"):
        Journal.open(tmp_path)


# One writer, many readers.

HOLD = """
import sys
from lifesafe.journal import Journal
from lifesafe.journal.events import Confirmed
journal, _ = Journal.open(sys.argv[1])
journal.append(Confirmed(reason="x"))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused_under_another_name_too(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with writing(path) as journal:
        for name in (path, tmp_path / "link"):
            with pytest.raises(JournalError, match=f"{path} is open for writing in process {os.getpid()}"):
                Journal.open(name)
        journal.append(told())
    assert count(path) == 1


def test_a_second_writer_in_another_process_is_refused_until_the_first_is_killed(path: Path) -> None:
    with child(HOLD, path) as holder:
        assert holder.stdout.readline() == "ready\n"
        with pytest.raises(JournalError, match=f"open for writing in process {holder.pid}"):
            Journal.open(path)
        assert count(path) == 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        journal, _ = Journal.open(path)
        with journal:
            assert journal.append(told(2)).number == 2


FORK = """
import os, signal, sys
from lifesafe.errors import JournalError
from lifesafe.journal import Journal
from lifesafe.journal.events import Confirmed
journal, _ = Journal.open(sys.argv[1])
reader, writer = os.pipe()
if os.fork() == 0:
    try:
        journal.append(Confirmed(reason="x"))
    except JournalError as error:
        print(error, flush=True)
    journal.close()
    os.write(writer, b"x")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 1)
journal.append(Confirmed(reason="x"))
assert os.path.exists(sys.argv[1] + ".lock")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_can_neither_write_nor_keep_the_lock(path: Path) -> None:
    with child(FORK, path) as process:
        assert "not open in this process" in process.stdout.readline()
        assert process.wait() == -signal.SIGKILL
        journal, _ = Journal.open(path)
        with journal:  # the child still lives
            assert journal.count == 1


# Killed at any moment.

# A process per life, forked from one that has done the imports; the first life also makes the file.
LIVES = """
import os, random, signal, sys, time
from lifesafe.journal import Journal
from lifesafe.journal.events import Confirmed
path, chance = sys.argv[1], random.Random(int(sys.argv[2]))
for life in range(24):
    place = f"{path}/{life // 8}/journal.sqlite"
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        journal, _ = Journal.open(place)
        while True:
            record = journal.append(Confirmed(reason=f"{life} {os.urandom(9000).hex()}"))
            os.write(writer, f"{record.number} {record.hash}\\n".encode())
    os.close(writer)
    # Half of the lives end while opening, more or less; half while appending.
    start = os.read(reader, 1).decode() if life % 2 else ""
    time.sleep(chance.uniform(0, 0.01 if start else 0.03))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    with open(reader) as stream:
        acknowledged = [line.split() for line in (start + stream.read()).splitlines()]
    journal, records = Journal.open(place)
    journal.close()
    found = {str(record.number): record.hash for record in records}
    mine = [record for record in records if record.event.reason.split()[0] == str(life)]
    assert all(found[number] == digest for number, digest in acknowledged), (life, acknowledged, found)
    assert len(mine) - len(acknowledged) in (0, 1), (life, len(mine), len(acknowledged))
    print(len(acknowledged))
"""


def test_a_writer_killed_at_any_moment_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    acknowledged = list(map(int, output(LIVES, tmp_path, 0)))
    assert len(acknowledged) == 24
    assert all(count > 0 for count in acknowledged[1::2])


# When the world says no.

LIMITED = """
import resource, sys
from lifesafe.errors import JournalError
from lifesafe.journal import Journal, read_records
from lifesafe.journal.events import Confirmed
journal, _ = Journal.open(sys.argv[1])
event = Confirmed(reason="x" * 5000)
with journal:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]  # only the soft limit is moved, so any hard one will do
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        while True:
            journal.append(event)
    except JournalError as error:
        print(error)
    before = journal.count
    for _ in range(3):
        try:
            journal.append(event)
        except JournalError:
            pass
        assert journal.count == before
        assert len(read_records(sys.argv[1])) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert journal.append(event).number == before + 1
print(len(read_records(sys.argv[1])))
"""


def test_a_file_size_limit_is_reported_and_appending_goes_on_when_it_is_lifted(path: Path) -> None:
    message, events = output(LIMITED, path)
    assert message.startswith(f"Cannot append to {path}: ")
    assert int(events) > 5
    assert count(path) == int(events)


def test_a_journal_that_does_not_fit_is_reported_and_leaves_no_part_of_it(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(400_000))
    with pytest.raises(JournalError, match=r"Cannot open .*No space left"):
        Journal.open(small_disk / "journal.sqlite")
    assert os.listdir(small_disk) == ["ballast"]


UNPRIVILEGED = """
import os, sys
from lifesafe.errors import JournalError
from lifesafe.journal import Journal, read_records
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    for use in Journal.open, read_records:
        try:
            result = use(path)
            print(len(result) if use is read_records else "opened")
        except JournalError as error:
            print(error)
"""


def test_without_permission_journals_are_read_or_refused_with_the_reason() -> None:
    with tempfile.TemporaryDirectory() as place:  # any user may reach it, unlike tmp_path
        public = Path(place)
        fixed, closed, new = (public / name for name in ("fixed.sqlite", "closed.sqlite", "new/journal.sqlite"))
        write(fixed)
        write(closed)
        os.chmod(fixed, 0o444)
        os.chmod(closed, 0o000)
        os.chmod(public, 0o555)
        said = output(UNPRIVILEGED, fixed, closed, new)
        os.chmod(public, 0o777)
        said += output(UNPRIVILEGED, fixed)
    assert said[0].startswith(f"Cannot open {fixed}: Permission denied: ")
    assert said[1] == said[7] == "5"
    assert said[2].startswith(f"Cannot open {closed}: Permission denied: ")
    assert said[3].startswith(f"Cannot read {closed}: Permission denied: ")
    assert said[4].startswith(f"Cannot open {new}: Permission denied: ")
    assert "No such file" in said[5]
    assert said[6].startswith(f"Cannot open {fixed}: Permission denied: ")


def test_a_journal_that_another_program_has_locked_is_reported(path: Path) -> None:
    with writing(path) as journal, closing(sqlite3.connect(path, isolation_level=None)) as other:
        journal._connection.execute("PRAGMA busy_timeout = 10")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="database is locked"):
            journal.append(told())
        other.execute("ROLLBACK")
        assert journal.append(told()).number == 1
        assert count(path) == 1
