"""Logged data: fetch them, look them over, summarize and draw them."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, UseAppendAction

from lifesafe._config import nearest
from lifesafe._files import sha256_file
from lifesafe.console.arguments import Directory, OutFile, option
from lifesafe.console.progress import progress
from lifesafe.console.prompts import FOUND, OK
from lifesafe.console.settings import data_directory
from lifesafe.console.tables import print_json
from lifesafe.data import fetch as downloads
from lifesafe.data import read_dsrl
from lifesafe.data.check import Finding, check_in_child
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.systems import Task
from lifesafe.systems import task as find_task
from lifesafe.systems import tasks as known_tasks

Names = Annotated[tuple[str, ...], Positional, option("TASK")]
Mirrors = Annotated[tuple[str, ...], UseAppendAction, tyro.conf.arg(metavar="ADDRESS")]
DataFile = Annotated[str, Positional, option("FILE")]
_Limits = Annotated[tuple[float, ...], UseAppendAction, tyro.conf.arg(metavar="LIMIT")]
TaskName = Annotated[str | None, option("TASK")]


def fetch(
    names: Names,
    /,
    *,
    data_dir: Directory = None,
    mirror: Mirrors = (),
    offline: bool = False,
    force: bool = False,
    json: bool = False,
) -> int:
    """Download the public data of tasks.

    The data are those of DSRL (Liu et al. 2023, CC-BY 4.0), 40 MB to some hundred per task. A download that broke off
    goes on where it ended. A file gets its name only when it is whole and can be read; its SHA-256 is then kept beside
    it, and compared when it is fetched again. Without a network, copy a file into the directory by hand, or give a
    directory as mirror.

    Examples:
        lifesafe data fetch CarCircle
        lifesafe data fetch HopperVelocity Walker2dVelocity --data-dir /data/dsrl
        lifesafe data fetch CarCircle --mirror ~/.dsrl/datasets --offline

    Exit codes: 0 all are there, 2 an error (what has arrived is kept), 130 interrupted (run it again to go on).

    Args:
        names: Tasks, as `lifesafe tasks` lists them, or names of files of DSRL.
        data_dir: Where to keep them; unless given $LIFESAFE_DATA, or else ~/.cache/lifesafe/datasets.
        mirror: Address or directory to look in before the public one; may be given several times.
        offline: Never touch the network.
        force: Fetch again what is there.
        json: Print what was fetched as JSON.
    """
    if not names:
        raise ConfigError("Give the name of at least one task; `lifesafe tasks` lists them.")
    directory = data_directory(data_dir)
    told = []
    for name, file in [(name, _public_file(name)) for name in names]:
        with progress(name) as report:
            mirrors = (*mirror, *downloads.MIRRORS)
            path = downloads.fetch(file, directory, mirrors=mirrors, offline=offline, force=force, report=report)
        told.append({"name": name, "path": str(path), "size": path.stat().st_size, "sha256": sha256_file(path)})
        if not json:
            print(path)
    if json:
        print_json(told)
    return OK


def check(
    file: DataFile,
    /,
    *,
    limit: _Limits = (),
    task: TaskName = None,
    strict: bool = False,
    json: bool = False,
) -> int:
    """Check a data file before a policy learns from it.

    Each finding comes with advice. Looked for are missing columns, wrong shapes, NaN and infinities; episodes
    without end, cut off or stored twice; costs outside their bounds; next observations that do not follow; actions
    outside [-1, 1], or that can be copied from the action before; and how well the episodes cover the plane of cost
    and reward around the limit. The file is read in a process of its own, so that a damaged or hostile one does no
    harm.

    errors: learning fails or goes wrong. warnings: it probably suffers. notes: good to know.

    Examples:
        lifesafe data check logs.hdf5 --limit 20
        lifesafe data check CarCircle
        lifesafe data check logs.hdf5 --task HopperVelocity --json | jq '.findings[].code'

    Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 there is no such file or a wrong option.

    Args:
        file: An HDF5 file in the layout of DSRL, or a task whose file was fetched.
        limit: Largest mean cost of an episode that you have in mind; given once per cost, in their order. Of a task
            its own unless given.
        task: Task whose sizes, horizon and largest costs to hold the data to; known by itself for files of DSRL.
        strict: Let warnings count as errors do.
        json: Print the findings as JSON.
    """
    path, known = _located(file, task)
    with progress("checking"):
        findings = check_in_child(path, limits=_limits(limit), task=known)
    counts = {kind: sum(f.severity == kind for f in findings) for kind in ("error", "warning", "note")}
    if json:
        plain = [asdict(finding) for finding in findings]
        print_json({"file": str(path), "task": known.name if known else None, **counts, "findings": plain})
    else:
        for finding in findings:
            print(_lines(finding))
        print(f"{path}{f' as {known.name}' if known else ''}: {', '.join(_counted(*item) for item in counts.items())}")
    return FOUND if counts["error"] or (strict and counts["warning"]) else OK


def summary(file: DataFile, /, *, limit: _Limits = (), json: bool = False) -> int:
    """Print how many episodes a data file has, and their returns.

    Told are how many episodes and steps there are, how long the episodes are and what they earn and cost, from the
    least to the most; with a limit also how many keep it, and the best of those.

    Examples:
        lifesafe data summary logs.hdf5 --limit 20
        lifesafe data summary CarCircle --json | jq .best

    Exit codes: 0 told, 2 an error.

    Args:
        file: An HDF5 file in the layout of DSRL, or a task whose file was fetched.
        limit: Largest mean cost of an episode; given once per cost, in their order. Of a task its own unless given.
        json: Print the figures as JSON.
    """
    path, known = _located(file, None)
    limits = _limits(limit) or (known.limits if known else None)
    with progress("reading"):
        told = read_dsrl(path).summary(limits)
    if json:
        print_json(asdict(told))
    else:
        print(told)
    return OK


def plot(file: DataFile, /, *, limit: _Limits = (), out: OutFile = None) -> int:
    """Draw reward against cost of the episodes in a data file.

    Every episode is a point; the line is the best reward at each cost. Where many episodes lie near the limit and near
    the line, a policy can learn to be asked for returns there.

    Examples:
        lifesafe data plot logs.hdf5 --limit 20
        lifesafe data plot CarCircle --limit 20 --out car-circle.svg

    Exit codes: 0 drawn, 2 an error.

    Args:
        file: An HDF5 file in the layout of DSRL, or a task whose file was fetched.
        limit: Cost limit to draw; may be given several times. Of a task its own unless given.
        out: Picture to write: .png or .svg; a .png with the name of the file, here, unless told.
    """
    from lifesafe.report.data_chart import draw_dataset

    path, known = _located(file, None)
    picture = out or Path(f"{path.stem}.png")
    with progress("drawing"):
        title = known.name if known else path.name
        draw_dataset(read_dsrl(path), _limits(limit) or (known.limits if known else None), picture, title)
    print(f"Picture: {picture}")
    return OK


def _public_file(name: str) -> str:
    """Return the name of the file of DSRL that belongs to a task; a name of a file stands for itself."""
    if name.endswith((".hdf5", ".h5")):
        return name
    task = find_task(name)
    if task.dataset_file is None:
        raise DatasetError(
            f"Task {name!r} has no public data; `lifesafe data collect` makes some, and `lifesafe tasks` lists the"
            " tasks that have."
        )
    return task.dataset_file


def _located(file: str, task: str | None) -> tuple[Path, Task | None]:
    """Return the path that a file or a task's name stands for, and the task that it belongs to, if one is known."""
    path = Path(file).expanduser()
    by_file = {known.dataset_file: known for known in known_tasks() if known.dataset_file}
    if path.exists():
        return path, find_task(task) if task else by_file.get(path.name)
    named = {known.name: known for known in known_tasks()}.get(file)
    if named is None:
        hint = nearest(file, (known.name for known in known_tasks()))
        raise DatasetError(f"{path} does not exist; give an HDF5 file, or a task whose file was fetched.{hint}")
    path = data_directory() / _public_file(file)
    if not path.exists():
        raise DatasetError(f"{path} does not exist; get it with: lifesafe data fetch {file}")
    return path, find_task(task) if task else named


def _limits(given: Sequence[float]) -> tuple[float, ...] | None:
    for limit in given:
        if not (math.isfinite(limit) and limit >= 0):
            raise ConfigError(f"A limit is a number that is not negative; got {limit:g}.")
    return tuple(given) or None


def _lines(finding: Finding) -> str:
    """Return a finding as lines that fit the terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
    rows = f"First at {', '.join(map(str, finding.rows))}." if finding.rows else ""
    paragraphs = [f"{finding.severity:7}  {finding.code}: {finding.message}"]
    paragraphs += [f"{'':9}{text}" for text in (rows, finding.advice) if text]
    wrapped = [
        textwrap.fill(text, max(width, 40), subsequent_indent=" " * 9, break_on_hyphens=False) for text in paragraphs
    ]
    return "\n".join([*wrapped, ""])


def _counted(kind: str, count: int) -> str:
    return f"{count or 'no'} {kind}{'' if count == 1 else 's'}"
