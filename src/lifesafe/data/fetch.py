"""Fetch the public files of DSRL (CC-BY 4.0), whole or not at all.

A file on its way is called `NAME.TAG.part`. The tag is the version that the server gave (its ETag), so a download that
broke off goes on with the rest of the same version only. The file gets its name once its content has been checked; its
SHA-256 is then kept beside it in `NAME.sha256`, as `sha256sum` writes it, and compared whenever it is fetched again.

Own code rather than a library: docs/decisions/0028-libraries.md.
"""

from __future__ import annotations

import contextlib
import glob
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lifesafe._files import locked, sha256_file, sync_directory, write_atomic
from lifesafe.data.dsrl import REQUIRED, read_columns
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.interfaces import Progress, Report

MIRRORS = ("https://huggingface.co/datasets/YYY-45/DSRL/resolve/main",)
"""Where the files of DSRL are; the names are `Task.dataset_file`."""

_ATTEMPTS = 5  # in a row without any new byte
_TIMEOUT = 30.0  # seconds without a byte
_LONGEST_PAUSE = 60.0
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}  # what servers say of troubles that pass
_TAG = re.compile(r'"([\w:+-]{1,100})"')  # a strong one; a weak one may stay while bytes change
_BLOCK = 2**18


def default_directory(cache: str | Path | None = None) -> Path:
    """Return where files are kept by default: in the user's cache, or in the given one."""
    return Path(cache or "~/.cache").expanduser() / "lifesafe" / "datasets"


