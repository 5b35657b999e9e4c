"""Killed at any moment, a training goes on as if nothing had happened."""

import csv
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from small_methods import METHODS

TESTS = Path(__file__).parent.parent
EVENTS = 4700  # about as many as a whole life has in the code that writes files
KILLED = -signal.SIGKILL


class Server:
    """Starts lives of a training in forked children; see training_server.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._in, self._out = process.stdin, process.stdout

    def life(self, directory: Path, method: str, kind: str = "none", moment: float = 0) -> int:
        """Run one life and return its exit code."""
        assert self._in is not None
        assert self._out is not None
        whole = 0 if kind == "timer" else int(moment)
        print(directory, method, kind, whole, sep="\t", file=self._in, flush=True)
        process = int(self._out.readline())
        if kind == "timer":
            time.sleep(moment)
            with suppress(ProcessLookupError):  # if it has ended by itself
                os.kill(process, signal.SIGKILL)
        return int(self._out.readline())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TESTS / "end_to_end" / "training_server.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0


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
        code = server.life(place / "run", method, kind, moment)
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
    while code == KILLED:
        moment += 31  # of some thousands
        directory = tmp_path / str(moment)
        code = server.life(directory, method, "write", moment)
        assert server.life(directory, method) == 0
        assert outcome(directory) == expected
    assert moment > 1000
