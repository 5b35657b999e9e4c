"""Fetch the public files of DSRL (CC-BY 4.0), whole or not at all."""

from __future__ import annotations

import contextlib
import os
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lifesafe._files import sha256_file, sync_directory
from lifesafe.data.dsrl import read_columns
from lifesafe.data.manifest import NAME, Entry, locked, read_manifest, record
from lifesafe.data.transfer import Origin, Progress, discard, is_remote, size, transfer
from lifesafe.errors import ConfigError, DatasetError

MIRRORS = ("https://huggingface.co/datasets/YYY-45/DSRL/resolve/main",)
"""Where the files of DSRL are; the names are `Task.dataset_file`."""

_NEEDED = ("observations", "actions", "rewards", "costs")


def default_directory(cache: str | Path | None = None) -> Path:
    """Return where files are kept unless somebody says otherwise: in the user's cache, or in the given one."""
    return Path(cache or "~/.cache").expanduser() / "lifesafe" / "datasets"


def fetch(
    file: str,
    directory: str | Path,
    *,
    mirrors: Sequence[str | Path] = MIRRORS,
    offline: bool = False,
    force: bool = False,
    verify: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
    attempts: int = 5,
    patience: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Return the path of a data file, downloading it unless it is there.

    A download that broke off goes on where it ended. The file appears under its name only when all of it is there
    and can be read; then its size and SHA-256 are noted in `manifest.json` beside it, and held against the file
    whenever it is fetched again. Two processes may fetch the same file: the second waits for the first.

    Args:
        file: Name of the file, such as `task("CarCircle").dataset_file`.
        directory: Where to keep it.
        mirrors: Where to look for it, in this order: addresses without the file's name, or local directories.
        offline: Never touch the network; local mirrors are still looked at.
        force: Fetch the file again even if it is there.
        verify: Compare the SHA-256 of a file that is there, not only its size and date.
        progress: Told how far it has come.
        attempts: Tries in a row without any new byte before a mirror is given up.
        patience: Seconds before the second try; doubled for each further one.
        timeout: Seconds without a byte after which a connection counts as dropped.

    Raises:
        DatasetError: If no mirror has it whole, or the file that is there is not the one that was fetched.
        ConfigError: If the name or a mirror is not one.
    """
    _check_name(file)
    sources = [_address(mirror, file) for mirror in mirrors]
    path = Path(directory).expanduser() / file
    if path.exists() and not force:
        return _found(path, verify)
    if offline:
        sources = [source for source in sources if not is_remote(source)]
        if not any(map(os.path.isfile, sources)):
            looked = ", ".join(map(str, (path, *sources)))
            raise DatasetError(f"{file} is not here; looked for {looked}. Leave out --offline, or copy it there.")
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{file}.lock"), lambda: progress(_waiting(path))):
            if path.exists() and not force:  # another process has fetched it meanwhile
                return _found(path, verify)
            bring = partial(transfer, progress=progress, attempts=attempts, patience=patience, timeout=timeout)
            source = _first_whole(path, sources, bring)
            _put_in_place(path, source)
    return path


def _check_name(file: str) -> None:
    if not file or Path(file).name != file or file.startswith(".") or file == NAME:
        raise ConfigError(
            f"{file!r} is not the name of a data file; give one such as SafetyCarCircle-v0-100-1450.hdf5."
        )


def _address(mirror: str | Path, file: str) -> str:
    """Return where a mirror has the file: an address of the network, or a path."""
    text = str(mirror)
    if is_remote(text):
        return f"{text.rstrip('/')}/{urllib.parse.quote(file)}"
    if text.startswith("file:"):
        text = urllib.request.url2pathname(urllib.parse.urlsplit(text).path)
    elif "://" in text:
        raise ConfigError(f"{text!r} is not a mirror; give an address with http, https or file, or a directory.")
    return str(Path(text).expanduser() / file)


def _found(path: Path, verify: bool) -> Path:
    """Return the path of a file that is there if it is what it was, or refuse it."""
    entry = read_manifest(path.parent).get(path.name)
    if entry is None:  # put there by hand, or by a fetch that was killed at its end
        _check_content(path, "Delete it, or fetch it again with --force.")
        _try_to_record(path, Entry.of(path, "found in place"))
        return path
    status = path.stat()
    changed = status.st_mtime_ns != entry.modified
    if status.st_size != entry.size or ((verify or changed) and sha256_file(path) != entry.sha256):
        raise DatasetError(
            f"{path} is not the file that {NAME} beside it records: it has {status.st_size} bytes, recorded are"
            f" {entry.size}, SHA-256 {entry.sha256[:12]}..., from {entry.source} on {entry.date}. To get that file"
            f" again use --force; to keep this one delete its entry in {NAME}."
        )
    if changed:  # copied or touched, and still the same
        _try_to_record(path, replace(entry, modified=status.st_mtime_ns))
    return path


def _try_to_record(path: Path, entry: Entry) -> None:
    with contextlib.suppress(OSError):  # a directory of others, which we may only read
        record(path, entry)


def _first_whole(path: Path, sources: Sequence[str], bring: Callable[[str, Path], Origin]) -> str:
    """Bring the file from the first source that has it whole into its `.part`, and return that source."""
    part, failures = _part(path), []
    for source in sources:
        try:
            _bring_whole(source, part, bring)
            return source
        except DatasetError as error:
            failures.append(f"\n  {source}: {error}")
    kept = f" The first {size(part)} bytes are kept; fetch again to go on." if size(part) else ""
    raise DatasetError(
        f"Could not fetch {path.name}:{''.join(failures) or ' there is no mirror'}.{kept} Other mirrors can be given;"
        f" a copy put into {path.parent} by hand is taken too."
    )


def _bring_whole(source: str, part: Path, bring: Callable[[str, Path], Origin]) -> None:
    # What lay here from before may be at fault if the whole is damaged: then once more, from the first byte.
    for resumed in (size(part) > 0, False):
        origin = bring(source, part)
        try:
            _check_arrived(part, origin.sha256)
            return
        except DatasetError:
            discard(part)
            if not resumed:
                raise


def _check_arrived(part: Path, promised: str | None) -> None:
    if promised is not None and (found := sha256_file(part)) != promised:
        raise DatasetError(f"what arrived has SHA-256 {found[:12]}..., the server promises {promised[:12]}...")
    try:
        _check_content(part, "It was thrown away")
    except DatasetError as error:
        raise DatasetError(f"what arrived is not such a file: {error}") from error


def _check_content(path: Path, advice: str) -> None:
    """Make sure that a file can be read to its end and has the columns that every use of it needs."""
    try:
        columns = read_columns(path)  # unpacks every block, and gzip finds a wrong byte
    except DatasetError as error:
        raise DatasetError(f"{error} {advice}") from error
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise DatasetError(f"{path} has no {', '.join(missing)}. {advice}")


def _put_in_place(path: Path, source: str) -> None:
    part = _part(path)
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    part.replace(path)
    discard(part)
    sync_directory(path.parent)
    record(path, Entry.of(path, source))


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _waiting(path: Path) -> Progress:
    return Progress(done=size(_part(path)), total=None, note="another process is fetching it; waiting")


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one that says where the file should have gone."""
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"Cannot keep {path}: {error.strerror or error}. Give another directory, or make room there."
        ) from error
