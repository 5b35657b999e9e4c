"""Garbage through every door of a search: an error of ours or none, and nothing recorded that was refused."""

import copy
import math
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import JournalError, LifesafeError
from lifesafe.journal import JOURNAL, read_records
from lifesafe.operation import Operation, replay
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from properties.runs import advance, system

NUMBERS = [
    0, 1, -1, 0.0, -0.0, 1e-320, 1e-30, 1e-9, 0.1, 1.5, 3, 20, 59.9, 60, 1e6, 1e29, 1e31, 1e100, 1e150, 1e308, -1e308,
    math.inf, -math.inf, math.nan, 2**63, 10**400, True, False, np.float32(3.5), np.int64(7),
]  # fmt: skip
WORDS = ["", "x", "reward", "cost", "horizon", "trial", "total", "20", "nan", "\ud800", "\x00", "a" * 10_000]
OTHERS: list[Any] = [None, [], (), {}, set(), object(), b"x", Returns(1.0, 2.0), Returns(1.0, (2.0, 3.0)), np.ones(3)]


def garbage(rng: np.random.Generator, depth: int = 2) -> Any:
    """Return a number, a word, something else, or a list or dict of such."""
    kind = rng.random()
    if kind < 0.5 or depth == 0:
        return NUMBERS[rng.integers(len(NUMBERS))]
    if kind < 0.65:
        return WORDS[rng.integers(len(WORDS))]
    if kind < 0.8:
        return copy.copy(OTHERS[rng.integers(len(OTHERS))])
    many = [garbage(rng, depth - 1) for _ in range(rng.integers(1, 4))]
    if kind < 0.9:
        return many if rng.random() < 0.5 else tuple(many)
    return {WORDS[rng.integers(len(WORDS))]: each for each in many}


def problems(rng: np.random.Generator, _: Path) -> None:
    """Make a problem some of whose fields are garbage, and ask once if it can be made."""
    settings: dict[str, Any] = {
        "axes": {"reward": (0, 500), "cost": (0, 60)}, "starts": [Returns(200, 2)], "limits": 20.0,
    }  # fmt: skip
    names = [
        *settings, "delta", "promise", "stop_at", "largest_step", "incident", "largest", "rewards", "targets",
        "episodes", "seed",
    ]  # fmt: skip
    for name in rng.choice(names, rng.integers(1, 4), replace=False):
        settings[name] = garbage(rng)
    try:
        problem = Problem(**settings)
    except LifesafeError:
        return
    again = Problem.from_plain(problem.to_plain())
    assert again.fingerprint == problem.fingerprint
    if rng.random() < 0.02:
        try:
            SafeOptimizer(problem).ask()
        except LifesafeError:
            return


class Door:
    """A search on disk, and what garbage is put into."""

    def __init__(self, directory: Path, promise: str) -> None:
        self.plant = system(1, promise=promise, stop_at=40.0, episodes=200)
        self.optimizer = SafeOptimizer.open(directory, self.plant.problem)
        advance(self.optimizer, self.plant, np.random.default_rng(0), 6)
        self.trial = self.optimizer.ask()
        self.journal = directory / JOURNAL

    def put(self, rng: np.random.Generator) -> None:
        """Put one piece of garbage somewhere; where it is refused, nothing may be recorded."""
        before, value = self.optimizer._count, garbage(rng)
        rows = [garbage(rng, 1) for _ in range(rng.integers(1, 12))]
        doors: list[Callable[[], Any]] = [
            lambda: self.optimizer.tell(self.trial, value),
            lambda: self.optimizer.tell(self.trial, rows),
            lambda: self.optimizer.tell(value, [Returns(1.0, 1.0)]),
            lambda: self.optimizer.retract(value, garbage(rng), garbage(rng)),
            lambda: self.optimizer.retract(1, "why", garbage(rng)),
            lambda: self.optimizer.confirm(value),
            lambda: self.optimizer.change_limits(value, garbage(rng)),
            lambda: self.optimizer.ends_early(self.trial, value),
            lambda: Operation(self.optimizer).tell(value),
            lambda: Operation(self.optimizer, value),
            lambda: self.optimizer.problem.point(value),
        ]
        try:
            doors[rng.integers(len(doors))]()
        except LifesafeError:
            assert self.optimizer._count == before
            return
        if self.optimizer._count != before:  # it was no garbage after all: go on from there
            self.trial = self.optimizer.ask()

    def check(self) -> None:
        """Check that the record is whole and leads to what is in memory."""
        assert len(read_records(self.journal)) == self.optimizer._count
        replay(read_records(self.journal))


def files(rng: np.random.Generator, whole: Path, spoiled: Path) -> None:
    """Change some bytes of a journal: it is refused, or what is read is what was recorded."""
    content = bytearray(whole.read_bytes())
    for _ in range(rng.integers(1, 4)):
        i = int(rng.integers(len(content)))
        content[i] ^= 1 << int(rng.integers(8))
    if rng.random() < 0.2:
        content = content[: rng.integers(len(content))]
    spoiled.write_bytes(content)
    try:
        found = read_records(spoiled)
    except JournalError:
        return
    assert [record.hash for record in found] == [record.hash for record in read_records(whole)]


def let_in(count: int, directory: Path, seed: int) -> None:
    """Put so much garbage through all doors, a third each through problem, search and journal."""
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count // 3):
            problems(rng, directory)
        for promise in ("trial", "total"):
            door = Door(directory / promise, promise)
            for _ in range(count // 6):
                door.put(rng)
            door.check()
            door.optimizer.close()
        whole = directory / "trial" / JOURNAL
        with closing(sqlite3.connect(whole)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for _ in range(count // 3):
            files(rng, whole, directory / "spoiled.sqlite")


def test_garbage_is_refused_in_our_words_and_records_nothing(tmp_path: Path) -> None:
    let_in(1500, tmp_path, seed=0)


@pytest.mark.slow
def test_a_hundred_thousand_pieces_of_garbage_are_refused(tmp_path: Path) -> None:
    let_in(100_000, tmp_path, seed=1)
