"""check: all findings about a dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lifesafe.data.check.copying import check_copying
from lifesafe.data.check.episodes import TaskSizes, check_duplicates, check_ends, check_next_observations, check_sizes
from lifesafe.data.check.finding import SEVERITIES, Finding, found
from lifesafe.data.check.plane import check_plane
from lifesafe.data.check.table import tabulate
from lifesafe.data.check.values import check_finite, check_values
from lifesafe.data.dsrl import read_columns
from lifesafe.errors import DatasetError


def check(
    source: Mapping[str, Any] | str | os.PathLike[str],
    *,
    limits: Sequence[float] | float | None = None,
    task: TaskSizes | None = None,
) -> list[Finding]:
    """Return what is to be known about a dataset, the worst first; whatever it holds, nothing is raised.

    Args:
        source: Flat columns as in DSRL's layout, or the path of such a file.
        limits: One limit per cost, to judge how well the plane of cost and reward is covered there.
        task: Sizes, horizon, limits and largest costs to hold the data to; other limits come first.
    """
    try:
        columns = _columns(source)
    except DatasetError as error:
        return [found("error", "unreadable", str(error))]
    if limits is None:
        limits = task.limits if task else None
    else:
        limits = tuple(np.atleast_1d(np.asarray(limits, dtype=float)).tolist())
    table, findings = tabulate(columns)
    if table is not None:
        findings += check_sizes(table, task) if task else []
        findings += check_ends(table, task.horizon if task else None)
        nonfinite = list(check_finite(table))
        findings += nonfinite
        if not nonfinite:
            findings += check_values(table, task.largest_costs if task else None)
            if len(table.offsets) > 1:
                findings += check_next_observations(table)
                findings += check_duplicates(table)
                findings += check_copying(table)
                findings += check_plane(table, limits)
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _columns(source: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, np.ndarray]:
    if not isinstance(source, Mapping):
        return read_columns(os.fspath(source))
    try:
        return {name: np.asarray(column) for name, column in source.items()}
    except ValueError as error:  # rows of different lengths
        raise DatasetError(f"A column is not an array: {error}.") from error
