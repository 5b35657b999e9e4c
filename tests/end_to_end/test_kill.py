"""Killed at any moment, a search and its operation go on as if nothing had happened."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killing import KILLED, Server, serving
from lifesafe.journal import JOURNAL, Record, read_records
from lifesafe.journal import events as e
from lifesafe.operation import Operation
from lifesafe.safety import SafeOptimizer
from properties.runs import visible

# Latest moments of each kind (seconds, calls, statements), so early that most runs are killed several times.
MOMENTS = {"timer": 0.3, "open": 100_000, "call": 30_000, "sql": 60}
PROMISES = ["trial", "trial with a stop", "total"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("end_to_end/kill_server.py") as server:
        yield server


def records_of(place: Path) -> list[Record]:
    """Return the record, whose chain is verified."""
    path = place / JOURNAL
    return read_records(path) if path.exists() else []


def facts(records: list[Record]) -> list[e.Event]:
    """Return what happened; a snapshot adds nothing, and comes later if one was due at a kill."""
    return [record.event for record in records if not isinstance(record.event, e.Snapshot)]


def told(records: list[Record]) -> set[int]:
    return {record.event.trial for record in records if isinstance(record.event, e.Told)}


def served(records: list[Record]) -> int:
    return sum(len(record.event.episodes) for record in records if isinstance(record.event, e.Served))


def lines_of(log: Path) -> list[tuple[str, int]]:
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(word, int(number)) for word, number in lines]


def check_life(before: list[Record], after: list[Record], lines: list[tuple[str, int]]) -> None:
    """Check one life, given the record before and after it and what it acknowledged."""
    assert after[: len(before)] == before
    asked = {record.event.trial for record in after if isinstance(record.event, e.Asked)}
    open_before = {record.event.trial for record in before if isinstance(record.event, e.Asked)} - told(before)
    for word, number in lines:
        if word == "asked":
            assert number in asked
        elif word == "told":
            assert number in told(after)  # nothing is lost
        elif word == "evaluated":
            assert number not in told(before)  # nothing is evaluated twice once it was told
        elif word == "served":
            assert served(before) <= number < served(after)  # nothing is lost, and nothing is counted twice
    resumed = [number for word, number in lines if word == "asked"]
    if open_before and resumed:
        assert {resumed[0]} == open_before


def run_with_kills(
    server: Server, place: Path, promised: str, chance: random.Random, kills: int, seed: int
) -> dict[str, int]:
    """Kill a run so often, or until it is done; check each life and the end; return the kills by kind."""
    died = dict.fromkeys(MOMENTS, 0)
    place.mkdir()
    whole, log = place / "whole", place / "log"
    start = time.perf_counter()
    assert server.life(whole, place / "log-whole", promised, seed) == 0
    lasts = time.perf_counter() - start  # a timer beyond the end of the run would kill nothing
    finished = False
    while not finished:
        kind = chance.choice(list(MOMENTS)) if sum(died.values()) < kills else "none"
        top = MOMENTS.get(kind, 0)
        moment = chance.uniform(0, min(top, lasts)) if kind == "timer" else chance.uniform(1, max(top, 1))
        before, seen = records_of(place / "run"), len(lines_of(log))
        code = server.life(place / "run", log, promised, seed, kind=kind, moment=moment)
        check_life(before, records_of(place / "run"), lines_of(log)[seen:])
        finished = code == 0
        if not finished:
            assert code == KILLED
            died[kind] += 1
    compare(place / "run", whole)
    return died


def compare(ours: Path, whole: Path) -> None:
    """Check that a run came to what one left in peace came to, in the record and in memory."""
    assert facts(records_of(ours)) == facts(records_of(whole))
    replayed = SafeOptimizer.replay(records_of(ours))
    with SafeOptimizer.open(ours) as opened, SafeOptimizer.open(whole) as other:
        assert visible(opened) == visible(replayed)
        assert outcome(opened) == outcome(other)
        assert opened.history.served == served(records_of(ours)) > 1000
        assert Operation(opened).watch == Operation(other).watch


def outcome(optimizer: SafeOptimizer) -> dict[str, Any]:
    """Return all that can be seen, but for the numbers of events, which count snapshots."""
    seen = visible(optimizer)
    *ledger, withdrawn = seen["ledger"]
    return seen | {"ledger": (*ledger, set(withdrawn))}


def kill(server: Server, tmp_path: Path, promised: str, seed: int, kills: int) -> dict[str, int]:
    chance, total = random.Random(seed), dict.fromkeys(MOMENTS, 0)
    for run in range(kills):  # enough, were each run killed but once
        left = kills - sum(total.values())
        if not left:
            break
        found = run_with_kills(server, tmp_path / str(run), promised, chance, left, seed + run)
        for kind, count in found.items():
            total[kind] += count
    return total


@pytest.mark.parametrize("promised", PROMISES)
def test_a_run_killed_at_random_moments_loses_nothing_and_counts_nothing_twice(
    server: Server, tmp_path: Path, promised: str
) -> None:
    died = kill(server, tmp_path, promised, seed=1, kills=15)
    assert sum(died.values()) == 15
    assert min(died.values()) > 0  # of every kind; how many a timer hits depends on the machine


@pytest.mark.slow
@pytest.mark.parametrize("promised", PROMISES)
@pytest.mark.parametrize("seed", range(100, 105))
def test_more_moments(server: Server, tmp_path: Path, promised: str, seed: int) -> None:
    assert sum(kill(server, tmp_path, promised, seed=seed, kills=200).values()) == 200
