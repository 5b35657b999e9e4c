"""Run the jobs of a suite in processes of their own; what is finished is not done again."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

from lifesafe._files import write_atomic
from lifesafe.benchmark.results import ROWS, write_rows
from lifesafe.benchmark.suite import Job, Suite

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


def run_suite(
    suite: Suite,
    directory: str | Path,
    *,
    data: Mapping[str, Path] | None = None,
    processes: int = 1,
    threads: int = 1,
    attempts: int = 2,
    progress: Callable[[Event], None] | None = None,
) -> list[Job]:
    """Run all jobs that are not finished yet, and return those that failed.

    A job that raises or dies is tried again; its error is in `jobs/NAME/error.txt`, and what it printed in `log.txt`
    beside it. When this process is killed, the jobs under way go on from their last checkpoints with the next call.

    Args:
        suite: What to run.
        directory: Where everything is kept.
        data: The file to learn from, by task; the tasks' own data for those not given.
        processes: How many jobs run at once.
        threads: How many threads each may use.
        attempts: How often a job is tried.
        progress: Called when something happens.
    """
    root, files = Path(directory), dict(data or {})
    jobs = suite.jobs()
    finished = [job for job in jobs if (root / ROWS / f"{job.name}.json").exists()]
    count = len(finished)

    def tell(job: Job, state: State, reason: str = "") -> None:
        if progress is not None:
            progress(Event(job, state, count, len(jobs), reason))

    for job in finished:
        tell(job, "found")
    waiting = [(job, 1) for job in jobs if job not in finished]
    running: dict[BaseProcess, tuple[Job, int]] = {}
    failed: list[Job] = []
    context = multiprocessing.get_context("spawn")
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                job, attempt = waiting.pop(0)
                process: BaseProcess = context.Process(
                    target=_work, args=(job, suite, files.get(job.task), root, threads), name=job.name
                )
                process.start()
                running[process] = job, attempt
                tell(job, "begun" if attempt == 1 else "retried")
            for process in [each for each in running if not each.is_alive()]:
                job, attempt = running.pop(process)
                process.join()
                if process.exitcode == 0:
                    count += 1
                    tell(job, "done")
                elif attempt < attempts:
                    waiting.insert(0, (job, attempt + 1))
                else:
                    failed.append(job)
                    tell(job, "failed", _reason(root, job, process.exitcode))
            time.sleep(_WAIT)
    finally:
        for process in running:
            process.terminate()
    return failed


def job_directory(root: Path, job: Job) -> Path:
    """Return where a job keeps its training."""
    return root / JOBS / job.name


def _work(job: Job, suite: Suite, data: Path | None, root: Path, threads: int) -> None:
    """Run one job in this process, and leave its rows or its error."""
    import torch

    from lifesafe.benchmark.jobs import run_job
    from lifesafe.policies import progress_bar

    directory = job_directory(root, job)
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(threads)
    with (directory / LOG).open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        try:
            with progress_bar(job.name) as progress:
                write_rows(root, job.name, run_job(job, suite, data, directory, progress=progress))
        except Exception:
            write_atomic(directory / ERROR, traceback.format_exc())
            raise SystemExit(1) from None


def _reason(root: Path, job: Job, code: int | None) -> str:
    path = job_directory(root, job) / ERROR
    if code == 1 and path.exists():
        return path.read_text().strip().splitlines()[-1]
    return f"its process ended with exit code {code}"
