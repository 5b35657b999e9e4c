"""The example scripts run as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, place: Path, *arguments: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("promise", "stages"), [("trial", ("start", "search")), ("total", ("start", "newcomer"))])
def test_an_external_system_is_asked_told_and_operated_and_its_journal_read(
    promise: str, stages: tuple[str, ...], tmp_path: Path
) -> None:
    assert "target=Returns(" in run("external_system.py", tmp_path, promise)
    told = run("read_journal.py", tmp_path, f"runs/machine-{promise}")
    assert "  1 start " in told
    assert all(f" {stage} " in told for stage in stages)
    assert "\nserved: " in told


@pytest.mark.slow
def test_a_task_of_ones_own_goes_through_a_whole_life(tmp_path: Path) -> None:
    told = run("custom_task.py", tmp_path)
    assert "target=Returns(" in told
    assert "\noperated: Returns(" in told


def test_every_example_is_run_here_or_in_test_nano() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names - {"nano.py"} == {"external_system.py", "custom_task.py", "read_journal.py"}
