"""A suite under way, on the screen: what happens to its jobs, and how far those are that run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lifesafe.lab.benchmark.runner import Event
    from lifesafe.lab.benchmark.status import Status
    from lifesafe.lab.benchmark.suite import Job

_LINE_SECONDS = 300.0  # between two reports where there is no terminal
_WORDS = {
    "begun": "begun",
    "done": "done",
    "failed": "FAILED",
    "retried": "failed, begun again",
    "found": "done before",
}


@contextlib.contextmanager
def watched(directory: Path, *, line_seconds: float = _LINE_SECONDS) -> Iterator[Callable[[Event], None]]:
    """Show a line for everything that happens; below, on a terminal, a bar for each running job, elsewhere lines.

    Args:
        directory: Of the suite.
        line_seconds: Time between two reports of the running jobs where there is no terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from lifesafe.lab.benchmark.runner import job_directory
    from lifesafe.lab.benchmark.status import read_status

    console = Console(stderr=True, highlight=False)
    left = TextColumn("{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), left)
    running: dict[Job, TaskID] = {}
    over = threading.Event()

    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        jobs = bars.add_task("jobs", total=None, left="")

        def show(event: Event) -> None:
            reason = f": {event.reason}" if event.reason else ""
            line(f"[{event.finished}/{event.total}] {event.job.name} {_WORDS[event.state]}{reason}")
            bars.update(jobs, completed=event.finished, total=event.total)
            if event.job in running:
                bars.remove_task(running.pop(event.job))
            if event.state in ("begun", "retried"):
                running[event.job] = bars.add_task(event.job.name, total=None, left="")

        def look() -> None:
            """Report what is under way, until all is over."""
            while not over.wait(1.0 if console.is_terminal else line_seconds):
                for job, bar in list(running.items()):
                    status = read_status(job_directory(directory, job))
                    if status is None:  # it has just begun, or its files are on another machine
                        continue
                    if console.is_terminal:
                        title = f"{job.name}: {status.doing}"
                        with contextlib.suppress(KeyError):  # it ended meanwhile
                            bars.update(
                                bar, description=title, completed=status.done, total=status.total, left=_left(status)
                            )
                    else:
                        words = [f"{status.doing}, {status.done} of {status.total}", _left(status)]
                        line(f"{job.name}: {', '.join(word for word in words if word)}")

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield show
        finally:
            over.set()
            looking.join()


def _left(status: Status) -> str:
    from lifesafe.policies.progress import duration

    return "" if status.seconds_left is None else f"{duration(status.seconds_left)} left"
