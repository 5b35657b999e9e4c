"""The live page follows a run, is for this machine only, and says when it cannot."""

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lifesafe.errors import ConfigError
from lifesafe.report.live import HOST, LivePage, LiveServer, writer_of
from report_runs import asked, begun, halted, held, short

# A writer of its own: tells one trial for every line it is sent, and says when that is on disk.
WRITER = """
import sys
from pathlib import Path
from lifesafe.safety import SafeOptimizer
from report_runs import problem, system

run = system()
with SafeOptimizer.open(Path(sys.argv[1]), problem()) as optimizer:
    print("open", flush=True)
    for _ in sys.stdin:
        trial = optimizer.ask()
        optimizer.tell(trial, run(trial))
        print(trial.number, flush=True)
"""


class Writer:
    """Another process that writes to a run."""

    def __init__(self, run: Path) -> None:
        place = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": place},
        )  # fmt: skip
        assert self._line() == "open"

    def tell(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self._line())

    def end(self) -> None:
        self.process.communicate(timeout=60)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def writing(run: Path) -> Iterator[Writer]:
    writer = Writer(run)
    try:
        yield writer
    finally:
        writer.process.kill()
        writer.process.communicate()


@contextmanager
def serving(run: Path) -> Iterator[LiveServer]:
    with LiveServer(run) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


def ask(
    server: LiveServer, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    port = int(server.address.rsplit(":", 1)[1].strip("/"))
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def state(server: LiveServer) -> dict[str, str]:
    status, _, body = ask(server, "/state")
    assert status == 200
    told: dict[str, str] = json.loads(body)
    return told


def test_the_page_follows_a_writer(tmp_path: Path) -> None:
    with writing(tmp_path) as writer, serving(tmp_path) as server:
        versions = [state(server)["version"]]
        for _ in range(3):
            number = writer.tell()
            told = state(server)
            versions.append(told["version"])
            assert told["notice"].startswith(f"Live: process {writer.process.pid} is writing; searching")
            assert f"After trial {number}, " in ask(server, "/")[2].decode()
        assert len(set(versions)) == 4
        writer.end()
        assert state(server)["notice"].startswith("Nobody is writing to the run at the moment; searching")
        assert state(server)["version"] == versions[-1]


def test_a_writer_that_was_killed_is_no_writer(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        writer.tell()
        assert writer_of(tmp_path) == f"process {writer.process.pid}"
        writer.process.kill()
        writer.process.communicate()
        assert Path(f"{tmp_path / 'journal.sqlite'}.lock").exists()
        assert writer_of(tmp_path) is None


def test_the_end_of_a_run_is_said(tmp_path: Path) -> None:
    ended = "The run has ended, ready to operate; nobody is writing to it."
    assert LivePage(short(tmp_path / "a")).now().notice == ended
    assert LivePage(halted(tmp_path / "b")).now().notice == "The run has ended: operation has halted."
    assert "Nobody is writing to the run at the moment" in LivePage(asked(tmp_path / "c")).now().notice
    assert "at the moment; search held." in LivePage(held(tmp_path / "d")).now().notice


def test_a_run_may_come_after_its_page(tmp_path: Path) -> None:
    page = LivePage(tmp_path)
    before = page.now()
    assert before.version == "none"
    assert before.notice.startswith("Waiting for the run: ")
    assert b"There is nothing to report yet" in before.html
    begun(tmp_path)
    assert page.now().version.startswith("1-")
    assert b"has only just begun" in page.now().html


def test_a_journal_that_cannot_be_read_leaves_the_last_page(tmp_path: Path) -> None:
    page = LivePage(short(tmp_path))
    good = page.now()
    journal = tmp_path / "journal.sqlite"
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) // 2])
    bad = page.now()
    assert bad.html == good.html
    assert bad.tone == "warn"
    assert bad.notice.startswith("The journal cannot be read at the moment; this is what was known after event")
    journal.write_bytes(whole)
    assert page.now().notice == good.notice


def test_only_two_addresses_are_answered(tmp_path: Path) -> None:
    with serving(short(tmp_path)) as server:
        assert ask(server, "/")[0] == 200
        for path in (
            "/journal.sqlite",
            "/run.toml",
            "/../",
            "/%2e%2e/etc/passwd",
            "/?x",
            "/state/",
            "/index.html",
        ):
            assert ask(server, path)[0] == 404
        assert ask(server, "/", method="POST")[0] == 501
        assert ask(server, "/", method="HEAD")[2] == b""
        for host in ("example.com", f"example.com:{server.address.rsplit(':', 1)[1].strip('/')}", ""):
            assert ask(server, "/", headers={"Host": host})[0] == 403


def test_a_page_that_is_known_is_not_sent_again(tmp_path: Path) -> None:
    with serving(short(tmp_path)) as server:
        _, headers, body = ask(server, "/")
        status, again, nothing = ask(server, "/", headers={"If-None-Match": headers["ETag"]})
        assert (status, nothing, again["ETag"]) == (304, b"", headers["ETag"])
        assert len(body) > 10_000
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert b'data-live="yes"' in body


def test_only_this_machine_is_served(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        assert server.address.startswith("http://127.0.0.1:")
        assert server._server.socket.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_or_impossible_is_refused(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        taken = server._server.server_address[1]
        with pytest.raises(ConfigError, match=f"Cannot listen on port {taken}: .*Give another one"):
            LiveServer(tmp_path, taken)
    with pytest.raises(ConfigError, match="between 0 and 65535; got 70000"):
        LiveServer(tmp_path, 70000)


def test_reading_a_run_changes_nothing_in_it(tmp_path: Path) -> None:
    short(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    LivePage(tmp_path).now()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
