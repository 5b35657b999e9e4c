"""A file is fetched whole or not at all, whatever the network does."""

from __future__ import annotations

import hashlib
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from lifesafe.data.fetch import fetch
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.interfaces import Progress
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
    return fetch(NAME, directory, **{"mirrors": [server.address], "patience": 0.001, **options})


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def part(directory: Path) -> Path:
    (found,) = directory.glob(f"{NAME}*.part")
    return found


def assert_whole(path: Path, content: bytes = CONTENT) -> None:
    assert path.read_bytes() == content
    assert names(path.parent) == {NAME, f"{NAME}.sha256"}
    subprocess.run(["sha256sum", "--status", "-c", f"{NAME}.sha256"], cwd=path.parent, check=True)


def give_up(server: Unruly, directory: Path, stop: int = 10_000) -> None:
    """Leave the beginning of the file behind, as a fetch does that gives up."""
    server.answers = [answer(stop=stop), *[hang_up] * 5]
    with pytest.raises(DatasetError, match="after 5 tries"):
        get(server, directory)


def test_a_file_is_fetched_and_its_digest_noted(server: Unruly, tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = get(server, tmp_path / "new" / "place", report=seen.append)
    assert path == tmp_path / "new" / "place" / NAME
    assert_whole(path)
    assert [seen[0].done, seen[-1].done, seen[-1].total] == [0, len(CONTENT), len(CONTENT)]


def test_a_file_that_is_there_is_not_fetched_again(server: Unruly, tmp_path: Path) -> None:
    assert get(server, tmp_path) == get(server, tmp_path) == get(server, tmp_path, offline=True) == tmp_path / NAME
    assert len(server.asked) == 1


def test_a_dropped_connection_is_resumed_where_it_ended(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000), answer(stop=20_000), hang_up]
    notes: list[str] = []
    assert_whole(get(server, tmp_path, report=lambda state: notes.append(state.note)))
    assert server.ranges == [None, "bytes=10000-", "bytes=30000-", "bytes=30000-"]
    assert server.asked[1]["If-Range"] == f'"{hashlib.md5(CONTENT).hexdigest()}"'
    assert server.sent == len(CONTENT)
    assert any(f"the connection ended after 10000 of {len(CONTENT)} bytes; trying again" in note for note in notes)


def test_a_connection_that_drops_often_arrives_if_it_moves(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=4096)] * 12
    assert_whole(get(server, tmp_path))
    assert len(server.asked) == 13


@pytest.mark.parametrize(
    ("answers", "content"),
    [
        ([answer(stop=10_000), answer(ranges=False)], CONTENT),
        ([answer(stop=10_000), change(OTHER)], OTHER),  # two versions are never glued together
        ([answer(stop=10_000), refuse(206, Content_Range=f"bytes 5-9/{len(CONTENT)}")], CONTENT),
        ([answer(length=500)], CONTENT),
    ],
    ids=["no ranges", "another version", "another piece", "too much announced"],
)
def test_the_file_arrives_whatever_the_server_makes_of_ranges(
    server: Unruly, tmp_path: Path, answers: list[Any], content: bytes
) -> None:
    server.answers = answers
    assert_whole(get(server, tmp_path), content)


def test_a_server_that_always_drops_is_given_up(server: Unruly, tmp_path: Path) -> None:
    server.answers = [answer(stop=10_000, ranges=False)] * 50
    with pytest.raises(DatasetError, match="the connection ended after 10000 of"):
        get(server, tmp_path)
    assert len(server.asked) <= 6


def test_without_a_version_nothing_is_resumed(server: Unruly, tmp_path: Path) -> None:
    server.has_version = False
    server.answers = [answer(stop=10_000)]
    assert_whole(get(server, tmp_path))
    assert server.ranges == [None, None]


@pytest.mark.parametrize("begun", [CONTENT, CONTENT + b"more", b"x" * 500], ids=["whole", "longer", "wrong"])
def test_what_was_left_behind_is_used_only_if_the_whole_is_right(server: Unruly, tmp_path: Path, begun: bytes) -> None:
    give_up(server, tmp_path)
    part(tmp_path).write_bytes(begun)
    before = server.sent
    assert_whole(get(server, tmp_path))
    assert (server.sent == before) == (begun == CONTENT)


@pytest.mark.parametrize("status", [408, 429, 503])
def test_troubles_that_pass_are_waited_for(server: Unruly, tmp_path: Path, status: int) -> None:
    server.answers = [refuse(status), refuse(status, Retry_After="rubbish")]
    assert_whole(get(server, tmp_path))


