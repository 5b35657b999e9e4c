"""Replay makes every decision of operation again, and refuses a record that does not follow from itself."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lifesafe.errors import JournalError
from lifesafe.journal import JOURNAL, Record, read_records
from lifesafe.journal import events as e
from lifesafe.journal.events import Event, kind_of
from lifesafe.operation import Operation, replay
from properties.runs import visible
from unit.operation.test_operation import returned, searched


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Return the record of an operation with a snapshot that falls back and halts."""
    directory: Path = tmp_path_factory.mktemp("replay")
    optimizer, _ = searched(directory)
    operation = Operation(optimizer)
    operation.begin()
    operation.tell(returned(1010, 10.0))
    while operation.target is not None:
        operation.tell(returned(12, 39.0))
    optimizer.close()
    found = read_records(directory / JOURNAL)
    assert {"serving", "served", "snapshot", "alarm", "halted"} <= {kind_of(record.event) for record in found}
    return found


def test_a_whole_record_is_replayed_to_the_same_state(records: list[Record]) -> None:
    optimizer = replay(records)
    assert optimizer.history.halted is not None
    operated = [record for record in records if kind_of(record.event) not in ("asked", "told", "opened")]
    assert len(operated) > 10
    assert visible(replay(records[: -len(operated)])) != visible(optimizer)


def last(records: list[Record], kind: type[Event]) -> int:
    return max(i for i, record in enumerate(records) if isinstance(record.event, kind))


FORGERIES: dict[str, tuple[type[Event], Callable[[Event], Event]]] = {
    "another target": (e.Serving, lambda event: msgspec.structs.replace(event, target=(1.0, 1.0))),
    "another rung": (e.Serving, lambda event: msgspec.structs.replace(event, rung=7)),
    "another limit": (e.Serving, lambda event: msgspec.structs.replace(event, limits=(21.0,))),
    "an alarm of another rule": (e.Alarm, lambda event: msgspec.structs.replace(event, rule="bound")),
    "an alarm in another episode": (e.Alarm, lambda event: msgspec.structs.replace(event, episode=1)),
    "a calmer watch": (
        e.Snapshot,
        lambda event: msgspec.structs.replace(event, watch={**event.watch, "sums": [0.0]}),
    ),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_decision_is_found(records: list[Record], what: str) -> None:
    kind, forge = FORGERIES[what]
    i = last(records, kind)
    record = records[i]
    forged = Record(record.number, forge(record.event), record.time, record.hash)
    with pytest.raises(JournalError, match=rf"Event {record.number}: .* does not follow"):
        replay([*records[:i], forged])


def test_an_alarm_without_a_cause_and_a_halt_without_an_alarm_are_found(records: list[Record]) -> None:
    serving = next(i for i, record in enumerate(records) if isinstance(record.event, e.Serving))
    for kind in (e.Alarm, e.Halted):
        event = records[last(records, kind)].event
        with pytest.raises(JournalError, match="does not follow"):
            replay([*records[: serving + 1], Record(records[serving].number + 1, event, "now", "")])


def test_a_silenced_alarm_is_found(records: list[Record]) -> None:
    alarm = next(i for i, record in enumerate(records) if isinstance(record.event, e.Alarm))
    assert isinstance(records[alarm + 1].event, e.Serving)
    with pytest.raises(JournalError, match="does not follow"):
        replay([*records[:alarm], *records[alarm + 1 :]])
