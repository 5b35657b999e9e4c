"""HDF5 files in the layout of DSRL: flat columns, the episodes one after another.

The layout is one array per name of `COLUMNS`, a row per transition; an episode ends where `terminals` or `timeouts`
is 1. A file comes from anywhere, so nothing that it declares is believed before it is compared with what the file
holds, and whatever is wrong with it becomes one `DatasetError`.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from lifesafe._files import replacing
from lifesafe.data.dataset import Dataset
from lifesafe.errors import DatasetError

DSRL_COLUMNS = ("observations", "next_observations", "actions", "rewards", "costs", "terminals", "timeouts")
"""The columns that a file may have; all others are passed over."""

REQUIRED = ("observations", "actions", "rewards", "costs")
_ENDS = ("terminals", "timeouts")
_SMALL = 2**26  # bytes that may be read whatever the file holds: a column of nothing but its fill value takes no room
_DEFLATE = 1100  # gzip, and so HDF5, never packs more than about 1030 bytes into one
_SOURCE, _LONGEST = "source", 100  # an attribute of the file, and how many of its characters are believed
_PAGE = 4096  # columns of an uncompressed file begin at pages, so that they can be mapped


def read_dsrl(path: str | Path) -> Dataset:
    """Return the episodes of a file in DSRL's layout.

    Costs may be (n,) or (n, k), all columns of any number type, `next_observations` may be missing, and so may
    `terminals` or `timeouts`, if not both. A column that is stored as float32 without compression is memory-mapped
    rather than read; `write_dsrl(..., compress=False)` makes such files.

    Raises:
        DatasetError: If the file is missing, is not such a file, is damaged, or what it holds is not a dataset.
    """
    columns = read_columns(path)
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise DatasetError(
            f"{path} lacks {' and '.join(missing)}: a file in DSRL's layout has {', '.join(DSRL_COLUMNS)}."
            " Write your logs with write_dsrl, or read the arrays yourself and give them to Dataset.from_arrays."
        )
    if not any(name in columns for name in _ENDS):
        raise DatasetError(f"{path} has neither terminals nor timeouts, so nobody knows where its episodes end.")
    nowhere = np.zeros(len(columns["rewards"]), dtype=bool)
    ends = {name: columns.get(name, nowhere) for name in _ENDS}
    try:
        return Dataset.from_arrays(
            **{name: columns[name] for name in REQUIRED},
            **ends,
            next_observations=columns.get("next_observations"),
        )
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from error


def read_columns(path: str | Path) -> dict[str, np.ndarray]:
    """Return those of the known columns that a file has, as they are stored: any shape, any numbers, NaN too.

    Raises:
        DatasetError: If the file cannot be read, has none of them, or declares more than it holds.
    """
    path = Path(path)
    import h5py  # type: ignore[import-untyped]  # here, so that the data layer loads without it

    try:
        if not path.is_file():  # a directory or a pipe would be opened otherwise, and a pipe waits for ever
            raise DatasetError(f"{path} is not a file; give the path of an HDF5 file.")
        if not h5py.is_hdf5(path):
            path.open("rb").close()  # says why, if it may not be read
            raise DatasetError(
                f"{path} is not an HDF5 file, or its beginning is lost; if it was downloaded, fetch it again."
            )
        with h5py.File(path, "r", locking="best-effort") as file:
            stored = {name: _stored(file, name, path) for name in DSRL_COLUMNS if name in file}
            if not stored:
                raise DatasetError(
                    f"{path} has none of the columns of DSRL's layout ({', '.join(DSRL_COLUMNS)}); it holds something"
                    " else."
                )
            _check_memory(stored, path)
            return {name: _load(column, path) for name, column in stored.items()}
    except DatasetError:
        raise
    except OSError as error:
        raise DatasetError(
            f"Cannot read {path}: {_first_line(error)}. If it was downloaded or copied, do so again."
        ) from error
    except Exception as error:  # h5py raises nearly every built-in one, depending on which byte is wrong
        raise DatasetError(
            f"{path} is damaged: {_first_line(error)}. If it was downloaded or copied, do so again."
        ) from error


def write_dsrl(dataset: Dataset, path: str | Path, *, compress: bool = True, source: str = "") -> None:
    """Write a dataset in DSRL's layout, all of it or nothing; one cost is written as (n,), several as (n, k).

    Args:
        dataset: The episodes.
        path: The file, which is replaced if it exists.
        compress: Whether to write as DSRL does, with gzip. A file without is up to twice as large, and its
            columns are memory-mapped when it is read.
        source: Where the episodes come from, in a few words, for `read_source`.

    Raises:
        OSError: If it cannot be written, naming the path; what was there before is then still there.
    """
    import h5py

    path = Path(path)
    storage: dict[str, Any] = {"compression": "gzip", "shuffle": True} if compress else {}
    with (
        replacing(path) as temporary,
        h5py.File(temporary, "x", alignment_threshold=1, alignment_interval=1 if compress else _PAGE) as file,
    ):
        for name, column in _layout(dataset).items():
            file.create_dataset(name, data=column, **storage)
        if source:
            file.attrs[_SOURCE] = source


def read_source(path: str | Path) -> str:
    """Return where the episodes of a file come from, if it says so; public files do not.

    Raises:
        DatasetError: If the file cannot be read.
    """
    import h5py

    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            source = file.attrs.get(_SOURCE, "")
    except Exception as error:  # as above
        raise DatasetError(f"{path} cannot be read: {_first_line(error)}.") from error
    return " ".join(source.split())[:_LONGEST] if isinstance(source, str) else ""


def _layout(dataset: Dataset) -> dict[str, np.ndarray]:
    ends = np.zeros((2, dataset.transitions), dtype=np.float32)  # DSRL keeps flags as numbers, too
    last = dataset.offsets[1:] - 1
    ends[0, last] = dataset.terminated
    ends[1, last] = ~dataset.terminated
    costs = dataset.costs[:, 0] if dataset.costs.shape[1] == 1 else dataset.costs
    values = (dataset.observations, dataset.next_observations, dataset.actions, dataset.rewards, costs, *ends)
    return dict(zip(DSRL_COLUMNS, values, strict=True))


def _stored(file: Any, name: str, path: Path) -> Any:
    """Return a column that is safe to read, or refuse it."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise DatasetError(f"{path}: {name} is a link to another place; store the values in the file itself.")
    column = file[name]
    if (
        not isinstance(column, h5py.Dataset)
        or column.shape is None
        or column.ndim == 0
        or column.dtype.kind not in "biuf"
    ):
        raise DatasetError(f"{path}: {name} is not an array of numbers; store one row per transition.")
    if column.is_virtual or column.external:
        raise DatasetError(f"{path}: {name} keeps its values in other files; store them in the file itself.")
    _check_size(column, name, path)
    return column


