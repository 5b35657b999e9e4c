"""Bring one file from one address onto the disk, going on where an earlier try ended.

What has arrived lies in a `.part` file. Beside it, `.part.json` says which version of which address it is the
beginning of, so that two versions are never glued together: the server is asked for the rest of that version only
(`If-Range`), and sends the whole file if it has another one by now.
"""

from __future__ import annotations

import contextlib
import email.message
import http.client
import json
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any, Self

from lifesafe._files import write_atomic
from lifesafe.errors import DatasetError

_BLOCK = 2**18
_LONGEST_PAUSE = 60.0
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}  # what servers say of troubles that pass
_DIGEST = re.compile(r'"?([0-9a-f]{64})"?')


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a transfer has come."""

    done: int
    """Bytes on disk."""
    total: int | None
    """Bytes in all, if the server has told."""
    note: str = ""
    """Why it waits, if it does."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a `.part` file is the beginning of."""

    address: str
    version: str | None = None
    """Strong ETag or date of last change, as the server gave it."""
    total: int | None = None
    sha256: str | None = None
    """Digest of the whole, where the server tells it; Hugging Face does."""

    @classmethod
    def read(cls, part: Path) -> Self | None:
        try:
            return cls(**json.loads(_beside(part).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # none, or not one of ours: then the part is of no use
            return None

    def write(self, part: Path) -> None:
        write_atomic(_beside(part), json.dumps(asdict(self)))


class _DroppedError(Exception):
    """The transfer broke off in a way that may pass."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


def transfer(
    address: str,
    part: Path,
    *,
    progress: Callable[[Progress], None],
    attempts: int,
    patience: float,
    timeout: float,
) -> Origin:
    """Bring all that lies at an address into the `.part` file, and return what is known of it.

    Args:
        address: An http or https address, or the path of a local file.
        part: Where to put it; a beginning that is there already is kept if it is one of this very file.
        progress: Told after every block.
        attempts: Tries in a row without any new byte before giving up.
        patience: Seconds before the second try; doubled for each further one.
        timeout: Seconds without a byte after which a connection counts as dropped.

    Raises:
        DatasetError: If it is not there, does not arrive, or the disk is full; what has arrived is kept.
    """
    if not is_remote(address):
        return _copy(Path(address), part, progress)
    failures, furthest = 0, _beginning(address, part)[0]
    while True:
        try:
            return _receive(address, part, progress, timeout)
        except _DroppedError as dropped:
            if size(part) > furthest:
                failures, furthest = 0, _beginning(address, part)[0]
            failures += 1
            if failures >= attempts:
                raise DatasetError(f"{dropped}, after {attempts} tries") from dropped
            pause = min(dropped.pause or patience * 2 ** (failures - 1), _LONGEST_PAUSE)
            origin = Origin.read(part)
            note = f"{dropped}; trying again in {pause:.0f} s"
            progress(Progress(done=size(part), total=origin.total if origin else None, note=note))
            time.sleep(pause)


def is_remote(address: str) -> bool:
    """Tell whether an address is one of the network."""
    return address.startswith(("http://", "https://"))


def discard(part: Path) -> None:
    """Remove what has arrived."""
    part.unlink(missing_ok=True)
    _beside(part).unlink(missing_ok=True)


def size(path: Path) -> int:
    """Return how many bytes a file has, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _beside(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _beginning(address: str, part: Path) -> tuple[int, Origin | None]:
    """Return how many bytes of what lies at the address are here, and which version of it they are of."""
    origin = Origin.read(part)
    if origin is None or origin.address != address or not size(part):
        return 0, None
    return size(part), origin


def _copy(source: Path, part: Path, progress: Callable[[Progress], None]) -> Origin:
    try:
        stream = source.open("rb")
    except OSError as error:
        raise DatasetError(f"cannot be read: {error.strerror}") from error
    with stream:
        total = os.fstat(stream.fileno()).st_size
        discard(part)
        _store(stream.read, part, total, progress)
    return Origin(address=str(source), total=total)


def _receive(address: str, part: Path, progress: Callable[[Progress], None], timeout: float) -> Origin:
    """Ask once for what is missing, and store what comes."""
    _, origin = _beginning(address, part)
    with _dropping(), _opened(address, origin, part, timeout) as answer:
        if answer is None:  # nothing is missing
            assert origin is not None
            return origin
        if answer.status == 206 and origin is not None:
            _check_continued(answer.headers, origin, part)
        elif answer.status == 200:
            discard(part)
            origin = _origin(address, answer)
            with _writing(part):
                origin.write(part)
        else:
            raise DatasetError(f"the server answers {answer.status} {answer.reason}")
        _store(answer.read1, part, origin.total, progress)
    if origin.total is not None and size(part) != origin.total:
        raise _DroppedError(f"the connection ended after {size(part)} of {origin.total} bytes")
    return origin


@contextlib.contextmanager
def _opened(address: str, origin: Origin | None, part: Path, timeout: float) -> Iterator[Any]:
    """Give the server's answer, or None if it says that nothing is missing."""
    request = urllib.request.Request(address, headers={"User-Agent": "lifesafe"})
    if origin is not None:
        request.add_header("Range", f"bytes={size(part)}-")
        if origin.version is not None:
            request.add_header("If-Range", origin.version)
    redirects = _Redirects()
    try:
        answer = urllib.request.build_opener(redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and origin is not None and _total(error.headers.get("Content-Range")) == size(part):
                yield None
                return
            if error.code == 416:
                discard(part)
                raise _DroppedError("the server has another file now") from error
            if error.code in _TRY_AGAIN:
                raise _DroppedError(f"the server answers {error.code} {error.reason}", _retry_after(error)) from error
            raise DatasetError(f"the server answers {error.code} {error.reason}") from error
    with answer:
        answer.promised = redirects.promised
        yield answer


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http, and keeps the digest that Hugging Face sends with them."""

    promised: str | None = None

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DatasetError(f"the server redirects from https to {newurl}, where anybody could change the file")
        digest = _DIGEST.fullmatch(headers.get("X-Linked-Etag") or "")
        self.promised = digest[1] if digest else self.promised
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def _dropping() -> Iterator[None]:
    """Turn the many errors of a connection into one."""
    try:
        yield
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DatasetError(f"the server's certificate is not valid: {error.reason.verify_message}") from error
        raise _DroppedError(f"no connection ({_words(error.reason)})") from error
    except http.client.IncompleteRead as error:
        raise _DroppedError("the connection ended too early") from error
    except (OSError, http.client.HTTPException) as error:
        raise _DroppedError(f"the connection broke ({_words(error)})") from error


def _words(error: object) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _check_continued(headers: email.message.Message, origin: Origin, part: Path) -> None:
    """Make sure that what comes is the rest of what we have; else throw the beginning away and try again."""
    continued = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range") or "")
    total = _total(headers.get("Content-Range"))
    version = _version(headers)
    if (
        continued is None
        or int(continued[1]) != size(part)
        or (total is not None and origin.total is not None and total != origin.total)
        or (version is not None and origin.version is not None and version != origin.version)
    ):
        discard(part)
        raise _DroppedError("the server sent another piece than was asked for")


def _origin(address: str, answer: Any) -> Origin:
    length = answer.headers.get("Content-Length") or ""
    return Origin(
        address=address,
        version=_version(answer.headers),
        total=int(length) if length.isdecimal() else None,
        sha256=answer.promised,
    )


def _version(headers: email.message.Message) -> str | None:
    tag = headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):  # a weak tag may stay while bytes change
        return tag
    return headers.get("Last-Modified")


def _total(content_range: str | None) -> int | None:
    total = (content_range or "").rpartition("/")[2]
    return int(total) if total.isdecimal() else None


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    wish = error.headers.get("Retry-After") or ""
    if wish.isdecimal():
        return float(wish)
    try:
        return max(0.0, parsedate_to_datetime(wish).timestamp() - time.time()) or None
    except ValueError:
        return None


def _store(read: Callable[[int], bytes], part: Path, total: int | None, progress: Callable[[Progress], None]) -> None:
    """Append what is read to the part until nothing more comes."""
    done = size(part)
    missing, free = (total or done) - done, shutil.disk_usage(part.parent).free
    if missing > free:
        raise DatasetError(
            f"needs {missing / 1e6:.1f} MB more, and the disk of {part.parent} has {free / 1e6:.1f} MB left;"
            " make room or give another directory"
        )
    progress(Progress(done=done, total=total))
    with _writing(part):
        file = part.open("ab", buffering=0)
    with file:
        while block := read(_BLOCK):
            with _writing(part):
                rest = memoryview(block)
                while rest:
                    rest = rest[file.write(rest) :]
            done += len(block)
            progress(Progress(done=done, total=total))


@contextlib.contextmanager
def _writing(part: Path) -> Iterator[None]:
    """Keep an error of the disk from being taken for one of the connection."""
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"cannot be written to {part}, which has {size(part)} bytes: {error.strerror}; make room or give another"
            " directory"
        ) from error
