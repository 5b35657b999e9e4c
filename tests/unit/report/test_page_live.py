"""The live page follows a run, is for this machine only, and says when it cannot."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lifesafe.errors import ConfigError
from lifesafe.report.live import HOST, LivePage, LiveServer, writer_of
from report_runs import Writer, asked, begun, halted, held, short


@contextmanager
def serving(run: Path) -> Iterator[LiveServer]:
    with LiveServer(run) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: LiveServer, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(HOST, server.server_address[1], timeout=60)
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


def test_the_page_follows_a_writer_until_it_ends(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer, serving(tmp_path) as server:
        versions = [state(server)["version"]]
        for _ in range(3):
            number = writer.tell()
            told = state(server)
            versions.append(told["version"])
            assert told["notice"].startswith(f"Live: process {writer.process.pid} is writing; searching")
            assert f"After trial {number}, " in ask(server, "/")[2].decode()
        assert len(set(versions)) == 4
        writer.process.kill()  # one that was killed is no writer, though its lock stays
        writer.process.wait()
        assert Path(f"{tmp_path / 'journal.sqlite'}.lock").exists()
        assert writer_of(tmp_path) is None
        assert state(server)["notice"].startswith("Nobody is writing to the run at the moment; searching")
        assert state(server)["version"] == versions[-1]


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
    assert (bad.html, bad.tone) == (good.html, "warn")
    assert bad.notice.startswith("The journal cannot be read at the moment; this is what was known after event")
    journal.write_bytes(whole)
    assert page.now().notice == good.notice


def test_only_two_addresses_are_answered_and_only_on_this_machine(tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in short(tmp_path).iterdir()}
    with serving(tmp_path) as server:
        assert server.address.startswith("http://127.0.0.1:")
        assert server.socket.getsockname()[0] == "127.0.0.1"
        status, headers, body = ask(server, "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b'data-live="yes"' in body
        for path in ("/journal.sqlite", "/run.toml", "/../", "/%2e%2e/etc/passwd", "/?x", "/state/", "/index.html"):
            assert ask(server, path)[0] == 404
        assert ask(server, "/", method="POST")[0] == 501
        assert ask(server, "/", method="HEAD")[2] == b""
        for host in ("example.com", f"example.com:{server.server_address[1]}", ""):
            assert ask(server, "/", headers={"Host": host})[0] == 403
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_port_that_is_taken_or_impossible_is_refused(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        taken = server.server_address[1]
        with pytest.raises(ConfigError, match=f"Cannot listen on port {taken}: .*Give another one"):
            LiveServer(tmp_path, taken)
    with pytest.raises(ConfigError, match="between 0 and 65535; got 70000"):
        LiveServer(tmp_path, 70000)
