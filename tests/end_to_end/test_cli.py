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
    done = lifesafe("theory", "simulate", "--out", "run", "--json", cwd=path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["run"], told["report"]) == ("run", "run/report.png")
    return path / "run"


def test_help_loads_nothing_slow(tmp_path: Path) -> None:
    done = lifesafe("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "commands:" in done.stdout
    script = "import sys; from lifesafe.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr.split()
    assert not {"h5py", "matplotlib", "rich", "scipy.stats", "scipy.ndimage", "torch"} & set(loaded)


def test_the_record_is_verified(run: Path, tmp_path: Path) -> None:
    done = lifesafe("journal", "verify", str(run), cwd=tmp_path)
    assert done.returncode == 0
    assert "Replayed to the same decisions" in done.stdout


def test_the_record_is_exported_in_a_pipe(run: Path, tmp_path: Path) -> None:
    done = lifesafe("journal", "export", str(run), cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[0])["kind"] == "opened"


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
    process = subprocess.Popen(
        [COMMAND, "theory", "simulate", "--out", "run"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    deadline, seen = time.monotonic() + 60, ""
    while "   3  explore" not in seen and time.monotonic() < deadline:
        seen += process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    err = seen + process.communicate(timeout=60)[1]
    assert process.returncode == 130, err
    assert "To go on: lifesafe theory simulate --out run" in err
    assert "Traceback" not in err
    done = lifesafe("theory", "simulate", "--out", "run", "--json", cwd=tmp_path)
    # The signal may come after the last trial; the run is then finished and another one begun.
    assert "Resuming the unfinished run in run" in done.stderr or "Beginning a run in run-2" in done.stderr
    assert json.loads(done.stdout)["trials"] == 30
