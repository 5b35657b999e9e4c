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


def test_an_external_system_is_asked_told_and_operated_and_its_journal_read(tmp_path: Path) -> None:
    assert "Recommendation(target=Returns(" in run("external_system.py", tmp_path)
    told = run("read_journal.py", tmp_path, "runs/machine")
    assert "  1 seed " in told
    assert " 30 maximize" in told
    assert "\nserving " in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quick_start.py", "custom_task.py"])
def test_a_policy_is_trained_and_a_target_found(name: str, tmp_path: Path) -> None:
    assert "Recommendation(target=Returns(" in run(name, tmp_path)


def test_every_example_is_run_here() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert names == {"quick_start.py", "external_system.py", "custom_task.py", "read_journal.py"}
