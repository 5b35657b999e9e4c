"""Many deployments in parallel. Each outcome is on disk when it is known, so a study that was killed goes on."""

from __future__ import annotations

import ast
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from functools import cache
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path

import lifesafe
from lifesafe._files import sha256
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.interfaces import Progress, Report
from lifesafe.lab.coverage.deployment import CoverageRow, Deployment, deploy

_CHUNK = 4  # deployments handed to a worker at once
_DECIDING = ("journal", "safety", "lab/coverage", "lab/paper.py")  # what the outcomes depend on


def simulate(
    rows: Sequence[CoverageRow],
    deployments: int,
    directory: Path,
    *,
    workers: int = 2,
    report: Report = lambda _: None,
    run: Callable[[CoverageRow, int], Deployment] = deploy,
) -> dict[CoverageRow, list[Deployment]]:
    """Return the outcomes of so many deployments of every row, simulating those that the directory does not hold yet.

    Args:
        rows: What to simulate.
        deployments: How many of each row.
        directory: Has a file for each row, with a line for each outcome.
        workers: Processes; with 1, all is done in this one.
        report: Told how many deployments are known.
        run: Returns the outcome of a deployment.

    Raises:
        DatasetError: If the directory holds outcomes of other code, or something else.
    """
    if deployments < 1 or workers < 1:
        raise ConfigError(f"Got {deployments} deployments on {workers} workers; give at least one of each.")
    directory.mkdir(parents=True, exist_ok=True)
    known = {row: _read(_path(directory, row)) for row in rows}
    missing = [(row, number) for row in rows for number in range(deployments) if number not in known[row]]
    total = len(rows) * deployments
    before = total - len(missing)
    report(Progress("deployments", before, total))
    for number, outcome in enumerate(_outcomes(run, missing, workers)):
        row = missing[number][0]
        known[row][outcome.number] = outcome
        _append(_path(directory, row), outcome)
        report(Progress("deployments", before + number + 1, total))
    return {row: [known[row][number] for number in range(deployments)] for row in rows}


def _path(directory: Path, row: CoverageRow) -> Path:
    return directory / f"{row.name}.jsonl"


def _outcomes(
    run: Callable[[CoverageRow, int], Deployment], tasks: Sequence[tuple[CoverageRow, int]], workers: int
) -> Iterator[Deployment]:
    if workers == 1:
        yield from starmap(run, tasks)
        return
    with _one_thread_each():
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        try:
            yield from pool.map(run, *zip(*tasks, strict=True), chunksize=_CHUNK) if tasks else ()
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let workers that begin now compute in one thread: more only get in each other's way."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before


def _read(path: Path) -> dict[int, Deployment]:
    """Return the outcomes in a file by number; a last line that a kill cut short is not one of them."""
    if not path.exists():
        return {}
    first, *lines = path.read_text().split("\n")
    if first != _header():
        raise DatasetError(
            f"{path} holds outcomes of another version of the search. Delete it, or name another output."
        )
    names = {field.name for field in fields(Deployment)}
    found: dict[int, Deployment] = {}
    for line in lines[:-1]:  # what follows the last newline is empty, or was cut short
        plain = json.loads(line)
        if set(plain) != names:
            raise DatasetError(f"{path} holds a line that is no outcome: {line[:80]}. Delete it.")
        found[plain["number"]] = Deployment(**plain | {"regrets": tuple(plain["regrets"])})
    if lines and lines[-1]:
        path.write_text("\n".join([first, *lines[:-1], ""]))
    return found


def _append(path: Path, outcome: Deployment) -> None:
    head = "" if path.exists() else _header() + "\n"
    with path.open("a") as file:
        file.write(head + json.dumps(asdict(outcome)) + "\n")


@cache
def _header() -> str:
    """Return the first line of a file: which code made it. Comments and layout do not count."""
    root = Path(lifesafe.__file__).parent
    files = [file for part in _DECIDING for file in sorted((root / part).rglob("*.py")) or [root / part]]
    return json.dumps({"code": sha256("".join(ast.dump(ast.parse(file.read_text())) for file in files))[:16]})
