import base64
import hashlib
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import JournalError
from lifesafe.optimizer.journal import (
    APPLICATION_ID,
    GENESIS,
    VERSION,
    Event,
    Journal,
    export_lines,
    read_events,
    verify,
)

TRIGGERS = ("no_update", "no_delete", "no_replace")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "journal.sqlite"


def write(path: Path, events: int = 5) -> tuple[Event, ...]:
    with Journal.open(path) as journal:
        for trial in range(events):
            journal.append("told", {"trial": trial, "reward": trial / 3})
        return journal.events


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


def test_events_come_back_as_they_were_written(path: Path) -> None:
    body = {
        "reward": 0.1 + 0.2,
        "costs": [1e-308, -0.0, 1.7976931348623157e308],
        "stage": "explore",
        "ok": None,
    }
    with Journal.open(path) as journal:
        event = journal.append("told", body, attachment=b"\x00grid\xff")
        assert journal.events == (event,)
    (again,) = read_events(path)
    assert again == event
    assert again.body == body
    assert math.copysign(1, again.body["costs"][1]) == -1
    assert (again.number, again.kind, again.attachment) == (1, "told", b"\x00grid\xff")
    assert again.time.endswith("+00:00")
    assert len(again.time) == len("2025-01-01T00:00:00.000000+00:00")


def test_an_empty_attachment_is_not_a_missing_one(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("told", {}, attachment=b"")
        journal.append("told", {})
    assert [event.attachment for event in read_events(path)] == [b"", None]


def test_reopening_continues_the_chain(path: Path) -> None:
    first = write(path, 2)
    with Journal.open(path) as journal:
        assert journal.events == first
        event = journal.append("limits", {"limits": [20.0]})
    assert event.number == 3
    assert read_events(path) == (*first, event)
    assert verify(path) == 3


def test_the_fingerprint_covers_everything_and_the_fingerprint_before(path: Path) -> None:
    previous = GENESIS
    with Journal.open(path) as journal:
        events = [journal.append("asked", {"b": 1, "a": [0.5]}), journal.append("told", {}, attachment=b"x")]
    for event, body in zip(events, ['{"a":[0.5],"b":1}', "{}"], strict=True):
        attached = hashlib.sha256(event.attachment).hexdigest() if event.attachment else None
        parts = [previous, event.number, event.kind, body, event.time, attached]
        previous = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        assert event.hash == previous


@pytest.mark.parametrize("name", ["with space.sqlite", "50%?mode=memory#.sqlite", "änderung"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 1)
    assert os.listdir(tmp_path) == [name]
    assert verify(tmp_path / name) == 1


def test_a_closed_journal_is_one_file_and_reading_leaves_nothing_behind(path: Path) -> None:
    write(path)
    before = contents(path.parent)
    verify(path)
    assert list(before) == ["journal.sqlite"]
    assert contents(path.parent) == before


def test_the_main_file_holds_every_event_while_the_journal_is_open(path: Path, tmp_path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("told", {"trial": 1})
        shutil.copyfile(path, tmp_path / "copy")
        assert read_events(tmp_path / "copy") == journal.events


def test_exported_lines_hold_all_of_each_event(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("asked", {"target": [0.1]})
        event = journal.append("told", {"trial": 1}, attachment=b"grid")
    first, second = map(json.loads, export_lines(path))
    assert first["body"] == {"target": [0.1]}
    assert first["attachment"] is None
    assert {key: second[key] for key in ("number", "kind", "time", "hash")} == {
        "number": 2, "kind": "told", "time": event.time, "hash": event.hash
    }  # fmt: skip
    assert base64.b64decode(second["attachment"]["base64"]) == b"grid"
    assert second["attachment"]["sha256"] == hashlib.sha256(b"grid").hexdigest()


def test_an_event_does_not_change_with_the_body_it_was_made_from(path: Path) -> None:
    body: dict[str, Any] = {"costs": [1.0]}
    with Journal.open(path) as journal:
        journal.append("told", body)
        body["costs"].append(2.0)
        assert journal.events == read_events(path)


def test_tuples_become_lists_at_once_as_they_will_on_replay(path: Path) -> None:
    with Journal.open(path) as journal:
        assert journal.append("told", {"costs": (1.0, (2.0,))}).body == {"costs": [1.0, [2.0]]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=20, deadline=None)
@given(bodies=st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=4), attachment=st.binary())
def test_any_json_round_trips(bodies: list[dict[str, Any]], attachment: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory, Journal.open(f"{directory}/j") as journal:
        for body in bodies:
            journal.append("told", body, attachment)
        assert [repr(event.body) for event in read_events(f"{directory}/j")] == [
            repr(event.body) for event in journal.events
        ]
        assert [event.body for event in journal.events] == bodies


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"costs": [0.0, math.nan]}, r"body\['costs'\]\[1\] is nan"),
        ({"a": {"b": math.inf}}, r"body\['a'\]\['b'\] is inf"),
        ({"a": {1: 2}}, r"Key 1 in body\['a'\] is int"),
        ({"a": {2.0}}, r"body\['a'\] is set"),
        ({"a": b"x"}, r"body\['a'\] is bytes"),
    ],
)
def test_a_body_that_json_cannot_hold_is_refused_and_named(path: Path, body: dict[str, Any], message: str) -> None:
    with Journal.open(path) as journal:
        with pytest.raises(JournalError, match=message):
            journal.append("told", body)
        assert journal.events == ()
        journal.append("told", {})
    assert verify(path) == 1


