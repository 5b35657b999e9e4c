"""Data commands as a user starts them, killed and interrupted on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logged import circling, hdf5
from unruly_server import Unruly, answer, serving

COMMAND = Path(sys.executable).with_name("lifesafe")
NAME = "mine.hdf5"
CONTENT = hdf5(circling(episodes=400), compression="gzip")
SLOW = answer(pause=0.02)  # 200 kB a second


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unruly]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(CONTENT) as unruly:
        yield unruly


def begin(server: Unruly, place: Path) -> subprocess.Popen[str]:
    words = ["data", "fetch", NAME, "--data-dir", str(place), "--mirror", server.address]
    return subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def arrived(place: Path) -> bytes:
    return b"".join(part.read_bytes() for part in place.glob(f"{NAME}.*.part"))


def await_bytes(place: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while len(arrived(place)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_fetch_killed_again_and_again_goes_on_and_ends_whole(server: Unruly, tmp_path: Path) -> None:
    kills = 3
    server.answers = [SLOW] * kills
    for kill in range(1, kills + 1):
        process = begin(server, tmp_path)
        await_bytes(tmp_path, kill * len(CONTENT) // (kills + 2), process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert not (tmp_path / NAME).exists()
    process = begin(server, tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == f"{tmp_path / NAME}\n"
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == [NAME, f"{NAME}.sha256"]
    starts = [int((asked or "bytes=0-")[6:-1]) for asked in server.ranges]
    assert starts == sorted(starts)
    assert starts[1] > 0


def test_an_interrupted_fetch_leaves_the_part_and_says_how_to_go_on(server: Unruly, tmp_path: Path) -> None:
    server.answers = [SLOW]
    process = begin(server, tmp_path)
    await_bytes(tmp_path, 20_000, process)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"To go on: lifesafe data fetch {NAME}" in err
    assert "Traceback" not in err
    beginning = arrived(tmp_path)
    assert CONTENT.startswith(beginning)
    again = begin(server, tmp_path)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert server.ranges == [None, f"bytes={len(beginning)}-"]


def test_two_processes_fetch_a_file_once(server: Unruly, tmp_path: Path) -> None:
    server.answers = [SLOW]
    first = begin(server, tmp_path)
    await_bytes(tmp_path, 4096, first)
    second = begin(server, tmp_path)
    assert second.communicate(timeout=60)[0] == first.communicate(timeout=60)[0] == f"{tmp_path / NAME}\n"
    assert len(server.asked) == 1


def test_a_check_can_be_piped(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    words = ["data", "check", NAME, "--limit", "8", "--json"]
    done = subprocess.run([COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["findings"][0]["code"] == "coverage"


def test_the_help_of_data_commands_loads_nothing_slow() -> None:
    script = "import sys; from lifesafe.cli import main; main(['data', 'check', '--help']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"h5py", "matplotlib", "torch", "gymnasium", "scipy.stats"} & set(loaded)
