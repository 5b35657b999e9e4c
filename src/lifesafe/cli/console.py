"""What all commands share: exit codes, kinds of arguments, and how things are shown."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

if TYPE_CHECKING:
    from lifesafe.data.transfer import Progress as Transfer

OK, FOUND, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141

Run = Annotated[Path, Positional, tyro.conf.arg(metavar="RUN")]
OutFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


def print_json(value: Any) -> None:
    """Print a plain value as JSON to standard output."""
    print(json.dumps(value, indent=2, allow_nan=False))


def say(text: str) -> None:
    """Print a text to standard error."""
    print(text, file=sys.stderr)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of words in columns, numbers to the right; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [all(cell.replace(".", "").isdecimal() for cell in column[1:]) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    )


@contextlib.contextmanager
def patience(doing: str) -> Iterator[None]:
    """Show that something is being done, on a terminal."""
    from rich.console import Console  # only when something takes time: --help must not wait for it

    with Console(stderr=True).status(f"{doing} ..."):
        yield


@contextlib.contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time left, on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda count: progress.advance(task, count)


@contextlib.contextmanager
def progress_lines(unit: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """Show a line per step, and below it, on a terminal, how many are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(unit, total=total)

        def advance(line: str, done: int) -> None:
            console.print(line, markup=False, soft_wrap=True)
            bar.update(task, completed=done)

        yield advance


@contextlib.contextmanager
def download_bar(label: str) -> Iterator[Callable[[Transfer], None]]:
    """Show how much has arrived, how fast and how long it will take, on a terminal; and why it waits, anywhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as shown:

        def progress(state: Transfer) -> None:
            if state.note:
                console.print(f"{label}: {state.note}", markup=False, soft_wrap=True)
            if not shown.tasks:  # only now: what lay here from before must not count as fast
                shown.add_task(label, total=state.total, completed=state.done)
            shown.update(shown.tasks[0].id, total=state.total, completed=state.done)

        yield progress