def fetch(
    file: str,
    directory: str | Path,
    *,
    mirrors: Sequence[str | Path] = MIRRORS,
    offline: bool = False,
    force: bool = False,
    report: Report = lambda _: None,
    patience: float = 1.0,
) -> Path:
    """Return the path of a data file, downloading it unless it is there.

    Two processes may fetch the same file: the second waits for the first.

    Args:
        file: Name of the file, such as `task("CarCircle").dataset_file`.
        directory: Where to keep it.
        mirrors: Where to look for it, in this order: addresses without the file's name, or local directories.
        offline: Whether to look at local mirrors only.
        force: Whether to fetch a file again that is there.
        report: Called with the progress, in bytes.
        patience: Seconds before the second try; doubled for each further one.

    Raises:
        DatasetError: If no mirror has it whole, or the file that is there is not the one that was fetched.
        ConfigError: If the name or a mirror is not one.
    """
    if not file or Path(file).name != file or file.startswith("."):
        raise ConfigError(
            f"{file!r} is not the name of a data file; give one such as SafetyCarCircle-v0-100-1450.hdf5."
        )
    path = Path(directory).expanduser() / file
    sources = [_address(mirror, file) for mirror in mirrors]
    if offline:
        sources = [source for source in sources if not _is_remote(source)]
        places = [str(path), *sources]
        if not any(map(os.path.isfile, places)):
            looked = ", ".join(places)
            raise DatasetError(f"{file} is not here; looked for {looked}. Leave out --offline, or copy it there.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting = Progress(doing="downloading", done=0, note="another process is fetching it; waiting")
        with locked(path.with_name(f".{file}.lock"), lambda _: report(waiting)):
            if force or not path.exists():
                _fetch(path, sources, report, patience)
            else:
                _check_unchanged(path)
    except OSError as error:
        raise DatasetError(
            f"Cannot keep {path}: {error.strerror or error}. Give another directory, or make room there and fetch"
            " again: what has arrived is kept."
        ) from error
    return path


def _address(mirror: str | Path, file: str) -> str:
    """Return where a mirror has the file: an address of the network, or a path."""
    text = str(mirror)
    if _is_remote(text):
        return f"{text.rstrip('/')}/{urllib.parse.quote(file)}"
    if "://" in text:
        raise ConfigError(f"{text!r} is not a mirror; give an address with http or https, or a directory.")
    return str(Path(text).expanduser() / file)


def _is_remote(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _fetch(path: Path, sources: Sequence[str], report: Report, patience: float) -> None:
    """Bring the file from the first source that has it whole, and give it its name."""
    failures = []
    for source in sources:
        try:
            part = _whole(path, source, report, patience)
        except DatasetError as error:
            failures.append(f"\n  {source}: {error}")
            continue
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        _digest_file(path).unlink(missing_ok=True)  # or the old digest would be held against the new file
        part.replace(path)
        sync_directory(path.parent)
        _note_digest(path)
        return
    size = _begun(path)[1]
    kept = f" The first {size} bytes are kept; fetch again to go on." if size else ""
    raise DatasetError(
        f"Could not fetch {path.name}:{''.join(failures) or ' there is no mirror'}.{kept} Other mirrors can be given;"
        f" a copy put into {path.parent} by hand is taken too."
    )


def _whole(path: Path, source: str, report: Report, patience: float) -> Path:
    """Return a part that holds the whole file and has been checked."""
    # Bytes of an earlier time may be at fault if the whole is damaged: then once more, from the first one.
    for resumed in (_begun(path)[1] > 0, False):
        part, promised = _download(path, source, report, patience) if _is_remote(source) else _copy(path, source)
        try:
            if promised and (found := sha256_file(part)) != promised:
                raise DatasetError(f"its SHA-256 is {found[:12]}..., the server promises {promised[:12]}...")
            _check_content(part, "It was thrown away")
        except DatasetError as error:
            part.unlink()
            if not resumed:
                raise DatasetError(f"what arrived is not such a file: {error}") from error
        else:
            break
    return part


def _copy(path: Path, source: str) -> tuple[Path, None]:
    part = path.with_name(f"{path.name}.part")
    if not os.path.isfile(source):
        raise DatasetError("there is no such file")
    shutil.copyfile(source, part)
    return part, None


def _download(path: Path, address: str, report: Report, patience: float) -> tuple[Path, str | None]:
    """Return the part with all that lies at an address, and the SHA-256 that the server promises, if it does."""
    failures, furthest = 0, _begun(path)[1]
    while True:
        try:
            return _receive(path, address, report)
        except _DroppedError as dropped:
            size = _begun(path)[1]
            failures = 1 if size > furthest else failures + 1
            furthest = max(furthest, size)
            if failures == _ATTEMPTS:
                raise DatasetError(f"{dropped}, after {_ATTEMPTS} tries") from dropped
            pause = min(dropped.pause or patience * 2 ** (failures - 1), _LONGEST_PAUSE)
            report(Progress(doing="downloading", done=size, note=f"{dropped}; trying again in {pause:.0f} s"))
            time.sleep(pause)


def _begun(path: Path) -> tuple[Path, int, str]:
    """Return the part of the version that is under way, how many bytes it has, and the version; none is "" and 0."""
    for part in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        return part, part.stat().st_size, part.name.split(".")[-2]
    return path.with_name(f"{path.name}.part"), 0, ""


def _receive(path: Path, address: str, report: Report) -> tuple[Path, str | None]:
    """Ask once for what is missing, and store what comes."""
    part, size, tag = _begun(path)
    request = urllib.request.Request(address, headers={"User-Agent": "lifesafe"})
    if size:
        request.add_header("Range", f"bytes={size}-")
        request.add_header("If-Range", f'"{tag}"')
    redirects = _Redirects()
    with _opened(redirects, request) as answer:
        if answer.status == 416 and (answer.headers["Content-Range"] or "").endswith(f"/{size}"):  # nothing is missing
            return part, redirects.promised
        if answer.status != 206 or not (answer.headers["Content-Range"] or "").startswith(f"bytes {size}-"):
            part.unlink(missing_ok=True)
            if answer.status != 200:
                raise _DroppedError("the server sent another piece than was asked for")
            version = _TAG.fullmatch(answer.headers["ETag"] or "")
            part, size = path.with_name(f"{path.name}.{version[1]}.part" if version else f"{path.name}.part"), 0
            part.unlink(missing_ok=True)
        length = answer.headers["Content-Length"] or ""
        total = size + int(length) if length.isdecimal() else None
        with part.open("ab", buffering=0) as file:
            report(Progress(doing="downloading", done=size, total=total))
            for block in _blocks(answer):
                size += file.write(block)
                report(Progress(doing="downloading", done=size, total=total))
    if total not in (None, size):
        raise _DroppedError(f"the connection ended after {size} of {total} bytes")
    return part, redirects.promised


class _DroppedError(Exception):
    """The transfer broke off in a way that may pass."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http, and keeps the digest that Hugging Face sends with them."""

    promised: str | None = None

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DatasetError(f"the server redirects from https to {newurl}, where anybody could change the file")
        digest = re.fullmatch(r'"?([0-9a-f]{64})"?', headers["X-Linked-Etag"] or "")
        self.promised = digest[1] if digest else self.promised
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(redirects: _Redirects, request: urllib.request.Request) -> Any:
    """Return the server's answer: all of the file, the rest of it, or that there is no rest."""
    try:
        return urllib.request.build_opener(redirects).open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return error
        with error:
            refusal = f"the server answers {error.code} {error.reason}"
            wish = error.headers["Retry-After"] or ""
        if error.code in _TRY_AGAIN:
            raise _DroppedError(refusal, float(wish) if wish.isdecimal() else 0.0) from error
        raise DatasetError(refusal) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise _DroppedError(f"no connection ({getattr(reason, 'strerror', None) or reason})") from error


def _blocks(answer: Any) -> Iterator[bytes]:
    """Give the body in blocks; an error of the connection is not taken for one of the disk."""
    try:
        while block := answer.read1(_BLOCK):
            yield block
    except (OSError, http.client.HTTPException) as error:
        raise _DroppedError(f"the connection broke ({getattr(error, 'strerror', None) or error})") from error


def _check_unchanged(path: Path) -> None:
    """Refuse a file that is not the one that was fetched; one that was put there by hand is checked and noted."""
    note = _digest_file(path)
    if not note.exists():
        _check_content(path, "Delete it, or fetch it again with --force.")
        with contextlib.suppress(OSError):  # a directory of others, which we may only read
            _note_digest(path)
    elif (found := sha256_file(path)) != (noted := note.read_text(encoding="utf-8", errors="replace").split(" ")[0]):
        raise DatasetError(
            f"{path} is not the file that was fetched: its SHA-256 is {found[:12]}..., {note.name} beside it says"
            f" {noted[:12]}... To get that file again use --force; to keep this one delete {note.name}."
        )


def _check_content(path: Path, advice: str) -> None:
    """Make sure that a file can be read to its end and has the columns that every use of it needs."""
    try:
        columns = read_columns(path)  # unpacks every block, and gzip finds a wrong byte
    except DatasetError as error:
        raise DatasetError(f"{error} {advice}") from error
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise DatasetError(f"{path} has no {', '.join(missing)}. {advice}")


def _digest_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _note_digest(path: Path) -> None:
    write_atomic(_digest_file(path), f"{sha256_file(path)}  {path.name}\n")
