"""A real HTTP server on this machine that serves one file, and misbehaves as it is told."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Unruly:
    """What the server has, how it is to answer the next requests, and what it was asked."""

    content: bytes
    answers: list[Callable[[Any, Unruly], None]] = field(default_factory=list)
    """One per request, in order; afterwards requests are answered properly."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """The headers of every request."""
    sent: int = 0
    """Bytes of bodies sent in all."""
    address: str = ""
    has_version: bool = True

    @property
    def version(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'

    @property
    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for headers in self.asked]

    def serve(
        self,
        handler: Any,
        *,
        ranges: bool = True,
        stop: int | None = None,
        length: int = 0,
        pause: float = 0.0,
        flip: int | None = None,
    ) -> None:
        """Answer as a good server would, but for what is asked otherwise: know no ranges, stop after some bytes,
        announce another length, pause so many seconds after every 4096 bytes, or flip one byte.
        """
        content, start, status = self.content, 0, 200
        if flip is not None:
            content = content[:flip] + bytes([content[flip] ^ 255]) + content[flip + 1 :]
        asked, same = handler.headers.get("Range"), handler.headers.get("If-Range", self.version) == self.version
        if ranges and asked and same:
            start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
        if start >= len(content) and status == 206:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(content)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(status)
        if self.has_version:
            handler.send_header("ETag", self.version)
        if status == 206:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - start + length))
        handler.end_headers()
        body = content[start:][:stop]
        for begin in range(0, len(body), 4096):
            handler.wfile.write(body[begin : begin + 4096])
            handler.wfile.flush()
            self.sent += len(body[begin : begin + 4096])
            time.sleep(pause)


def answer(**options: Any) -> Callable[[Any, Unruly], None]:
    """Return an answer that serves the file with the options of `Unruly.serve`."""
    return lambda handler, unruly: unruly.serve(handler, **options)


def refuse(status: int, **headers: str) -> Callable[[Any, Unruly], None]:
    """Return an answer with an error; underscores in the names of headers are dashes."""

    def answer(handler: Any, unruly: Unruly) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def change(content: bytes, **options: Any) -> Callable[[Any, Unruly], None]:
    """Return an answer before which the file changes for good."""

    def answer(handler: Any, unruly: Unruly) -> None:
        unruly.content = content
        unruly.serve(handler, **options)

    return answer


def hang_up(handler: Any, unruly: Unruly) -> None:
    """Answer nothing at all."""


@contextmanager
def serving(content: bytes) -> Iterator[Unruly]:
    """Run a server in a thread."""
    unruly = Unruly(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            unruly.asked.append(dict(self.headers.items()))
            unruly_answer = unruly.answers.pop(0) if unruly.answers else answer()
            with suppress(OSError):  # the other side was killed
                unruly_answer(self, unruly)
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        unruly.address = f"http://127.0.0.1:{server.server_address[1]}/files"
        try:
            yield unruly
        finally:
            server.shutdown()
            thread.join()
