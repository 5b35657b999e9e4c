"""A run that operates and is killed at random moments loses nothing and counts nothing twice: benchmarks/soak.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow  # dozens of kills
def test_a_run_that_is_killed_again_and_again_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    output = tmp_path / "soak.json"
    command = [sys.executable, str(SOAK), "--episodes", "2000", "--kills", "30", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert (found["episodes"], found["kills"], found["lost"], found["twice"]) == (2000, 30, 0, 0)