def _check_size(column: Any, name: str, path: Path) -> None:
    declared, held, size = _bytes(column), column.id.get_storage_size(), path.stat().st_size
    packed = _DEFLATE if column.chunks else 1
    if held > size or declared > max(packed * held, _SMALL):
        raise DatasetError(
            f"{path}: {name} declares shape {column.shape}, {declared:.3g} bytes, but the file has only"
            f" {min(held, size)} bytes for it; the file is damaged or made to mislead."
        )


def _bytes(column: Any) -> int:
    # In Python's own integers: what a file declares may not fit into any other.
    return max(math.prod(map(int, column.shape)), math.prod(map(int, column.chunks or ()))) * int(column.dtype.itemsize)


def _check_memory(stored: dict[str, Any], path: Path) -> None:
    needed = sum(_bytes(column) for column in stored.values() if _mapping(column, path) is None)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return
    if needed > memory:
        raise DatasetError(
            f"{path} needs {needed / 2**30:.1f} GiB of memory, of which there are {memory / 2**30:.1f};"
            " rewrite it as float32 without compression, which is mapped rather than read, or take fewer episodes."
        )


def _mapping(column: Any, path: Path) -> int | None:
    """Return where in the file the values begin, or None if they cannot be used as they lie there."""
    if column.chunks or column.dtype != np.float32 or 0 in column.shape:
        return None
    offset = column.id.get_offset()
    if offset is None or offset % 4 or offset + _bytes(column) > path.stat().st_size:
        return None
    return int(offset)


def _load(column: Any, path: Path) -> np.ndarray:
    offset = _mapping(column, path)
    if offset is None:
        return np.asarray(column[()])
    # As a plain array: np.memmap slows every slice down, and the map lives as long as the array does.
    return np.asarray(np.memmap(path, dtype=np.float32, mode="r", offset=offset, shape=column.shape))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
