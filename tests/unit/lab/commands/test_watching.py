"""A suite under way on the screen: lines for what happens, and how far the running jobs are."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lifesafe.lab.benchmark.runner import Event, job_directory
from lifesafe.lab.benchmark.status import Reporter
from lifesafe.lab.benchmark.suite import Grid, Suite
from lifesafe.lab.commands.watching import watched

FIRST, SECOND = Suite(
    "made-up", Grid(tasks=("PointCircle",), methods=("bc-all", "pls"), limits=(20.0,), seeds=1), {}
).jobs()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A suite whose second job is at its training, and whose first tells nothing here."""
    job_directory(tmp_path, SECOND).mkdir(parents=True)
    Reporter(job_directory(tmp_path, SECOND))("training", 300, 1000)
    return tmp_path


def until(wanted: str, read: Callable[[], str]) -> str:
    """Return what has been shown once it holds some text."""
    seen, deadline = "", time.monotonic() + 60
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)
        seen += read()
    return seen


def test_without_a_terminal_running_jobs_are_told_of_now_and_then(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with watched(directory, line_seconds=0.05) as progress:
        progress(Event(FIRST, "found", 1, 2))
        progress(Event(SECOND, "begun", 1, 2))
        seen = until("300 of 1000", lambda: capsys.readouterr().err)
        progress(Event(SECOND, "failed", 1, 2, reason="DatasetError: [no] data"))
    seen += capsys.readouterr().err
    assert f"[1/2] {FIRST.name} done before\n[1/2] {SECOND.name} begun\n{SECOND.name}: training, 300 of 1000\n" in seen
    assert f"[1/2] {SECOND.name} FAILED: DatasetError: [no] data\n" in seen
    assert f"{FIRST.name}:" not in seen


def test_on_a_terminal_every_running_job_has_a_bar(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    with watched(directory) as progress:
        progress(Event(FIRST, "begun", 0, 2))
        progress(Event(SECOND, "begun", 0, 2))
        seen = until(f"{SECOND.name}: training", lambda: capsys.readouterr().err)
        assert "300/1000" in seen
        assert FIRST.name in seen
        progress(Event(SECOND, "done", 1, 2))
    assert f"[1/2] {SECOND.name} done" in capsys.readouterr().err


def test_a_short_suite_is_not_held_up(tmp_path: Path) -> None:
    with watched(tmp_path, line_seconds=3600.0) as progress:
        progress(Event(FIRST, "begun", 0, 1))


def test_an_error_comes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), watched(tmp_path):
        raise KeyboardInterrupt
