"""Every kind of task through the shell: killed, moved, run on, operated and searched on by its directory alone."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import own_machine
from lifesafe.cli import main
from lifesafe.data.dsrl import write_dsrl
from lifesafe.journal import JOURNAL, read_records
from lifesafe.journal.events import Served

SMALL = ["--method", "rvs", "--set", "steps=300", "--set", "width=32", "--set", "dropout=0.0", "--set", "held_out=0.0"]
BELT = ["--env", own_machine.ID, "--data", "belt.hdf5", "--limit", "5"]
KINDS = {
    "registered": ["PointCircle", "--set", "steps=500", "--seed", "2", "--stop-at", "40"],
    "costs of its own": BELT,
    "costs of its own and a stop": [*BELT, "--stop-at", "12"],
    "a cost function": [*BELT, "--cost", "own_machine:spills"],
    "several costs": [
        *("--env", own_machine.ID, "--cost", "own_machine:spills_and_drips", "--data", "both.hdf5"),
        *("--limit", "5", "3", "--largest-step", "1", "0.5"),
    ],
}


def fresh(*words: str) -> subprocess.Popen[str]:
    """Start a command in an interpreter of its own, which has imported nothing."""
    command = [sys.executable, "-u", "-m", "lifesafe.cli", *words]
    found = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_is_operated_and_searched_on_after_a_kill_and_a_move(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    belt = own_machine.logs()
    write_dsrl(belt, "belt.hdf5")
    write_dsrl(replace(belt, costs=np.hstack([belt.costs, belt.costs / 2])), "both.hdf5")
    run = ["run", *SMALL, *KINDS[kind], "--episodes", "50", "--operate", "3", "--workers", "0", "--no-plain", "--out"]
    with fresh(*run, "begun") as process:
        assert process.stdout is not None
        assert any(line.startswith("    1  start") for line in process.stdout)
        process.kill()
    Path("begun").rename("moved")
    assert main([*run, "moved"]) == 0
    with fresh("operate", "moved", "--episodes", "2", "--workers", "0") as process:
        told = process.communicate(timeout=120)[0]
        assert process.returncode == 0, told
    assert main(["optimize", "moved", "--workers", "0"]) == 0
    assert main(["report", "moved"]) == 0
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    served = [event for record in read_records(Path("moved") / JOURNAL) if isinstance(event := record.event, Served)]
    assert sum(len(event.episodes) for event in served) == 5
