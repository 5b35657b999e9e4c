"""The installed command, as a user starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("lifesafe")


def lifesafe(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    done = lifesafe("theory", "simulate", "--episodes", "60", "--out", "run", "--json", cwd=path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["run"] == "run"
    return path / "run"


def test_help_loads_nothing_slow(tmp_path: Path) -> None:
    done = lifesafe("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "commands:" in done.stdout
    script = "import sys; from lifesafe.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr.split()
    assert not {"h5py", "matplotlib", "rich", "scipy.stats", "scipy.ndimage", "torch"} & set(loaded)


def test_a_reader_that_has_seen_enough_is_no_error(run: Path) -> None:
    with subprocess.Popen(
        [COMMAND, "journal", "export", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(60) == 141
    assert err == b""


def test_an_error_has_a_message_and_code_2(tmp_path: Path) -> None:
    done = lifesafe("report", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "lifesafe: nowhere does not exist; give the directory of a run, such as runs/demo.\n"


def test_an_interrupted_simulation_can_be_resumed(run: Path, tmp_path: Path) -> None:
    words = ["theory", "simulate", "--promise", "total", "--stop", "2", "--out", "run"]
    process = subprocess.Popen(
        [COMMAND, *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    deadline, seen = time.monotonic() + 60, ""
    while "trial   3" not in seen and time.monotonic() < deadline:
        seen += process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    err = seen + process.communicate(timeout=60)[1]
    assert process.returncode == 130, err
    assert f"To go on: lifesafe {' '.join(words)}" in err
    assert "Traceback" not in err
    resumed = lifesafe(*words, "--json", cwd=tmp_path)
    whole = lifesafe(*words[:-1], "whole", "--json", cwd=tmp_path)
    assert json.loads(resumed.stdout) == {**json.loads(whole.stdout), "run": "run"}


BEGIN = ["--axis", "speed=0:2:m/s", "--begin-at", "speed=0.5", "--rewards", "0", "900", "--limit", "20"]
SHORT = [*BEGIN, "--stop-at", "40", "--episodes", "50"]


def test_ask_and_tell_in_a_pipe(tmp_path: Path) -> None:
    asked = lifesafe("ask", "lab", *SHORT, cwd=tmp_path)
    assert asked.returncode == 0
    assert asked.stderr.startswith("The search takes at most 50 real episodes")
    trial = json.loads(asked.stdout)
    episodes = json.dumps([{"reward": 100.0, "cost": 1.0} for _ in trial["targets"]])
    told = subprocess.run(
        [COMMAND, "tell", "lab", "-", "--trial", str(trial["trial"])], cwd=tmp_path, input=episodes,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "Trial 1: 30 episodes, mean reward 100, mean cost 1 (limit 20).\n"


def test_of_two_processes_that_tell_the_same_trial_one_is_recorded(tmp_path: Path) -> None:
    asked = json.loads(lifesafe("ask", "lab", *SHORT, cwd=tmp_path).stdout)
    (tmp_path / "episodes.json").write_text(json.dumps([{"reward": 100.0, "cost": 1.0}] * asked["episodes"]))
    both = [
        subprocess.Popen(
            [COMMAND, "tell", "lab", "episodes.json", "--trial", "1"], cwd=tmp_path, stderr=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    ends = [(process.communicate(timeout=120), process.returncode) for process in both]
    assert sorted(code for _, code in ends) == [0, 2]
    ((_, refused),) = [said for said, code in ends if code == 2]
    assert "Trial 1 was told already" in refused or "is open for writing in process" in refused
    assert "Traceback" not in refused
    verified = json.loads(lifesafe("journal", "verify", "lab", "--json", cwd=tmp_path).stdout)
    assert (verified["events"], verified["searched"]) == (3, 30)


def test_a_teller_that_is_killed_has_told_all_or_nothing(tmp_path: Path) -> None:
    asked = json.loads(lifesafe("ask", "lab", *SHORT, cwd=tmp_path).stdout)
    (tmp_path / "episodes.json").write_text(json.dumps([{"reward": 100.0, "cost": 1.0}] * asked["episodes"]))
    words = [COMMAND, "tell", "lab", "episodes.json", "--trial", "1"]
    for milliseconds in (150, 300, 450, 600, 750, 900):
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(milliseconds / 1000)
        process.kill()
        process.wait(60)
        verified = json.loads(lifesafe("journal", "verify", "lab", "--json", cwd=tmp_path).stdout)
        assert (verified["events"], verified["searched"]) in ((2, 0), (3, 30))
    assert lifesafe(*map(str, words[1:]), cwd=tmp_path).returncode in (0, 2)
    verified = json.loads(lifesafe("journal", "verify", "lab", "--json", cwd=tmp_path).stdout)
    assert (verified["events"], verified["searched"], verified["stage"]) == (3, 30, "search")
