"""A file that nobody vouches for does no harm."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lifesafe.data import read_dsrl
from lifesafe.data.check import Finding, check, check_in_child
from lifesafe.errors import DatasetError
from lifesafe.systems import Task
from logged import circling, hdf5

TASK = Task(name="Circling", make="x:y", observations=4, actions=2, horizon=50, limits=(8.0,), largest_costs=(0.5,))


def test_the_child_finds_what_the_parent_would(tmp_path: Path) -> None:
    path = tmp_path / "logs.hdf5"
    path.write_bytes(hdf5(circling()))
    assert check_in_child(path, task=TASK) == check(path, task=TASK)
    assert check_in_child(path, limits=(3.0,)) == check(path, limits=(3.0,))
    assert any(finding.code == "large-cost" for finding in check(path, task=TASK))


@pytest.mark.parametrize(
    ("fate", "words"),
    [
        ("kill -SEGV $$", "it crashes the HDF5 library (SIGSEGV), so it is damaged"),
        ("kill -KILL $$", "the system killed the check, probably for want of memory"),
        ("kill -XCPU $$", "it took more than 10 minutes"),
        ("echo 'MemoryError: x' >&2; exit 1", "there is not enough memory for it"),
        ("echo 'numpy._core._exceptions._ArrayMemoryError: x' >&2; exit 1", "there is not enough memory for it"),
        ("printf 'Traceback\\nSomeError: odd\\n' >&2; exit 1", "SomeError: odd"),
    ],
)
def test_the_end_of_a_child_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: str, words: str
) -> None:
    """Let a child meet its end for real, in the place of the interpreter."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ncat > /dev/null\nulimit -c 0\n{fate}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    (finding,) = check_in_child("x.hdf5")
    assert (finding.severity, finding.code) == ("error", "unreadable")
    assert finding.message == f"x.hdf5 cannot be checked: {words}."


def only(findings: list[Finding]) -> Finding:
    assert [finding.code for finding in findings] == ["unreadable"]
    return findings[0]


def test_what_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"text\n" * 1000)
    assert "is not an HDF5 file" in only(check(tmp_path / "text")).message
    assert "is not a file" in only(check(tmp_path / "nowhere")).message


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """Return the content cut off, or with some bytes wrong, more often in the part that describes the rest."""
    data = bytearray(content)
    if random.random() < 0.2:
        return bytes(data[: random.integers(len(data))])
    for _ in range(random.integers(1, 5)):
        place = int(random.integers(min(len(data), 3000) if random.random() < 0.5 else len(data)))
        width = int(random.choice([1, 1, 1, 4, 8, 64]))
        data[place : place + width] = random.integers(
            256, size=len(data[place : place + width]), dtype=np.uint8
        ).tobytes()
    return bytes(data)


def fuzz(path: Path, seed: int, rounds: int) -> set[str]:
    """Check damaged files in a forked child each, and return how those ended."""
    random = np.random.default_rng(seed)
    columns = circling(episodes=4, steps=15)
    files = [hdf5(columns), hdf5(columns, compression="gzip"), hdf5(columns, chunks=True, fletcher32=True)]
    endings = set()
    for round_ in range(rounds):
        path.write_bytes(damaged(files[round_ % len(files)], random))
        process = os.fork()
        if not process:
            try:
                findings = check(path, limits=8.0)
                with suppress(DatasetError):  # and nothing else
                    read_dsrl(path)
                os._exit(0 if all(finding.message for finding in findings) else 3)
            except BaseException:
                os._exit(4)
        _, status = os.waitpid(process, 0)
        endings.add("raised" if status and os.WIFEXITED(status) else "crashed" if status else "found")
    return endings


def test_damaged_files_raise_nothing(tmp_path: Path) -> None:
    assert "raised" not in fuzz(tmp_path / "x.hdf5", seed=0, rounds=200)


def test_a_file_cut_off_anywhere_is_unreadable(tmp_path: Path) -> None:
    content = hdf5(circling(episodes=2, steps=10), compression="gzip")
    path = tmp_path / "x.hdf5"
    for length in range(0, len(content), max(1, len(content) // 200)):
        path.write_bytes(content[:length])
        only(check(path))
