"""Columns of one length and known shape, made from whatever a file holds, and what hinders that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int, Shaped

from lifesafe.data.check.finding import Finding, found

NEEDED = ("observations", "actions", "rewards", "costs")
ENDS = ("terminals", "timeouts")
KNOWN = (*NEEDED, "next_observations", *ENDS)

_BLOCK = 2**16  # rows looked at together: columns may be larger than the memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Columns that fit together, named as in `Dataset`; their values may still be anything."""

    observations: Shaped[np.ndarray, "n o"]
    actions: Shaped[np.ndarray, "n a"]
    rewards: Shaped[np.ndarray, " n"]
    costs: Shaped[np.ndarray, "n k"]
    next_observations: Shaped[np.ndarray, "n o"] | None
    terminals: Bool[np.ndarray, " n"]
    timeouts: Bool[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def ended(self) -> Bool[np.ndarray, " n"]:
        """Whether an episode ends at each row."""
        either: np.ndarray = self.terminals | self.timeouts
        return either

    @cached_property
    def offsets(self) -> Int[np.ndarray, " offsets"]:
        """Where each whole episode begins, and where the last one ends."""
        return np.concatenate([[0], np.flatnonzero(self.ended) + 1])


def blocks(rows: int) -> Iterator[slice]:
    """Cut so many rows into pieces."""
    return (slice(start, min(start + _BLOCK, rows)) for start in range(0, rows, _BLOCK))


def tabulate(columns: Mapping[str, np.ndarray]) -> tuple[Columns | None, list[Finding]]:
    """Return the columns as a table, or None where that cannot be, and what was found on the way."""
    findings = list(_missing(columns))
    usable = {}
    for name in KNOWN:
        if name in columns:
            problems, usable[name] = _shaped(name, columns[name])
            findings += problems
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    lengths = {name: len(column) for name, column in usable.items()}
    now, after = usable["observations"], usable.get("next_observations")
    if len(set(lengths.values())) > 1:
        return None, [*findings, _error("shape", f"The columns have different numbers of rows: {lengths}.")]
    if not len(now):
        return None, [*findings, _error("empty", "The columns have no rows.")]
    if after is not None and now.shape != after.shape:
        text = f"observations have shape {now.shape}, next_observations {after.shape}."
        return None, [*findings, _error("shape", text)]
    ends = {name: usable.get(name, np.zeros(len(now))) for name in ENDS}
    for name, column in ends.items():
        with np.errstate(invalid="ignore"):
            strange = ~((column == 0) | (column == 1))
        if strange.any():
            message = f"{name} is neither 0 nor 1 in {strange.sum()} rows; there it counts as 1."
            findings.append(found("warning", "flags", message, "Store 1 where an episode ends, 0 elsewhere.", strange))
    return Columns(
        **{name: usable[name] for name in NEEDED},
        next_observations=after,
        **{name: np.asarray(column != 0) for name, column in ends.items()},
    ), findings


def _error(code: str, message: str) -> Finding:
    return found("error", code, message, "Store one row per transition in every column. Nothing else was checked.")


def _missing(columns: Mapping[str, np.ndarray]) -> Iterator[Finding]:
    if absent := [name for name in NEEDED if name not in columns]:
        yield _error("missing", f"There is no column {', '.join(absent)}.")
    ends = [name for name in ENDS if name not in columns]
    if len(ends) == 2:
        yield _error("missing", "There are neither terminals nor timeouts, so no episode ends.")
    elif ends:
        yield found("note", "missing", f"There is no column {ends[0]}; it counts as all 0.")
    if "next_observations" not in columns:
        advice = "They are taken from the following row; the one after an episode's last step stays unknown."
        yield found("note", "missing", "There are no next_observations.", advice)


def _shaped(name: str, column: np.ndarray) -> tuple[list[Finding], np.ndarray]:
    """Return a column as a matrix, or flat where there is one number a row, and what is wrong with it."""
    if column.dtype.kind not in "biuf":
        return [_error("dtype", f"{name} has type {column.dtype}, which is not a number.")], column
    flat = name == "rewards" or name in ENDS
    if column.ndim == 1:
        return [], column if flat else column[:, None]
    if column.ndim != 2 or 0 in column.shape[1:] or (flat and column.shape[1] != 1):
        accepted = "(n,)" if flat else "(n, size) with at least one number a row"
        return [_error("shape", f"{name} has shape {column.shape}; it must be {accepted}.")], column
    findings = []
    if column.dtype == np.float16:
        message = f"{name} is stored with half precision, about three digits."
        findings.append(found("note", "dtype", message, "Store float32."))
    return findings, column[:, 0] if flat else column