@pytest.mark.parametrize("kind", ["", "two words", "a\nb"])
def test_a_kind_is_one_word(path: Path, kind: str) -> None:
    with Journal.open(path) as journal, pytest.raises(JournalError, match="one word"):
        journal.append(kind, {})


def test_a_closed_journal_refuses_events(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("told", {})
    journal.close()
    with pytest.raises(JournalError, match="not open"):
        journal.append("told", {})


def test_threads_may_append_to_one_journal(path: Path) -> None:
    with Journal.open(path) as journal:
        threads = [threading.Thread(target=lambda: [journal.append("told", {}) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert read_events(path) == journal.events
        assert verify(path) == 20


# What was changed is found.


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["UPDATE event SET body = '{\"trial\":9}' WHERE number = 3"], r"event 3 \(told\)"),
        (["UPDATE event SET body = body || ' ' WHERE number = 1"], r"event 1 \(told\)"),
        (["UPDATE event SET kind = 'asked' WHERE number = 2"], r"event 2 \(asked\)"),
        (["UPDATE event SET time = '2000-01-01' WHERE number = 4"], "event 4"),
        (["UPDATE event SET attachment = x'00' WHERE number = 4"], "event 4"),
        (["UPDATE event SET hash = 'abc' WHERE number = 5"], "event 5 .* found abc"),
        (["UPDATE event SET hash = 7 WHERE number = 5"], "event 5 .* found 7"),
        (["UPDATE event SET body = x'fffe' WHERE number = 2"], "event 2"),
        (["DELETE FROM event WHERE number = 1"], "event 1 is missing.*found event 2"),
        (["DELETE FROM event WHERE number = 3"], "event 3 is missing.*found event 4"),
        (["DELETE FROM event WHERE number = 5"], "event 5 is missing.*expected 5 events.*found 4"),
        (["DELETE FROM event WHERE number > 2"], "event 3 is missing.*expected 5 events.*found 2"),
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
            ["INSERT INTO event SELECT 6, kind, body, time, attachment, hash FROM event WHERE number = 5"],
            "event 6",
        ),
        (["UPDATE head SET count = 4"], "head edited"),
        (["UPDATE head SET hash = 'abc'"], "fingerprint abc, found 5"),
        (["DELETE FROM head"], "head edited"),
        (["DROP TABLE head"], "no such table: head, after event 5"),
        (["DROP TABLE event"], "no such table: event, after event 0"),
    ],
)  # fmt: skip
def test_a_changed_event_is_found_and_named(path: Path, statements: list[str], message: str) -> None:
    write(path)
    edit(path, *statements)
    before = contents(path.parent)
    for use in (verify, read_events, export_lines, Journal.open):
        with pytest.raises(JournalError, match=message) as caught:
            use(path)
        assert str(path) in str(caught.value)
    assert contents(path.parent) == before


