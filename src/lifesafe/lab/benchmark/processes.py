"""Jobs in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

from lifesafe._files import write_atomic
from lifesafe.console.progress import progress
from lifesafe.interfaces import Progress
from lifesafe.lab.benchmark.results import write_rows
from lifesafe.lab.benchmark.runner import ERROR, LOG, job_directory, reporter
from lifesafe.lab.benchmark.suite import Job, Suite


class Processes:
    """A pool of processes, each job in one of its own: what happens to one does not touch the others.

    Args:
        suite: What the jobs belong to.
        directory: Of the suite.
        data: The file to learn from, by task; the tasks' own data for those not given.
        processes: How many jobs run at once.
        threads: How many threads each may use.
        device: Where to train.
    """

    def __init__(
        self,
        suite: Suite,
        directory: str | Path,
        *,
        data: Mapping[str, Path] | None = None,
        processes: int = 1,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self._suite, self._root = suite, Path(directory)
        self.data: Mapping[str, Path] = dict(data or {})
        self._processes, self._threads, self._device = processes, threads, device
        self._running: dict[Job, BaseProcess] = {}
        self._context = multiprocessing.get_context("spawn")

    def room(self) -> int:
        return self._processes

    def start(self, job: Job) -> None:
        arguments = (job, self._suite, self.data.get(job.task), self._root, self._threads, self._device)
        process = self._context.Process(target=work, args=arguments, name=job.name)
        process.start()
        self._running[job] = process

    def ended(self) -> list[tuple[Job, str | None]]:
        ended: list[tuple[Job, str | None]] = []
        for job, process in list(self._running.items()):
            if not process.is_alive():
                process.join()
                del self._running[job]
                ended.append((job, None if process.exitcode == 0 else self._reason(job, process.exitcode)))
        return ended

    def close(self) -> None:
        for process in self._running.values():
            process.terminate()

    def _reason(self, job: Job, code: int | None) -> str:
        path = job_directory(self._root, job) / ERROR
        if code == 1 and path.exists():
            return path.read_text().strip().splitlines()[-1]
        return f"its process ended with exit code {code}"


def work(job: Job, suite: Suite, data: Path | None, root: Path, threads: int, device: str) -> None:
    """Run one job in this process, and leave its rows or its error."""
    import torch

    from lifesafe.lab.benchmark.jobs import run_job

    end_with_parent()
    directory = job_directory(root, job)
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(threads)
    with (directory / LOG).open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        try:
            with progress(job.name) as log_line:
                write_status = reporter(root, job)

                def report(state: Progress) -> None:
                    log_line(state)
                    write_status(state)

                write_rows(root, job.name, run_job(job, suite, data, directory, device=device, report=report))
        except Exception:
            write_atomic(directory / ERROR, traceback.format_exc())
            raise SystemExit(1) from None


def end_with_parent() -> None:
    """End this process when the suite's ends, even by a kill: else it would hold the job that a new one resumes."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()
