"""Replay of a whole run: what operation has decided is decided again, and compared with the record."""

from __future__ import annotations

from collections.abc import Sequence

from lifesafe.errors import JournalError
from lifesafe.journal import events as e
from lifesafe.journal.store import Record
from lifesafe.operation.operation import Operation
from lifesafe.safety import SafeOptimizer


def replay(records: Sequence[Record]) -> SafeOptimizer:
    """Return the optimizer in the state that records lead to; every decision of search and operation is made again.

    Raises:
        JournalError: If a decision differs from the recorded one, or a snapshot from what it sums up.
    """
    return SafeOptimizer.replay(records, _check)


def _check(optimizer: SafeOptimizer, record: Record) -> None:
    """Refuse an event of operation that does not follow from those before it."""
    match record.event:
        case e.Serving() as serving:
            follows, what = _is_due(Operation(optimizer), optimizer, serving), "the target that is served"
        case e.Alarm() as alarm:
            follows, what = _is_raised(Operation(optimizer), alarm), "the alarm"
        case e.Halted():
            operation = Operation(optimizer)
            follows, what = operation.must_fall_back and operation.rung is None, "the halt"
        case e.Snapshot() as snapshot:
            watch = Operation(optimizer).watch
            silent = watch is not None and watch.alarm is None
            follows, what = silent and watch.to_plain() == snapshot.watch, "the watch of the snapshot"  # type: ignore[union-attr]
        case _:
            return
    if not follows:
        raise JournalError(
            f"Event {record.number}: {what} does not follow from what was recorded before it. The record was changed,"
            " or another version of lifesafe decided."
        )


def _is_due(operation: Operation, optimizer: SafeOptimizer, serving: e.Serving) -> bool:
    """Whether a target is the one to fall back to after an alarm, else the best one."""
    if operation.must_fall_back:
        found, rung = operation.rung, optimizer.history.services[-1].serving.rung + 1
    else:
        found, rung = optimizer.best, 0
    limits = optimizer.problem.limits
    return found is not None and (found.point, rung, limits) == (serving.target, serving.rung, serving.limits)


def _is_raised(operation: Operation, alarm: e.Alarm) -> bool:
    """Whether the watch over what is served raises an alarm."""
    found = None if operation.watch is None else operation.watch.alarm
    if found is None:
        return False
    return (found.rule, found.cost, found.episode) == (alarm.rule, alarm.cost, alarm.episode)
