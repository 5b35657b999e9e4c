"""Files in DSRL's layout are read and written, and bad ones refused in words."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from lifesafe.data import Dataset, read_dsrl, read_source, write_dsrl
from lifesafe.data.check import check
from lifesafe.data.dsrl import DSRL_COLUMNS, read_columns
from lifesafe.errors import DatasetError
from logs import dataset


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs.hdf5"


def is_mapped(array: Any) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def write_with(path: Path, **changes: Any) -> Dataset:
    """Write a file in which some columns are replaced, or left out where None is given."""
    made = dataset(6)
    write_dsrl(made, path)
    with h5py.File(path, "r+") as file:
        for name, values in changes.items():
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values
    return made


def test_the_layout_is_that_of_dsrl(path: Path) -> None:
    made = dataset(6)
    write_dsrl(made, path)
    with h5py.File(path) as file:
        assert set(file) == set(DSRL_COLUMNS)
        assert {file[name].dtype for name in file} == {np.dtype(np.float32)}
        assert {file[name].compression for name in file} == {"gzip"}
        assert file["costs"].shape == file["rewards"].shape == (made.transitions,)
        ends = (file["terminals"][()] == 1) | (file["timeouts"][()] == 1)
        np.testing.assert_array_equal(np.flatnonzero(ends), made.offsets[1:] - 1)
        np.testing.assert_array_equal(file["terminals"][()][ends] == 1, made.terminated)


def test_an_uncompressed_file_is_mapped_and_a_compressed_one_read(path: Path) -> None:
    made = dataset(6)
    write_dsrl(made, path, compress=False)
    assert all(is_mapped(getattr(read_dsrl(path), name)) for name in ("observations", "actions", "rewards", "costs"))
    write_dsrl(made, path)
    assert not is_mapped(read_dsrl(path).observations)


def test_a_mapped_dataset_outlives_the_replacement_of_its_file(path: Path) -> None:
    made = dataset(6, seed=1)
    write_dsrl(made, path, compress=False)
    mapped = read_dsrl(path)
    write_dsrl(dataset(6, seed=2), path, compress=False)
    assert mapped.fingerprint == made.fingerprint


def test_a_mapped_column_is_found_behind_a_user_block(path: Path) -> None:
    values = np.arange(40, dtype=np.float32)
    with h5py.File(path, "w", userblock_size=512) as file:
        file["rewards"] = values
    read = read_columns(path)["rewards"]
    assert is_mapped(read)
    np.testing.assert_array_equal(read, values)


def test_columns_may_come_in_other_shapes_and_types(path: Path) -> None:
    made = dataset(6)
    last = made.offsets[1:] - 1
    ends = np.zeros((2, made.transitions, 1), dtype=bool)
    ends[0, last, 0], ends[1, last, 0] = made.terminated, ~made.terminated
    write_with(
        path,
        observations=made.observations.astype(np.float64),
        rewards=made.rewards[:, None].astype(">f4"),
        costs=made.costs.astype(np.int8),
        terminals=ends[0],
        timeouts=ends[1].astype(np.uint8),
        extra=np.zeros(3),
    )
    assert read_dsrl(path).fingerprint == made.fingerprint


def test_timeouts_and_next_observations_may_be_missing(path: Path) -> None:
    made = write_with(path, timeouts=None, next_observations=None)
    assert len(read_dsrl(path)) == made.terminated.sum() > 0


def test_columns_are_given_as_they_are_stored(path: Path) -> None:
    rewards = np.array([1.0, np.nan, np.inf], dtype=np.float64)
    write_with(path, rewards=rewards, terminals=None)
    columns = read_columns(path)
    assert set(columns) == set(DSRL_COLUMNS) - {"terminals"}
    np.testing.assert_array_equal(columns["rewards"], rewards)
    assert columns["rewards"].dtype == np.float64


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "costs"])
def test_a_missing_column_is_named(path: Path, name: str) -> None:
    write_with(path, **{name: None})
    with pytest.raises(DatasetError, match=rf"logs.hdf5 lacks {name}: .*write_dsrl"):
        read_dsrl(path)


def test_without_any_ends_nobody_knows_the_episodes(path: Path) -> None:
    write_with(path, terminals=None, timeouts=None)
    with pytest.raises(DatasetError, match="where its episodes end"):
        read_dsrl(path)


def test_what_is_wrong_with_the_values_names_the_file(path: Path) -> None:
    write_with(path, rewards=np.zeros(3))
    with pytest.raises(DatasetError, match=r"logs.hdf5: Got 3 rewards"):
        read_dsrl(path)


def virtual(file: h5py.File, name: str) -> None:
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("other.hdf5", "observations", (2,))
    file.create_virtual_dataset(name, layout)


def loop(file: h5py.File, name: str) -> None:
    file[name], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink(f"/{name}")


def stored(value: object) -> Callable[[h5py.File, str], None]:
    return lambda file, name: file.__setitem__(name, value)


def shaped(shape: tuple[int, ...], dtype: object = "f4", **options: Any) -> Callable[[h5py.File, str], None]:
    return lambda file, name: file.create_dataset(name, shape, dtype=dtype, **options)


HOSTILE: dict[str, tuple[Callable[[h5py.File, str], None], str]] = {
    "link": (stored(h5py.ExternalLink("/etc/hostname", "/observations")), "is a link to another place"),
    "soft link": (stored(h5py.SoftLink("/nowhere")), "is a link to another place"),
    "loop": (loop, "is a link to another place"),
    "group": (lambda file, name: file.create_group(name), "not an array of numbers"),
    "text": (stored(["left", "right"]), "not an array of numbers"),
    "compound": (shaped((3,), [("x", "f4"), ("y", "f4")]), "not an array of numbers"),
    "ragged": (shaped((3,), h5py.vlen_dtype(np.float32)), "not an array of numbers"),
    "reference": (shaped((3,), h5py.ref_dtype), "not an array of numbers"),
    "complex": (stored(np.zeros(9, dtype=complex)), "not an array of numbers"),
    "scalar": (stored(1.0), "not an array of numbers"),
    "nothing": (stored(h5py.Empty("f4")), "not an array of numbers"),
    "external": (shaped((2,), external=[("/etc/hostname", 0, 8)]), "in other files"),
    "virtual": (virtual, "in other files"),
    "huge": (
        shaped((10**12, 27), chunks=(1024, 27), compression="gzip"),
        r"\(1000000000000, 27\).*has only 0 bytes",
    ),
    "huge and contiguous": (shaped((10**12,)), "has only 0 bytes"),
    "overflowing": (shaped((2**62, 2**40), chunks=(1, 1)), "has only 0 bytes"),
    "huge chunk": (shaped((4,), chunks=(2**29,), maxshape=(None,)), "has only 0 bytes"),
    "wide": (shaped((100, 2**30), chunks=(1, 2**16)), "has only 0 bytes"),
    "something else": (
        lambda file, name: file.create_dataset("weather", (3,), "f4"),
        "none of the columns of DSRL's layout",
    ),
    "many axes": (shaped((2,) * 30, chunks=(1,) * 30), "has only 0 bytes"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_and_found_by_a_check(path: Path, kind: str) -> None:
    make, message = HOSTILE[kind]
    with h5py.File(path, "w") as file:
        make(file, "observations")
    for read in (read_columns, read_dsrl):
        with pytest.raises(DatasetError, match=rf"logs.hdf5.*{message}"):
            read(path)
    (finding,) = check(path)
    assert (finding.severity, finding.code) == ("error", "unreadable")


def test_more_than_fits_into_memory_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dataset(6)
    monkeypatch.setattr(os, "sysconf", lambda name: 10)  # 100 bytes
    write_dsrl(made, path)
    with pytest.raises(DatasetError, match="GiB of memory"):
        read_columns(path)
    write_dsrl(made, path, compress=False)
    read_columns(path)  # mapped, so it need not fit


def test_what_is_no_file_is_refused(path: Path) -> None:
    for place in (path, path.parent):
        with pytest.raises(DatasetError, match="is not a file"):
            read_columns(place)
    os.mkfifo(path)
    with pytest.raises(DatasetError, match="is not a file"):
        read_columns(path)


@pytest.mark.parametrize(
    "content", [b"", b"not HDF5 at all", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + b"\xff" * 500]
)
def test_foreign_content_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"logs.hdf5.*(again|damaged)"):
        read_dsrl(path)


@pytest.fixture
def ordinary_user(tmp_path: Path) -> Iterator[None]:
    """Be somebody who may not do everything."""
    root = os.geteuid() == 0
    if root:
        for folder in (tmp_path, *list(tmp_path.parents)[:2]):
            folder.chmod(0o755)  # so that the file is found
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_says_so(path: Path, request: pytest.FixtureRequest) -> None:
    write_dsrl(dataset(3), path)
    path.chmod(0)
    request.getfixturevalue("ordinary_user")
    with pytest.raises(DatasetError, match=r"Cannot read .*logs.hdf5: .*Permission denied"):
        read_dsrl(path)


def test_a_file_may_say_where_it_comes_from(path: Path) -> None:
    write_dsrl(dataset(3), path)
    assert read_source(path) == ""
    write_dsrl(dataset(3), path, source="the robot in hall 2")
    assert read_source(path) == "the robot in hall 2"
    assert read_dsrl(path).fingerprint == dataset(3).fingerprint


@pytest.mark.parametrize(
    ("told", "read"), [(7, ""), (np.zeros(3), ""), ("two\nlines | of it", "two lines | of it"), ("x" * 1000, "x" * 100)]
)
def test_what_a_file_says_of_itself_is_one_short_line(path: Path, told: object, read: str) -> None:
    write_dsrl(dataset(3), path)
    with h5py.File(path, "r+") as file:
        file.attrs["source"] = told
    assert read_source(path) == read


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    path = small_disk / "logs.hdf5"
    made = dataset(4)
    write_dsrl(made, path)
    with pytest.raises(OSError, match=r"Cannot write.*logs.hdf5"):
        write_dsrl(dataset(4000, longest=50), path, compress=False)
    assert [place.name for place in small_disk.iterdir()] == [path.name]
    assert read_dsrl(path).fingerprint == made.fingerprint