def test_the_server_is_given_the_time_it_asks_for(server: Unruly, tmp_path: Path) -> None:
    notes: list[str] = []
    server.answers = [refuse(429, Retry_After="1")]
    get(server, tmp_path, report=lambda state: notes.append(state.note))
    assert "the server answers 429 Too Many Requests; trying again in 1 s" in notes


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_is_not_repeated(server: Unruly, tmp_path: Path, status: int) -> None:
    server.answers = [refuse(status)]
    with pytest.raises(DatasetError, match=rf"Could not fetch {NAME}:\n  {server.address}/{NAME}: .* {status} "):
        get(server, tmp_path)
    assert len(server.asked) == 1
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"", {}, "what arrived is not such a file"),
        (b"<html>Please log in</html>", {}, "what arrived is not such a file"),
        (CONTENT[: len(CONTENT) // 2], {}, "what arrived is not such a file"),
        (CONTENT, {"length": -500}, "what arrived is not such a file"),
        (CONTENT, {"flip": len(CONTENT) // 2}, "what arrived is not such a file"),
        (dataset_bytes(without="costs"), {}, "has no costs"),
    ],
)
def test_what_is_not_such_a_file_is_thrown_away(
    server: Unruly, tmp_path: Path, content: bytes, options: dict[str, int], told: str
) -> None:
    server.content, server.answers = content, [answer(**options)]
    with pytest.raises(DatasetError, match=told):
        get(server, tmp_path)
    assert names(tmp_path) == set()


def test_the_digest_that_a_redirect_promises_is_held_against_the_file(server: Unruly, tmp_path: Path) -> None:
    right, wrong = hashlib.sha256(CONTENT).hexdigest(), hashlib.sha256(OTHER).hexdigest()
    redirect = {"Location": f"{server.address}/elsewhere"}
    server.answers = [refuse(302, **redirect, X_Linked_Etag=f'"{wrong}"')]
    with pytest.raises(DatasetError, match=f"SHA-256 is {right[:12]}..., the server promises {wrong[:12]}..."):
        get(server, tmp_path)
    server.answers = [refuse(302, **redirect, X_Linked_Etag=f'"{right}"')]
    assert_whole(get(server, tmp_path))


def test_the_next_mirror_is_asked_when_one_fails_and_what_the_first_sent_is_kept(
    server: Unruly, tmp_path: Path
) -> None:
    give_up(server, tmp_path)
    with pytest.raises(DatasetError, match=r"no connection \(.*(?s:.*)The first 10000 bytes are kept"):
        get(server, tmp_path, mirrors=["http://127.0.0.1:9/nobody"])
    server.answers = [refuse(404)]
    assert_whole(get(server, tmp_path, mirrors=[server.address, f"{server.address}/two"]))
    assert server.ranges[-1] == "bytes=10000-"


@pytest.mark.parametrize("form", [str, Path])
def test_a_directory_can_be_a_mirror(tmp_path: Path, form: Any) -> None:
    (tmp_path / "from here").mkdir()
    (tmp_path / "from here" / NAME).write_bytes(CONTENT)
    assert_whole(fetch(NAME, tmp_path / "to", mirrors=["nowhere", form(tmp_path / "from here")], offline=True))


def test_offline_says_where_it_looked_and_asks_nobody(server: Unruly, tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        get(server, tmp_path / "data", mirrors=[server.address, tmp_path / "mirror"], offline=True)
    assert str(tmp_path / "data" / NAME) in str(caught.value)
    assert str(tmp_path / "mirror" / NAME) in str(caught.value)
    assert not server.asked
    assert not (tmp_path / "data").exists()


def test_a_changed_file_is_refused_until_forced(server: Unruly, tmp_path: Path) -> None:
    path = get(server, tmp_path)
    path.write_bytes(bytes(len(CONTENT)))
    with pytest.raises(DatasetError, match=r"is not the file that was fetched.*--force; to keep this one delete"):
        get(server, tmp_path, offline=True)
    assert_whole(get(server, tmp_path, force=True))
    server.answers = [refuse(404)]
    with pytest.raises(DatasetError):
        get(server, tmp_path, force=True)
    assert_whole(path)  # a force that fails leaves the old file


def test_a_file_put_there_by_hand_is_taken_if_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT[:20_000])
    with pytest.raises(DatasetError, match="fetch it again with --force"):
        fetch(NAME, tmp_path, offline=True)
    (tmp_path / NAME).write_bytes(CONTENT)
    assert_whole(fetch(NAME, tmp_path, offline=True))


@pytest.mark.parametrize("name", ["", "../x.hdf5", "/etc/passwd", "a/b", ".hidden"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a data file"):
        fetch(name, tmp_path)


def test_a_disk_that_fills_up_keeps_the_part(server: Unruly, small_disk: Path) -> None:
    server.content = dataset_bytes(rows=20_000)
    with pytest.raises(DatasetError, match=r"No space left on device.*make room there .* what has arrived is kept"):
        get(server, small_disk)
    assert 0 < part(small_disk).stat().st_size < len(server.content)
    assert server.content.startswith(part(small_disk).read_bytes())
    assert len(server.asked) == 1  # a full disk is not a dropped connection