def test_both_fingerprints_of_an_edited_event_are_named(path: Path) -> None:
    events = write(path)
    edit(path, "UPDATE event SET body = '{}' WHERE number = 3")
    parts = [events[1].hash, 3, "told", "{}", events[2].time, None]
    expected = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    with pytest.raises(JournalError, match=f"expected fingerprint {expected[:12]}, found {events[2].hash[:12]}"):
        verify(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET body = '{}' WHERE number = 2",
        "DELETE FROM event WHERE number = 5",
        "INSERT OR REPLACE INTO event VALUES (5, 'told', '{}', '', NULL, '')",
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
    assert verify(path) == 5


def test_an_event_from_another_program_stops_the_writer(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("told", {})
        edit(path, "UPDATE head SET count = 7")
        with pytest.raises(JournalError, match="changed by another program"):
            journal.append("told", {})
        edit(path, "UPDATE head SET count = 1")
        journal.append("told", {})
    assert verify(path) == 2


def test_a_file_removed_or_replaced_under_the_writer_stops_it(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("told", {})
        aside = path.rename(path.with_name("aside"))
        with pytest.raises(JournalError, match="No such file"):
            journal.append("told", {})
        shutil.copyfile(aside, path)
        with pytest.raises(JournalError, match="was replaced"):
            journal.append("told", {})
        aside.rename(path)
        assert journal.append("told", {}).number == 2
    assert verify(path) == 2


def test_flipped_bits_are_found(path: Path) -> None:
    write(path, 40)
    whole = path.read_bytes()
    chance = random.Random(0)
    events, found = read_events(path), 0
    for _ in range(60):
        place, bit = chance.randrange(100, len(whole)), chance.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
        try:
            assert read_events(path) == events  # the bit was in unused space
        except JournalError:
            found += 1
    assert found > 10


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
        (
            lambda path: foreign(path, "DELETE"),
            "another program .application id 0x0, a journal has 0x6c736a6c",
        ),
        (lambda path: foreign(path, "WAL"), "another program"),
        (
            lambda path: foreign(path, "DELETE", f"PRAGMA application_id = {APPLICATION_ID}"),
            "journal format 0",
        ),
        (newer, f"journal format {VERSION + 1}, this lifesafe reads {VERSION}. Upgrade"),
        (lambda path: truncated(path, 50), r"cut short \(50 bytes\)"),
        (lambda path: truncated(path, 512), "not a whole journal"),
        (lambda path: truncated(path, 4096), "not a whole journal"),
        (lambda path: truncated(path, 9000), "not a whole journal"),
    ],
)
def test_a_file_that_is_no_whole_journal_is_refused_and_untouched(path: Path, make: Any, message: str) -> None:
    path.parent.mkdir()
    make(path)
    before = contents(path.parent)
    for use in (Journal.open, verify):
        with pytest.raises(JournalError, match=message) as caught:
            use(path)
        assert str(path) in str(caught.value)
    assert contents(path.parent) == before


def test_a_directory_is_refused(tmp_path: Path) -> None:
    for use in (Journal.open, verify):
        with pytest.raises(JournalError, match="is a directory"):
            use(tmp_path)


def test_a_missing_journal_cannot_be_read(path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        read_events(path)
    assert not path.parent.exists()


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="Cannot open"):
        Journal.open(tmp_path / "file" / "journal.sqlite")


def test_a_new_journal_is_not_made_beside_the_newest_events_of_a_lost_one(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append("told", {})
        wal = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(wal)
    with pytest.raises(JournalError, match=r"is missing, but .*-wal is there"):
        Journal.open(path)
    assert not path.exists()


# One writer, many readers.

HOLD = """
import sys
from lifesafe.optimizer.journal import Journal
journal = Journal.open(sys.argv[1])
journal.append("told", {"trial": 1})
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_in_the_same_process_is_refused(path: Path) -> None:
    with Journal.open(path) as journal:
        with pytest.raises(JournalError, match=f"{path} is open for writing in process {os.getpid()}"):
            Journal.open(path)
        journal.append("told", {})
    with Journal.open(path) as journal:
        assert len(journal.events) == 1


def test_a_second_writer_under_another_name_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with Journal.open(path), pytest.raises(JournalError, match="is open for writing"):
        Journal.open(tmp_path / "link")


def test_a_second_writer_in_another_process_is_refused_until_the_first_is_killed(path: Path) -> None:
    with child(HOLD, path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        with pytest.raises(JournalError, match=f"open for writing in process {holder.pid}"):
            Journal.open(path)
        assert verify(path) == 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with Journal.open(path) as journal:
            assert journal.append("told", {"trial": 2}).number == 2


def test_readers_see_each_event_while_the_writer_is_active(path: Path) -> None:
    with Journal.open(path) as journal:
        for _ in range(5):
            journal.append("told", {})
            assert read_events(path) == journal.events


FORK = """
import os, signal, sys
from lifesafe.errors import JournalError
from lifesafe.optimizer.journal import Journal
journal = Journal.open(sys.argv[1])
reader, writer = os.pipe()
if os.fork() == 0:
    try:
        journal.append("told", {})
    except JournalError as error:
        print(error, flush=True)
    journal.close()
    os.write(writer, b"x")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 1)
journal.append("told", {})
assert os.path.exists(sys.argv[1] + ".lock")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_can_neither_write_nor_keep_the_lock(path: Path) -> None:
    with child(FORK, path) as process:
        assert process.stdout is not None
        assert "not open in this process" in process.stdout.readline()
        assert process.wait() == -signal.SIGKILL
        with Journal.open(path) as journal:  # the child still lives
            assert len(journal.events) == 1


# Killed at any moment.

# A process per life, forked from one that has done the imports; the first life also makes the file.
LIVES = """
import os, random, signal, sys, time
from lifesafe.optimizer.journal import Journal
path, chance = sys.argv[1], random.Random(int(sys.argv[2]))
for life in range(24):
    place = f"{path}/{life // 8}/journal.sqlite"
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        journal = Journal.open(place)
        while True:
            event = journal.append("told", {"life": life}, attachment=os.urandom(9000))
            os.write(writer, f"{event.number} {event.hash}\\n".encode())
    os.close(writer)
    # Half of the lives end while opening, more or less; half while appending.
    start = os.read(reader, 1).decode() if life % 2 else ""
    time.sleep(chance.uniform(0, 0.01 if start else 0.03))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    with open(reader) as stream:
        acknowledged = [line.split() for line in (start + stream.read()).splitlines()]
    with Journal.open(place) as journal:
        found = {str(event.number): event.hash for event in journal.events}
        mine = [event for event in journal.events if event.body["life"] == life]
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
from lifesafe.optimizer.journal import Journal, verify
with Journal.open(sys.argv[1]) as journal:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]  # only the soft limit is moved, so any hard one will do
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        while True:
            journal.append("told", {}, attachment=bytes(5000))
    except JournalError as error:
        print(error)
    before = journal.events
    for _ in range(3):
        try:
            journal.append("told", {}, attachment=bytes(5000))
        except JournalError:
            pass
        assert journal.events == before
        assert verify(sys.argv[1]) == len(before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert journal.append("told", {}).number == len(before) + 1
print(verify(sys.argv[1]))
"""


def test_a_file_size_limit_is_reported_and_appending_goes_on_when_it_is_lifted(path: Path) -> None:
    message, count = output(LIMITED, path)
    assert message.startswith(f"Cannot append to {path}: ")
    assert int(count) > 5
    assert verify(path) == int(count)


def fill(journal: Journal) -> None:
    for _ in range(99):
        journal.append("told", {}, attachment=bytes(5000))


def test_a_full_disk_is_reported_and_appending_goes_on_when_there_is_room(small_disk: Path) -> None:
    path, ballast = small_disk / "journal.sqlite", small_disk / "ballast"
    with Journal.open(path) as journal:
        journal.append("told", {})
        ballast.write_bytes(bytes(100_000))
        with pytest.raises(JournalError, match=f"Cannot append to {path}: .*full.*Check free space"):
            fill(journal)
        before = journal.events
        assert read_events(path) == before
        ballast.unlink()
        assert journal.append("told", {}).number == len(before) + 1
        after = journal.events
    assert read_events(path) == after


def test_a_journal_that_does_not_fit_is_reported_and_leaves_no_part_of_it(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(400_000))
    with pytest.raises(JournalError, match=r"Cannot open .*No space left"):
        Journal.open(small_disk / "journal.sqlite")
    assert os.listdir(small_disk) == ["ballast"]


UNPRIVILEGED = """
import os, sys
from lifesafe.errors import JournalError
from lifesafe.optimizer.journal import Journal, read_events, verify
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for use in Journal.open, verify:
    for path in sys.argv[1:]:
        try:
            result = use(path)
            print(result if use is verify else "opened")
        except JournalError as error:
            print(error)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that any user may reach, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(place)


def test_a_read_only_directory_can_be_read_but_not_written(public: Path) -> None:
    path = public / "journal.sqlite"
    write(path)
    os.chmod(path, 0o444)
    os.chmod(public, 0o555)
    opened, made, events, missing = output(UNPRIVILEGED, path, public / "new" / "journal.sqlite")
    os.chmod(public, 0o755)
    assert opened.startswith(f"Cannot open {path}: Permission denied: ")
    assert made.startswith(f"Cannot open {public}/new/journal.sqlite: Permission denied: ")
    assert events == "5"
    assert "No such file" in missing


def test_files_without_permission_are_reported(public: Path) -> None:
    closed, fixed = public / "closed.sqlite", public / "fixed.sqlite"
    write(closed)
    write(fixed)
    os.chmod(closed, 0o000)
    os.chmod(fixed, 0o444)
    os.chmod(public, 0o777)
    unreadable, unwritable, unread, events = output(UNPRIVILEGED, closed, fixed)
    assert unreadable.startswith(f"Cannot open {closed}: Permission denied")
    assert unwritable.startswith(f"Cannot open {fixed}: Permission denied")
    assert unread.startswith(f"Cannot read {closed}: Permission denied")
    assert events == "5"


def test_a_journal_that_another_program_has_locked_is_reported(path: Path) -> None:
    with Journal.open(path) as journal, closing(sqlite3.connect(path, isolation_level=None)) as other:
        journal._connection.execute("PRAGMA busy_timeout = 10")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="database is locked"):
            journal.append("told", {})
        other.execute("ROLLBACK")
        assert journal.append("told", {}).number == 1
        assert verify(path) == 1


def test_the_file_says_what_it_is(path: Path) -> None:
    write(path, 1)
    header = path.read_bytes()[:100]
    assert header.startswith(b"SQLite format 3\x00")
    assert struct.unpack(">I", header[60:64]) == (VERSION,)
    assert struct.unpack(">I", header[68:72]) == (APPLICATION_ID,)
