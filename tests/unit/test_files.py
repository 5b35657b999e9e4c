"""Files are written whole or not at all."""

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from lifesafe._files import locked, replacing, sha256, sha256_file, write_atomic


def fail_with(number: int) -> Any:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    write_atomic(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    write_atomic(path, b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    write_atomic(tmp_path / "atomic", "")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic")}
    assert len(modes) == 1


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_failed_write_keeps_the_old_content_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "run.toml"
    write_atomic(path, "old")
    with monkeypatch.context() as patch:
        patch.setattr(call, fail_with(errno.ENOSPC))
        with pytest.raises(OSError, match="Cannot write: No space left on device") as caught:
            write_atomic(path, "new")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_then_its_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "run.toml", []

    def fsync(descriptor: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        seen.append((kind, path.exists()))

    monkeypatch.setattr("os.fsync", fsync)
    write_atomic(path, "new")
    assert seen == [("file", False), ("directory", True)]


def test_a_missing_directory_is_named_with_the_path_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "none" / "run.toml"
    with pytest.raises(FileNotFoundError, match="Cannot write: No such file") as caught:
        write_atomic(path, "")
    assert caught.value.filename == str(path)


def test_what_fails_in_the_middle_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "logs.hdf5"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_is_held_by_one_and_tells_the_others_by_whom(tmp_path: Path) -> None:
    def refuse(holder: str) -> None:
        raise BlockingIOError(holder)

    path = tmp_path / "lock"
    with (
        locked(path, refuse),
        pytest.raises(BlockingIOError, match=rf"process {os.getpid()} on"),
        locked(path, refuse),
    ):
        pass
    assert not path.exists()
    with locked(path, refuse):
        assert path.exists()


def test_a_lock_that_is_waited_for_is_had_in_the_end(tmp_path: Path) -> None:
    waiting, order = threading.Event(), []

    def second() -> None:
        with locked(tmp_path / "lock", lambda _: waiting.set()):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path / "lock", lambda _: None):
        thread.start()
        assert waiting.wait(timeout=60)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_checksums_are_sha256(tmp_path: Path) -> None:
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180, "abc"
    (tmp_path / "abc").write_text("abc")
    assert sha256("abc") == sha256(b"abc") == sha256_file(tmp_path / "abc") == known
