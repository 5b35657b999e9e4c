"""Run the jobs of a suite, wherever there is room for them; what is finished is not done again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from lifesafe.lab.benchmark.finished import finished_jobs
from lifesafe.lab.benchmark.suite import Job, Suite

JOBS, ERROR, LOG = "jobs", "error.txt", "log.txt"
_WAIT = 0.2

State = Literal["found", "begun", "done", "failed", "retried"]


@dataclass(frozen=True)
class Event:
    """What happened to a job.

    Attributes:
        job: Which.
        state: Found finished, begun, done, failed for good, or failed and begun again.
        finished: How many jobs are finished.
        total: How many there are.
        reason: Why it failed: the last line of its error.
    """

    job: Job
    state: State
    finished: int
    total: int
    reason: str = ""


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
    suite: Suite,
    directory: str | Path,
    pool: Pool,
    *,
    attempts: int = 2,
    progress: Callable[[Event], None] | None = None,
) -> list[Job]:
    """Run all jobs that are not finished yet, and return those that failed.

    A job that raises or dies is tried again; its error is in `jobs/NAME/error.txt`, and what it printed in `log.txt`
    beside it. When this process is killed, the jobs under way go on from their last checkpoints with the next call.

    Args:
        suite: What to run.
        directory: Where everything is kept.
        pool: What runs the jobs; it is closed at the end.
        attempts: How often a job is tried.
        progress: Called when something happens.

    Raises:
        ConfigError: If the directory has results of such jobs from other settings or other data.
    """
    try:
        return _run(suite, finished_jobs(suite, Path(directory), pool.data), pool, attempts, progress)
    finally:
        pool.close()


def _run(
    suite: Suite, finished: list[Job], pool: Pool, attempts: int, progress: Callable[[Event], None] | None
) -> list[Job]:
    jobs = suite.jobs()
    waiting = [job for job in jobs if job not in finished]
    tried = dict.fromkeys(waiting, 0)
    running, failed, done = 0, [], len(finished)

    def tell(job: Job, state: State, reason: str = "") -> None:
        if progress is not None:
            progress(Event(job, state, done, len(jobs), reason))

    for job in finished:
        tell(job, "found")
    while waiting or running:
        while waiting and running < max(pool.room(), 1):
            job = waiting.pop(0)
            pool.start(job)
            running += 1
            tell(job, "retried" if tried[job] else "begun")
            tried[job] += 1
        for job, reason in pool.ended():
            running -= 1
            if reason is None:
                done += 1
                tell(job, "done")
            elif tried[job] < attempts:
                waiting.insert(0, job)
            else:
                failed.append(job)
                tell(job, "failed", reason)
        time.sleep(_WAIT)
    return failed


def job_directory(root: Path, job: Job) -> Path:
    """Return where a job keeps its training."""
    return root / JOBS / job.name
