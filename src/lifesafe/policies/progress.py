"""A progress bar for `train`, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from lifesafe.policies.training import Progress

_LINE_SECONDS = 30.0  # between two lines where there is no terminal


@contextlib.contextmanager
def progress_bar(title: str = "training", stream: TextIO | None = None) -> Iterator[Callable[[Progress], None]]:
    """Show a bar with step, loss, throughput and time left while the context lasts.

    Args:
        title: What stands before the bar.
        stream: Where to draw; standard error if not given. Where that is no terminal, a line now and then is printed.

    Examples:
        >>> with progress_bar() as progress:  # doctest: +SKIP
        ...     train(RvSConfig(), dataset, progress=progress)
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[loss]}"),
    )
    console = Console(file=stream or sys.stderr, highlight=False)
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None, rate="", left="", loss="")
        told = time.monotonic()

        def show(progress: Progress) -> None:
            nonlocal told
            rate, left, loss = _texts(progress)
            bar.update(task, total=progress.steps, completed=progress.step, rate=rate, left=left, loss=loss)
            last = progress.step == progress.steps
            if not console.is_terminal and (last or time.monotonic() >= told + _LINE_SECONDS):
                told = time.monotonic()
                words = [f"{progress.step} of {progress.steps} steps", rate, loss, "" if last else left]
                console.print(f"{title}: {', '.join(word for word in words if word)}", markup=False, soft_wrap=True)

        yield show


def _texts(progress: Progress) -> tuple[str, str, str]:
    rate, left = progress.steps_per_second, progress.seconds_left
    name = "held_out_nll" if "held_out_nll" in progress.metrics else "loss"
    loss = progress.metrics.get(name)
    return (
        f"{rate:.3g} steps/s" if rate else "",
        f"{duration(left)} left" if rate else "",
        "" if loss is None else f"{name.replace('_', ' ')} {loss:.4g}",
    )


def duration(seconds: float) -> str:
    """Return a time in the two largest units that matter.

    Examples:
        >>> duration(4000)
        '1h 06m'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes_left:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
