"""Operates a run while it is killed at random moments, and checks that nothing is lost and nothing counted twice.

    .venv/bin/python benchmarks/soak.py                                  # 10^6 episodes, 1000 kills: about 20 minutes
    .venv/bin/python benchmarks/soak.py --episodes 2000 --kills 15

A child process opens the run, operates it batch by batch, and acknowledges every batch over a pipe once `tell` has
returned. It is killed with SIGKILL after a random number of batches and a random moment more. Then the next child opens
the run. What a batch returns is a function of how many episodes came before it, so the end is known beforehand:

    lost           after a kill the record holds every acknowledged batch, and at most one more
    counted twice  the sums at the end are those of every episode once, bit for bit
    verified       the whole chain is read at the end, and every decision and snapshot is made again

`main` prints a line now and then: time to open the run, memory of the child, size of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lifesafe.journal import JOURNAL, read_records
from lifesafe.operation import Operation, replay
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer

RESULT = Path(__file__).parent / "results" / "soak.json"
LIMIT, STOP = 20.0, 60.0
_LATER, _LONG = 0.004, 0.03  # seconds: more than a batch takes, so a kill may come at any moment of it; than opening
_OPENING = 0.1  # share of the kills that come while the run is opened


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What a soak has shown."""

    episodes: int
    batch: int
    kills: int
    kills_inside: int
    """Kills after which the record held a batch that had not been acknowledged."""
    lost: int
    """Batches that were acknowledged and not found again."""
    twice: int
    """Episodes by which the record differs from what was run."""
    opened: float
    """Median time to open the run over the last tenth of the children, seconds."""
    opened_first: float
    """The same over the first tenth."""
    opened_most: float
    """Longest time to open the run."""
    memory_first: float
    """Memory of a child at the end of its life, over the first tenth of the children, MB."""
    memory: float
    """The same over the last tenth."""
    size: float
    """Size of the record at the end, MB."""
    replayed: float
    """Time to read the whole record and make every decision and snapshot again, seconds."""
    took: float
    """Time of the whole soak, seconds."""


def begin(place: Path) -> None:
    """Search until a target may be operated, and begin to operate it."""
    axes = {"reward": (0, 500), "cost": (0, 60)}
    problem = Problem(axes=axes, starts=[Returns(200, 2)], limits=LIMIT, stop_at=STOP, promise="total", episodes=60)
    with SafeOptimizer.open(place, problem) as optimizer:
        while (trial := optimizer.ask()) is not None:
            optimizer.tell(trial, [Returns(200 + i, i % 5) for i in range(trial.episodes)])
        assert Operation(optimizer).begin() is not None


def batch(first: int, count: int) -> list[Returns]:
    """Return what the episodes from number `first` on return: few cost more than the limit, and all are exact sums."""
    numbers = range(first, first + count)
    return [Returns(float(200 + i * 37 % 101), float(i * 7919 % 13) + 40.0 * (i % 50 == 7)) for i in numbers]


def operate(place: Path, size: int, episodes: int, line: int) -> None:
    """Operate a run up to so many episodes, and write to a pipe what is known to be on disk."""
    start = time.perf_counter()
    with SafeOptimizer.open(place) as optimizer:
        operation = Operation(optimizer)
        _say(line, opened=time.perf_counter() - start, found=operation.episodes)
        while (had := operation.episodes) < episodes:
            verdict = operation.tell(batch(had, min(size, episodes - had)))
            assert verdict.alarm is None
            _say(line, told=operation.episodes, memory=_memory())


def _say(line: int, **what: float) -> None:
    os.write(line, (json.dumps(what) + "\n").encode())


def _memory() -> float:
    """Return the memory of this process that is in use, MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Life:
    """What a child has acknowledged."""

    opened: float = 0.0
    found: int = -1
    told: int = -1
    memory: float = 0.0


def live(place: Path, size: int, episodes: int, batches: int | None, later: float) -> Life:
    """Let a child operate, and kill it after so many batches and a moment more; with None, let it finish."""
    reader, writer = os.pipe()
    child = os.fork()  # from a process that has done the imports: a thousand starts of Python would take longer
    if child == 0:
        os.close(reader)
        code = 1
        try:
            operate(place, size, episodes, writer)
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.close(writer)
    life, said = Life(), 0
    if batches == 0:  # while it opens the run
        time.sleep(later)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader, encoding="ascii") as lines:
        for text in lines:
            life.__dict__ |= json.loads(text)
            said += 1
            if said == batches:
                time.sleep(later)
                os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"A child ended with code {code}; see above.")
    return life


def soak(place: Path, *, episodes: int, kills: int, size: int, seed: int = 0, quiet: bool = False) -> Soaked:
    """Operate a run in children that are killed, and return what was found."""
    begin(place)
    start, chance, lives, lost, inside, killed = time.perf_counter(), random.Random(seed), [], 0, 0, 0
    known = 0  # episodes that are known to be on disk
    while True:
        left = kills - killed
        mean = max((episodes - known) // size // (left + 1), 1)
        opening = chance.random() < _OPENING
        batches = None if left <= 0 else 0 if opening else chance.randint(1, 2 * mean)
        life = live(place, size, episodes, batches, chance.uniform(0.0, _LONG if opening else _LATER))
        lives.append(life)
        if life.found >= 0:
            lost += life.found < known
            inside += known < life.found <= known + size
            assert life.found <= known + size, f"found {life.found} after {known} were acknowledged"
            known = max(life.found, life.told)
        if batches is None:
            break
        killed += 1
        if not quiet and killed % max(kills // 20, 1) == 0:
            file = (place / JOURNAL).stat().st_size / 1e6
            took = time.perf_counter() - start
            print(
                f"{killed} kills, {known} episodes: opened in {1e3 * life.opened:.1f} ms, {life.memory:.1f} MB in"
                f" memory, {file:.1f} MB on disk, {took:.0f} s",
                flush=True,
            )
    return _judged(place, lives, episodes, size, killed, inside, lost, time.perf_counter() - start)


def _judged(
    place: Path, lives: list[Life], episodes: int, size: int, killed: int, inside: int, lost: int, took: float
) -> Soaked:
    start = time.perf_counter()
    optimizer = replay(read_records(place / JOURNAL))
    replayed = time.perf_counter() - start
    history = optimizer.history
    expected = np.zeros(2)
    for episode in batch(0, episodes):
        expected += np.array(tuple(episode))
    found = sum((service.sums for service in history.services), np.zeros(2))
    same = history.served == episodes and len(history.services) == 1 and bool((found == expected).all())
    tenth = max(len(lives) // 10, 1)
    opened = [life.opened for life in lives if life.found >= 0]
    memory = [life.memory for life in lives if life.memory]
    return Soaked(
        episodes=history.served,
        batch=size,
        kills=killed,
        kills_inside=inside,
        lost=lost,
        twice=0 if same else abs(history.served - episodes) or 1,
        opened=float(np.median(opened[-tenth:])),
        opened_first=float(np.median(opened[:tenth])),
        opened_most=max(opened),
        memory_first=float(np.median(memory[:tenth])),
        memory=float(np.median(memory[-tenth:])),
        size=(place / JOURNAL).stat().st_size / 1e6,
        replayed=replayed,
        took=took,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10**6)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = soak(Path(directory) / "run", episodes=given.episodes, kills=given.kills, size=given.batch)
    text = json.dumps(asdict(found), indent=2)
    print(text)
    given.output.write_text(text + "\n", encoding="utf-8")
    if found.lost or found.twice:
        raise SystemExit("Episodes were lost or counted twice.")


if __name__ == "__main__":
    main()
