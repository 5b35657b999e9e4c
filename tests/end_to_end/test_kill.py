"""Killed at any moment, a run goes on as if nothing had happened."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killing import KILLED, Server, serving
from lifesafe.optimizer.journal import Event, read_events

# Latest moments of each kind (seconds, calls, statements), so early that most runs are killed several times.
MOMENTS = {"timer": 0.1, "open": 8_000, "call": 12_000, "sql": 30}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("end_to_end/kill_server.py") as server:
        yield server


def events_of(place: Path) -> tuple[Event, ...]:
    path = place / "journal.sqlite"
    return read_events(path) if path.exists() else ()


def numbers(events: tuple[Event, ...], kind: str) -> dict[int, dict[str, Any]]:
    return {event.body["trial"]: event.body for event in events if event.kind == kind}


def lines_of(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def check_life(before: tuple[Event, ...], after: tuple[Event, ...], lines: list[list[str]]) -> None:
    """Check one life, given the journal before and after it and what it acknowledged."""
    assert after[: len(before)] == before
    asked, told = numbers(after, "asked"), numbers(after, "told")
    durable = numbers(before, "told")
    for word, number, *index in lines:
        trial = int(number)
        if word == "asked":
            assert asked[trial]["index"] == int(index[0])
        elif word == "told":
            assert trial in told  # nothing is lost
        elif word == "evaluated":
            assert trial not in durable  # nothing is evaluated twice
    was_open = [n for n in numbers(before, "asked") if n not in durable]
    resumed = [line for line in lines if line[0] in ("open", "asked")]
    if was_open and resumed:
        assert [int(v) for v in resumed[0][1:]] == [was_open[0], asked[was_open[0]]["index"]]


def run_with_kills(server: Server, place: Path, chance: random.Random, kills: int, seed: int) -> dict[str, int]:
    """Kill a run so often, or until it is done; check each life and the end; return the kills by kind."""
    died = dict.fromkeys(MOMENTS, 0)
    place.mkdir()
    whole, log = place / "whole", place / "log"
    start = time.perf_counter()
    assert server.life(whole, place / "log-whole", seed) == 0
    lasts = time.perf_counter() - start  # a timer beyond the end of the run would kill nothing
    finished = False
    while not finished:
        kind = chance.choice(list(MOMENTS)) if sum(died.values()) < kills else "none"
        top = MOMENTS.get(kind, 0)
        moment = chance.uniform(0, min(top, lasts)) if kind == "timer" else chance.uniform(1, max(top, 1))
        before, seen = events_of(place / "run"), len(lines_of(log))
        code = server.life(place / "run", log, seed, kind=kind, moment=moment)
        check_life(before, events_of(place / "run"), lines_of(log)[seen:])
        finished = code == 0
        if not finished:
            assert code == KILLED
            died[kind] += 1
    ours, theirs = events_of(place / "run"), events_of(whole)
    assert [(e.number, e.kind, e.body) for e in ours] == [(e.number, e.kind, e.body) for e in theirs]
    assert len(numbers(ours, "told")) == 7
    return died


def kill(server: Server, tmp_path: Path, seed: int, kills: int) -> dict[str, int]:
    chance, total = random.Random(seed), dict.fromkeys(MOMENTS, 0)
    for run in range(kills):  # enough, were each run killed but once
        left = kills - sum(total.values())
        if not left:
            break
        for kind, count in run_with_kills(server, tmp_path / str(run), chance, left, seed + run).items():
            total[kind] += count
    return total


def test_a_run_killed_at_200_moments_loses_nothing_and_evaluates_nothing_twice(server: Server, tmp_path: Path) -> None:
    died = kill(server, tmp_path, seed=1, kills=200)
    assert sum(died.values()) == 200
    assert min(died.values()) > 5  # of every kind; how many a timer hits depends on the machine


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_more_moments(server: Server, tmp_path: Path, seed: int) -> None:
    assert sum(kill(server, tmp_path, seed=seed, kills=200).values()) == 200
