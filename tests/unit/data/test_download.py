"""A file is fetched whole or not at all, whatever the network does."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from lifesafe.data import download
from lifesafe.data.download import fetch
from lifesafe.data.manifest import locked, read_manifest
from lifesafe.data.transfer import Progress
from lifesafe.errors import ConfigError, DatasetError
from unruly_server import Unruly, answer, change, hang_up, refuse, serving

NAME = "SafetyMine-v0-10-3.hdf5"


def dataset_bytes(seed: int = 0, rows: int = 2000, without: str = "") -> bytes:
    random = np.random.default_rng(seed)
    columns = {
        "observations": random.normal(size=(rows, 4)),
        "next_observations": random.normal(size=(rows, 4)),
        "actions": random.uniform(-1, 1, size=(rows, 2)),
        "rewards": random.normal(size=rows),
        "costs": random.integers(0, 2, size=rows),
        "terminals": np.zeros(rows),
        "timeouts": np.arange(1, rows + 1) % 100 == 0,
    }
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, column in columns.items():
            if name != without:
                file.create_dataset(name, data=column.astype(np.float32), compression="gzip")
    return buffer.getvalue()


CONTENT = dataset_bytes()
OTHER = dataset_bytes(seed=1)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Unruly]:
    with serving(CONTENT) as unruly:
        yield unruly


def get(server: Unruly, directory: Path, **options: Any) -> Path:
    return fetch(NAME, directory, **{"mirrors": [server.address], "patience": 0.001, "timeout": 5.0, **options})


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def assert_whole(path: Path, content: bytes = CONTENT) -> None:
    assert path.read_bytes() == content
    assert names(path.parent) == {NAME, "manifest.json"}
    entry = read_manifest(path.parent)[NAME]
    assert (entry.size, entry.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_file_is_fetched_and_recorded(server: Unruly, tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = get(server, tmp_path / "new" / "place", progress=seen.append)
    assert path == tmp_path / "new" / "place" / NAME
    assert_whole(path)
    entry = json.loads((path.parent / "manifest.json").read_text())["files"][NAME]
    assert entry["source"] == f"{server.address}/{NAME}"
    assert [seen[0].done, seen[-1].done, seen[-1].total] == [0, len(CONTENT), len(CONTENT)]


def test_a_file_that_is_there_is_not_fetched_again(server: Unruly, tmp_path: Path) -> None:
    get(server, tmp_path)
    assert get(server, tmp_path, verify=True) == get(server, tmp_path, offline=True) == tmp_path / NAME
    assert len(server.asked) == 1


def test_a_dropped_connection_is_resumed_where_it_ended(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000), answer(stop=20_000), hang_up]
    notes: list[str] = []
    path = get(server, tmp_path, progress=lambda state: notes.append(state.note))
    assert_whole(path)
    assert server.ranges == [None, "bytes=10000-", "bytes=30000-", "bytes=30000-"]
    assert server.sent == len(CONTENT)
    assert any(f"the connection ended after 10000 of {len(CONTENT)} bytes; trying again" in note for note in notes)


def test_a_connection_that_drops_often_arrives_if_it_moves(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=4096)] * 12
    assert_whole(get(server, tmp_path, attempts=2))
    assert len(server.asked) == 13


def test_a_later_fetch_goes_on_where_an_earlier_one_gave_up(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000), refuse(503), refuse(503)]
    with pytest.raises(DatasetError, match=r"503.*, after 2 tries\. The first 10000 bytes are kept; fetch again"):
        get(server, tmp_path, attempts=2)
    assert (tmp_path / f"{NAME}.part").read_bytes() == CONTENT[:10_000]
    assert not (tmp_path / NAME).exists()
    assert_whole(get(server, tmp_path))
    assert server.ranges[-1] == "bytes=10000-"


def test_a_server_that_knows_no_ranges_sends_all_again(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000), answer(ranges=False)]
    assert_whole(get(server, tmp_path))
    assert server.ranges == [None, "bytes=10000-"]


def test_a_server_without_ranges_that_always_drops_is_given_up(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000, ranges=False)] * 50
    with pytest.raises(DatasetError, match="the connection ended after 10000 of"):
        get(server, tmp_path, attempts=3)
    assert len(server.asked) == 3


def test_two_versions_are_never_glued_together(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000), change(OTHER)]
    assert_whole(get(server, tmp_path), OTHER)
    assert server.asked[1]["If-Range"] == f'"{hashlib.md5(CONTENT).hexdigest()}"'


def test_without_versions_a_file_of_another_size_is_noticed(server: Unruly, tmp_path: Path) -> None:
    server.has_version = False
    longer = dataset_bytes(rows=3000)
    server.answers = [answer(stop=10_000), change(longer)]
    assert_whole(get(server, tmp_path), longer)


def test_without_versions_a_glued_file_of_the_same_size_is_noticed_and_fetched_anew(
    server: Unruly, tmp_path: Path
) -> None:
    server.has_version = False
    same_size = CONTENT[:20_000] + bytes(1000) + CONTENT[21_000:]  # the old version was broken in the middle
    server.content = same_size
    server.answers = [answer(stop=20_500), hang_up, hang_up]
    with pytest.raises(DatasetError):
        get(server, tmp_path, attempts=2)
    server.content = CONTENT
    assert_whole(get(server, tmp_path))
    assert server.ranges[-2:] == ["bytes=20500-", None]


def test_a_piece_that_was_not_asked_for_is_refused(server: Unruly, tmp_path: Path) -> None:
    wrong = refuse(206, Content_Range=f"bytes 5-9/{len(CONTENT)}")
    server.answers = [answer(stop=10_000), wrong]
    assert_whole(get(server, tmp_path))
    assert server.ranges == [None, "bytes=10000-", None]


def test_a_part_that_is_longer_than_the_file_is_thrown_away(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=30_000), hang_up, hang_up]
    with pytest.raises(DatasetError):
        get(server, tmp_path, attempts=2)
    with (tmp_path / f"{NAME}.part").open("ab") as file:
        file.write(bytes(len(CONTENT)))
    assert_whole(get(server, tmp_path))


def test_a_part_that_is_whole_needs_no_more_bytes(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=30_000), hang_up, hang_up]
    with pytest.raises(DatasetError):
        get(server, tmp_path, attempts=2)
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT)  # as if killed before it was given its name
    before = server.sent
    assert_whole(get(server, tmp_path))
    assert server.sent == before


@pytest.mark.parametrize("note", ["", "not JSON", "[]", '{"address": 3}', '{"nonsense": 1}'])
def test_a_part_of_unknown_origin_is_not_built_upon(server: Unruly, tmp_path: Path, note: str) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(b"x" * 500)
    (tmp_path / f"{NAME}.part.json").write_text(note)
    assert_whole(get(server, tmp_path))
    assert server.ranges == [None]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
def test_troubles_that_pass_are_waited_for(server: Unruly, tmp_path: Path, status: int) -> None:
    server.answers = [refuse(status), refuse(status)]
    assert_whole(get(server, tmp_path))


def test_the_server_is_given_the_time_it_asks_for(
    server: Unruly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("lifesafe.data.transfer.time.sleep", slept.append)
    far, soon = "Fri, 01 Jan 2100 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 GMT"
    server.answers = [refuse(429, Retry_After=text) for text in ("7", far, soon, "rubbish")]
    get(server, tmp_path, patience=0.5)
    assert [pause for pause in slept if pause] == [7.0, 60.0, 2.0, 4.0]  # the server's thread sleeps, too


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated(server: Unruly, tmp_path: Path, status: int) -> None:
    server.answers = [refuse(status)]
    with pytest.raises(DatasetError, match=rf"Could not fetch {NAME}:\n  {server.address}/{NAME}: .* {status} "):
        get(server, tmp_path)
    assert len(server.asked) == 1
    assert names(tmp_path) == set()


def test_a_server_that_announces_too_much_is_taken_by_its_file(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(length=500)]
    assert_whole(get(server, tmp_path))


def test_a_server_that_announces_too_little_gives_no_file(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(length=-500)]
    with pytest.raises(DatasetError, match="what arrived is not such a file"):
        get(server, tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("content", [b"", b"<html>Please log in</html>", CONTENT[:-1], CONTENT[: len(CONTENT) // 2]])
def test_what_is_not_such_a_file_is_thrown_away(server: Unruly, tmp_path: Path, content: bytes) -> None:
    server.content = content
    with pytest.raises(DatasetError, match="what arrived is not such a file"):
        get(server, tmp_path)
    assert names(tmp_path) == set()


def test_a_file_without_a_needed_column_is_refused(server: Unruly, tmp_path: Path) -> None:
    server.content = dataset_bytes(without="costs")
    with pytest.raises(DatasetError, match="has no costs"):
        get(server, tmp_path)


def test_a_wrong_byte_among_the_values_is_noticed(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(flip=len(CONTENT) // 2)]
    with pytest.raises(DatasetError, match="what arrived is not such a file"):
        get(server, tmp_path)
    assert names(tmp_path) == set()


def test_the_digest_that_a_redirect_promises_is_held_against_the_file(server: Unruly, tmp_path: Path) -> None:
    right, wrong = hashlib.sha256(CONTENT).hexdigest(), hashlib.sha256(OTHER).hexdigest()
    redirect = {"Location": f"{server.address}/elsewhere"}
    server.answers = [refuse(302, **redirect, X_Linked_Etag=f'"{wrong}"')]
    with pytest.raises(DatasetError, match=f"SHA-256 {right[:12]}..., the server promises {wrong[:12]}..."):
        get(server, tmp_path)
    server.answers = [refuse(302, **redirect, X_Linked_Etag=f'"{right}"')]
    assert_whole(get(server, tmp_path))


def test_the_next_mirror_is_asked_when_one_fails(server: Unruly, tmp_path: Path) -> None:
    server.answers = [refuse(404)]
    with serving(CONTENT) as second:
        path = get(server, tmp_path, mirrors=["http://127.0.0.1:9/nobody", server.address, second.address], attempts=1)
    assert_whole(path)
    assert read_manifest(tmp_path)[NAME].source.startswith(second.address)


def test_the_part_of_one_mirror_survives_another_that_has_nothing(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000), refuse(404)]
    with pytest.raises(DatasetError, match=r"The first 10000 bytes are kept"):
        get(server, tmp_path, mirrors=[server.address, f"{server.address}/two"], attempts=1)
    assert_whole(get(server, tmp_path))
    assert server.ranges == [None, None, "bytes=10000-"]


@pytest.mark.parametrize("form", [str, Path, Path.as_uri], ids=["text", "path", "address"])
def test_a_directory_can_be_a_mirror(tmp_path: Path, form: Any) -> None:
    (tmp_path / "from here").mkdir()
    (tmp_path / "from here" / NAME).write_bytes(CONTENT)
    path = fetch(NAME, tmp_path / "to", mirrors=[form(tmp_path / "from here")], offline=True)
    assert_whole(path)


def test_offline_says_where_it_looked_and_asks_nobody(server: Unruly, tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        get(server, tmp_path / "data", mirrors=[server.address, tmp_path / "mirror"], offline=True)
    assert str(tmp_path / "data" / NAME) in str(caught.value)
    assert str(tmp_path / "mirror" / NAME) in str(caught.value)
    assert not server.asked
    assert not (tmp_path / "data").exists()


def test_a_changed_file_is_refused_until_forced(server: Unruly, tmp_path: Path) -> None:
    path = get(server, tmp_path)
    path.write_bytes(OTHER[: len(CONTENT)].ljust(len(CONTENT), b"\0"))
    with pytest.raises(DatasetError, match=r"is not the file that manifest\.json beside it records.*--force"):
        get(server, tmp_path)
    path.write_bytes(CONTENT[:-9])
    with pytest.raises(DatasetError, match=f"has {len(CONTENT) - 9} bytes, recorded are {len(CONTENT)}"):
        get(server, tmp_path, offline=True)
    assert_whole(get(server, tmp_path, force=True))


def test_a_change_that_leaves_size_and_date_is_found_on_request(server: Unruly, tmp_path: Path) -> None:
    path = get(server, tmp_path)
    status = path.stat()
    path.write_bytes(bytes(len(CONTENT)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert get(server, tmp_path) == path
    with pytest.raises(DatasetError, match="--force"):
        get(server, tmp_path, verify=True)


def test_a_copied_file_with_another_date_is_the_same_file(
    server: Unruly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = get(server, tmp_path)
    os.utime(path, ns=(0, 0))
    assert get(server, tmp_path) == path
    monkeypatch.setattr(download, "sha256_file", None)  # the date is noted, so nobody computes the digest again
    assert get(server, tmp_path) == path


def test_a_failed_force_leaves_the_old_file(server: Unruly, tmp_path: Path) -> None:
    path = get(server, tmp_path)
    server.answers = [refuse(404)]
    with pytest.raises(DatasetError):
        get(server, tmp_path, force=True)
    assert_whole(path)


def test_a_file_put_there_by_hand_is_taken_and_recorded(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    assert_whole(fetch(NAME, tmp_path, offline=True))
    assert read_manifest(tmp_path)[NAME].source == "found in place"


def test_half_a_file_put_there_by_others_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT[:20_000])
    with pytest.raises(DatasetError, match="fetch it again with --force"):
        fetch(NAME, tmp_path, offline=True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "files": {"a": {"size": "x"}}}'])
def test_a_damaged_manifest_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DatasetError, match=r"manifest.json is not a manifest of lifesafe .*Delete it"):
        fetch(NAME, tmp_path)


def test_a_manifest_of_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    (tmp_path / "manifest.json").write_text('{"version": 2, "files": {}}')
    with pytest.raises(DatasetError, match="has format 2, this lifesafe reads 1"):
        fetch(NAME, tmp_path)


@pytest.mark.parametrize("name", ["", "../x.hdf5", "/etc/passwd", "a/b", ".hidden", "manifest.json"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a data file"):
        fetch(name, tmp_path)


def test_an_unknown_kind_of_mirror_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'ftp://x' is not a mirror"):
        fetch(NAME, tmp_path, mirrors=["ftp://x"])


def test_two_fetches_at_once_download_once(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(pause=0.01)]
    notes: list[str] = []
    with locked(tmp_path / f".{NAME}.lock"):  # as if a third one were at it, so that both have to wait
        threads = [
            threading.Thread(target=get, args=(server, tmp_path), kwargs={"progress": lambda s: notes.append(s.note)})
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while sum("another process is fetching it" in note for note in notes) < 2:
            threads[0].join(0.01)
    for thread in threads:
        thread.join()
    assert len(server.asked) == 1
    assert_whole(tmp_path / NAME)


def test_different_files_fetched_at_once_are_all_recorded(server: Unruly, tmp_path: Path) -> None:
    files = [f"{index}.hdf5" for index in range(8)]
    options = {"mirrors": [server.address], "patience": 0.001}
    threads = [threading.Thread(target=fetch, args=(file, tmp_path), kwargs=options) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_manifest(tmp_path)) == files


def test_a_disk_too_small_is_told_before_anything_is_fetched(server: Unruly, small_disk: Path) -> None:
    server.content = dataset_bytes(rows=20_000)
    with pytest.raises(DatasetError, match=r"needs \d\.\d MB more, and the disk of .* has 0\.\d MB left; make room"):
        get(server, small_disk)
    assert not server.sent > 300_000


def test_a_disk_that_fills_up_keeps_the_part(server: Unruly, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.content = dataset_bytes(rows=20_000)
    monkeypatch.setattr("lifesafe.data.transfer.shutil.disk_usage", lambda _: type("Usage", (), {"free": 10**12}))
    with pytest.raises(DatasetError, match=r"No space left on device; make room .*bytes are kept; fetch again"):
        get(server, small_disk)
    part = small_disk / f"{NAME}.part"
    assert 0 < part.stat().st_size < len(server.content)
    assert server.content.startswith(part.read_bytes())
    assert len(server.asked) == 1  # a full disk is not a dropped connection


def test_a_place_that_cannot_be_written_is_named(server: Unruly, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match=r"Cannot keep .*file/data/.*Give another directory"):
        get(server, tmp_path / "file" / "data")
