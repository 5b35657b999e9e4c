"""Run the jobs of a suite, wherever there is room for them; what is finished is not done again."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from lifesafe._files import write_atomic
from lifesafe.interfaces import Progress, Report
from lifesafe.lab.benchmark.finished import finished_jobs
from lifesafe.lab.benchmark.suite import Job, Suite

JOBS, ERROR, LOG, STATUS = "jobs", "error.txt", "log.txt", "status.json"
_WAIT, _LOOK = 0.2, 2.0  # seconds between two looks at the pool, and at how far its jobs are


class Pool(Protocol):
    """Runs jobs side by side, and leaves the rows of each in the directory of the suite.

    Attributes:
        data: The file to learn from, by task; the tasks' own data for those not given.
    """

    data: Mapping[str, Path]

    def room(self) -> int:
        """Return how many jobs may run at once, now."""
        ...

    def start(self, job: Job) -> None:
        """Begin a job, or go on with it."""
        ...

    def ended(self) -> list[tuple[Job, str | None]]:
        """Return the jobs that have ended since the last call, each with why it failed if it did."""
        ...

    def close(self) -> None:
        """Stop what is running."""
        ...


def run_suite(
    suite: Suite, directory: str | Path, pool: Pool, *, attempts: int = 2, report: Report = lambda _: None
) -> list[Job]:
    """Run all jobs that are not finished yet, and return those that failed.

    A job that raises or dies is tried again; its error is in `jobs/NAME/error.txt`, and what it printed in `log.txt`
    beside it. When this process is killed, the jobs under way go on from their last checkpoints with the next call.

    Args:
        suite: What to run.
        directory: Where everything is kept.
        pool: What runs the jobs; it is closed at the end.
        attempts: How often a job is tried.
        report: Told what happens to every job, and how far those are that run.

    Raises:
        ConfigError: If the directory has results of such jobs from other settings or other data.
    """
    try:
        return _run(suite, Path(directory), pool, attempts, report)
    finally:
        pool.close()


def _run(suite: Suite, directory: Path, pool: Pool, attempts: int, report: Report) -> list[Job]:
    jobs, finished = suite.jobs(), finished_jobs(suite, directory, pool.data)
    waiting = [job for job in jobs if job not in finished]
    tried = dict.fromkeys(waiting, 0)
    running: dict[Job, Progress] = {}
    failed, done, looked = [], len(finished), time.monotonic()

    def tell(job: Job, happened: str) -> None:
        report(Progress("jobs", done, len(jobs), f"[{done}/{len(jobs)}] {job.name} {happened}"))

    for job in finished:
        tell(job, "done before")
    while waiting or running:
        while waiting and len(running) < max(pool.room(), 1):
            job = waiting.pop(0)
            status_file(directory, job).unlink(missing_ok=True)  # of an earlier process
            pool.start(job)
            running[job] = Progress(job.name, 0)
            tell(job, "failed, begun again" if tried[job] else "begun")
            tried[job] += 1
        for job, reason in pool.ended():
            last = running.pop(job)
            report(Progress(last.doing, last.done, last.done))  # its bar ends
            if reason is None:
                done += 1
                tell(job, "done")
            elif tried[job] < attempts:
                waiting.insert(0, job)
            else:
                failed.append(job)
                tell(job, f"FAILED: {reason}")
        time.sleep(_WAIT)
        if time.monotonic() >= looked + _LOOK:
            looked = time.monotonic()
            for job in running:
                if (status := read_status(directory, job)) is not None:  # else it has just begun, or is elsewhere
                    running[job] = status
                    report(status)
    return failed


def job_directory(root: Path, job: Job) -> Path:
    """Return where a job keeps its training."""
    return root / JOBS / job.name


def status_file(root: Path, job: Job) -> Path:
    """Return where a job says how far it is."""
    return job_directory(root, job) / STATUS


def read_status(root: Path, job: Job) -> Progress | None:
    """Return how far a job is, if that is known here."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Progress(**json.loads(status_file(root, job).read_text()))
    return None


def reporter(root: Path, job: Job) -> Report:
    """Return what writes how far a job is into its directory, now and then; what it begins, at once."""
    doing, written = "", 0.0

    def report(state: Progress) -> None:
        nonlocal doing, written
        now = time.monotonic()
        if state.doing == doing and now < written + _LOOK:
            return
        doing, written = state.doing, now
        told = asdict(state) | {"doing": f"{job.name}: {doing}", "figures": dict(state.figures)}
        with contextlib.suppress(OSError):  # a job does not fail because nobody can watch it
            write_atomic(status_file(root, job), json.dumps(told))

    return report
