"""Killed at any moment of training, search or operation, a life goes on as if nothing had happened."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from killing import KILLED, Server, serving
from lifesafe.journal import JOURNAL, read_records
from lifesafe.safety import SafeOptimizer

CALLS = {"trial": 315_000, "total": 535_000}  # about as many as a whole life has


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("end_to_end/life_server.py") as server:
        yield server


def outcome(directory: Path) -> dict[str, object]:
    """Return all that must not depend on having been killed."""
    policy = {path.name: path.read_bytes() for path in (directory / "policy").iterdir()}
    records = read_records(directory / JOURNAL)
    SafeOptimizer.replay(records)
    return {"policy": policy, "events": [(record.number, record.event) for record in records]}


def run_with_kills(server: Server, place: Path, promised: str, chance: random.Random, kills: int) -> dict[str, int]:
    """Kill a life so often, or until it is done; compare its end with one left in peace; return kills by kind.

    Every attempt is killed within its first 2 / kills of a whole life, so about half of the kills come in any case.
    """
    died = {"timer": 0, "call": 0}
    start = time.perf_counter()
    assert server.life(place / "whole", promised) == 0
    lasts = time.perf_counter() - start
    code = KILLED
    while code != 0:
        kind = chance.choice(["timer", "call"]) if sum(died.values()) < kills else "none"
        moment = chance.uniform(0, 2 / kills) * (lasts if kind == "timer" else CALLS[promised])
        code = server.life(place / "run", promised, kind=kind, moment=moment)
        assert code in (0, KILLED)
        if code == KILLED:
            died[kind] += 1
    assert outcome(place / "run") == outcome(place / "whole")
    return died


@pytest.mark.parametrize("promised", CALLS)
def test_a_life_killed_at_random_moments_ends_the_same(server: Server, tmp_path: Path, promised: str) -> None:
    assert sum(run_with_kills(server, tmp_path, promised, random.Random(0), kills=5).values()) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("promised", CALLS)
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_lives_killed_more_often_end_the_same(server: Server, tmp_path: Path, promised: str, seed: int) -> None:
    assert sum(run_with_kills(server, tmp_path, promised, random.Random(seed), kills=20).values()) >= 4
