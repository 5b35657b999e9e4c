"""Which jobs of a suite are finished, and whether they are what the suite would do today."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lifesafe.data import read_dsrl
from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.results import Row, read_rows, rows_file
from lifesafe.lab.benchmark.suite import Job, Suite


def finished_jobs(suite: Suite, directory: Path, data: Mapping[str, Path]) -> list[Job]:
    """Return the jobs whose rows are there.

    Args:
        suite: What the jobs belong to.
        directory: Of the suite.
        data: The file to learn from, by task; the tasks' own data for those not given.

    Raises:
        ConfigError: If rows were made with other settings, or from other data.
    """
    paths = {job: rows_file(directory, job.name) for job in suite.jobs()}
    found = {job: read_rows(path) for job, path in paths.items() if path.exists()}
    tasks = {job.task for job in found} & data.keys()
    fingerprints = {task: read_dsrl(data[task]).fingerprint for task in sorted(tasks)}
    for job, rows in found.items():
        difference = next(filter(None, (_difference(row, job, suite, fingerprints) for row in rows)), "")
        if difference:
            raise ConfigError(
                f"{paths[job]} was made {difference}. Give another directory with --out; or, to run this job anew,"
                f" remove the file and jobs/{job.name}."
            )
    return list(found)


def _difference(row: Row, job: Job, suite: Suite, fingerprints: Mapping[str, str]) -> str:
    """Return how the making of a row differs from what the suite would do, in words; rows of old say less."""
    if row.settings not in ("", suite.fingerprint(job)):
        return (
            f"with other settings of {job.method}, or measured or searched otherwise, than suite"
            f" {suite.name} says now ({row.settings[:8]}, not {suite.fingerprint(job)[:8]})"
        )
    expected = fingerprints.get(job.task)
    if expected is None:
        return f"from the file {row.data}, and none is given now" if row.data else ""
    return (
        "" if row.fingerprint in ("", expected) else f"from {row.learned_from}, not the data {expected[:8]} given now"
    )
