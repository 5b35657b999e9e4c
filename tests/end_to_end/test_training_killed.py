"""Killed at any moment, a training goes on as if nothing had happened."""

import csv
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from killing import KILLED, Server, serving
from small_methods import METHODS

EVENTS = 4700  # about as many as a whole life has in the code that writes files


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("end_to_end/training_server.py") as server:
        yield server


def outcome(directory: Path) -> dict[str, object]:
    """Return all that must not depend on having been killed."""
    with (directory / "training" / "log.csv").open(newline="") as stream:
        rows = [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(stream)]
    policy = {path.name: path.read_bytes() for path in (directory / "policy").iterdir()}
    state = {path.name: path.read_bytes() for path in (directory / "training").glob("state-*")}
    left_over = [path.name for path in directory.rglob("*") if path.suffix in (".tmp", ".unfinished")]
    return {"log": rows, "policy": policy, "state": state, "left over": left_over}


def run_with_kills(server: Server, place: Path, method: str, chance: random.Random, kills: int) -> dict[str, int]:
    """Kill a training so often, or until it is done; compare its end with one left in peace; return kills by kind."""
    died = {"timer": 0, "write": 0}
    start = time.perf_counter()
    assert server.life(place / "whole", method) == 0
    lasts = time.perf_counter() - start  # a timer beyond the end would kill nothing
    code = KILLED
    while code != 0:
        kind = chance.choice(["timer", "write", "write"]) if sum(died.values()) < kills else "none"
        moment = chance.uniform(0, lasts / 2) if kind == "timer" else chance.uniform(1, EVENTS / 2)
        code = server.life(place / "run", method, kind=kind, moment=moment)
        assert code in (0, KILLED)
        if code == KILLED:
            died[kind] += 1
    assert outcome(place / "run") == outcome(place / "whole")
    return died


@pytest.mark.parametrize("method", ["cdt", "rvs"])
def test_a_training_killed_at_random_moments_ends_the_same(server: Server, tmp_path: Path, method: str) -> None:
    chance, died = random.Random(0), {"timer": 0, "write": 0}
    for run in range(3):
        for kind, count in run_with_kills(server, tmp_path / str(run), method, chance, kills=5).items():
            died[kind] += count
    assert min(died.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_training_killed_all_along_its_writing_ends_the_same(server: Server, tmp_path: Path, method: str) -> None:
    assert server.life(tmp_path / "whole", method) == 0
    expected, moment, code = outcome(tmp_path / "whole"), 0, KILLED
    # Of some thousands of moments. What writes is the same for all methods, what is written is not.
    stride = 31 if method == "cdt" else 199
    while code == KILLED:
        moment += stride
        directory = tmp_path / str(moment)
        code = server.life(directory, method, kind="write", moment=moment)
        assert server.life(directory, method) == 0
        assert outcome(directory) == expected
    assert moment > 1000
