"""The report of a run that goes on, served on this machine only.

Two addresses are answered: `/`, the page, and `/state`, a few values by which the page finds out that there is news.
Nothing is read from disk because of what a request says.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lifesafe.errors import ConfigError, LifesafeError
from lifesafe.journal.store import JOURNAL
from lifesafe.report.page import page_html, waiting_html
from lifesafe.report.reading import RUN_TOML, Reading

HOST = "127.0.0.1"  # never another: what is shown is nobody else's business


@dataclass(frozen=True)
class Shown:
    """A page, and what identifies it."""

    html: bytes
    version: str
    notice: str
    """Why it may be old or the last, for the reader."""
    tone: str

    def state(self) -> bytes:
        """Return what the page asks for again and again."""
        return json.dumps({"version": self.version, "notice": self.notice, "tone": self.tone}).encode()


class LivePage:
    """The page of a run as it is now; made anew only when the record has changed."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._seen: tuple[object, ...] | None = None
        self._reading: Reading | None = None
        self._html = b""
        self._trouble = ""

    def now(self) -> Shown:
        """Return the page; if the record cannot be read at the moment, the last one that could."""
        with self._lock:
            signature = self._signature()
            if signature != self._seen:
                self._renew()
                self._seen = signature
            notice, tone = self._notice()
            reading = self._reading
            return Shown(self._html, "none" if reading is None else reading.version, notice, tone)

    def _signature(self) -> tuple[object, ...]:
        """Return what changes when the record does."""
        journal = self.run if self.run.is_file() else self.run / JOURNAL
        return tuple(_stamp(path) for path in (journal, Path(f"{journal}-wal"), self.run / RUN_TOML))

    def _renew(self) -> None:
        try:
            reading = Reading.read(self.run, replay=False)
            if self._reading is None or reading.version != self._reading.version:
                self._html = page_html(reading, live=True).encode()
            self._reading, self._trouble = reading, ""
        except (LifesafeError, OSError) as error:
            self._trouble = str(error)
            if self._reading is None:
                self._html = waiting_html(self.run, self._trouble).encode()

    def _notice(self) -> tuple[str, str]:
        reading = self._reading
        if self._trouble:
            if reading is None:
                return f"Waiting for the run: {self._trouble}", "warn"
            shown = f"what was known after event {len(reading.records):,}"
            return f"The journal cannot be read at the moment; this is {shown}. {self._trouble}", "warn"
        assert reading is not None
        writer = writer_of(self.run)
        if writer is not None:
            return f"Live: {writer} is writing; {reading.phase}, event {len(reading.records):,}.", "plain"
        if reading.history.halted is not None:
            return "The run has ended: operation has halted.", "warn"
        if reading.ended is not None:
            return f"The run has ended, {reading.phase}; nobody is writing to it.", "plain"
        return f"Nobody is writing to the run at the moment; {reading.phase}. The page goes on when it does.", "plain"


class LiveServer(ThreadingHTTPServer):
    """Serves the page of a run, which need not be there yet, until it is closed; port 0 stands for a free one.

    Raises:
        ConfigError: If the port is taken or impossible.
    """

    daemon_threads = True

    def __init__(self, run: Path, port: int = 0) -> None:
        if not 0 <= port <= 65535:
            raise ConfigError(f"The port must lie between 0 and 65535; got {port}.")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"Cannot listen on port {port}: {error.strerror}. Give another one, or none for a free one."
            ) from error
        self.page = LivePage(run)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a reader who leaves while an answer is sent; anything else is a fault of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def writer_of(run: Path) -> str | None:
    """Return who is writing to a run, as its lock says; none if nobody is."""
    journal = run if run.is_file() else run / JOURNAL
    try:
        text = Path(f"{os.path.realpath(journal)}.lock").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.fullmatch(r"process (\d+) on (.*)", text, re.DOTALL)
    if found is None:
        return None
    if found[2] != os.uname().nodename:
        return text  # whether it lives cannot be seen from here
    return f"process {found[1]}" if _is_alive(int(found[1])) else None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only asks
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version, sys_version = "lifesafe", ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal belongs to the command."""

    def _answer(self, *, with_body: bool) -> None:
        # A page from elsewhere may have its own name point to this machine; it then sends that name.
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(HTTPStatus.FORBIDDEN, b"Use the address that was printed.\n", "text/plain", with_body)
        elif self.path == "/":
            self._send(HTTPStatus.OK, self.server.page.now().html, "text/html", with_body)
        elif self.path == "/state":
            self._send(HTTPStatus.OK, self.server.page.now().state(), "application/json", with_body)
        else:
            self._send(HTTPStatus.NOT_FOUND, b"There is only one page here: /\n", "text/plain", with_body)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, with_body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(body)
