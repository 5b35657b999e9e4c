"""What all commands share: exit codes, kinds of arguments, and how things are shown."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

if TYPE_CHECKING:
    from lifesafe.interfaces import Progress as Step
    from lifesafe.interfaces import Report
    from lifesafe.lab.collection import Progress as Collection
    from lifesafe.policies import Progress as Training

OK, FOUND, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141

_LINE_SECONDS = 30.0  # between two lines of progress where there is no terminal
_LETTERS = 100  # of a line of JSON, beyond which it is broken


def option(metavar: str, name: str | None = None) -> Any:
    """Return how the help shows an option: its text says what holds unless it is given, where no value does."""
    return tyro.conf.arg(
        name=name,
        metavar=metavar,
        help_behavior_hint=lambda default: "" if default in ("", "None") else f"(default: {default})",
    )


Run = Annotated[Path, Positional, tyro.conf.arg(metavar="RUN")]
OutFile = Annotated[Path | None, option("FILE")]
Directory = Annotated[Path | None, option("DIRECTORY")]
Limits = Annotated[tuple[float, ...], option("NUMBER", "limit")]
Word = Annotated[str | None, option("TEXT")]
Number = Annotated[float | None, option("NUMBER")]
Count = Annotated[int | None, option("INT")]


def print_json(value: Any) -> None:
    """Print a plain value as JSON to standard output, short lists and objects on one line."""
    print(_laid_out(value, 0))


def _laid_out(value: Any, indent: int) -> str:
    line = json.dumps(value, allow_nan=False)
    if not isinstance(value, dict | list | tuple) or not value or (indent and len(line) <= _LETTERS):
        return line
    inside = indent + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(str(name))}: {_laid_out(each, inside)}" for name, each in value.items()]
    else:
        parts = [_laid_out(each, inside) for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n" + ",\n".join(" " * inside + part for part in parts) + f"\n{' ' * indent}{end}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 trial", "2 trials"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


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
def progress_lines(unit: str, total: int) -> Iterator[Callable[[str | None, int], None]]:
    """Show a line per step, if it has one, and below it, on a terminal, how many are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(unit, total=total)

        def advance(line: str | None, done: int) -> None:
            if line is not None:
                console.print(line, markup=False, soft_wrap=True)
            bar.update(task, completed=done)

        yield advance


@contextlib.contextmanager
def download_bar(label: str) -> Iterator[Report]:
    """Show how much has arrived, how fast and how long it will take, on a terminal; and why it waits, anywhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as shown:

        def progress(state: Step) -> None:
            if state.note:
                console.print(f"{label}: {state.note}", markup=False, soft_wrap=True)
            if not shown.tasks:  # only now: what lay here from before must not count as fast
                shown.add_task(label, total=state.total, completed=state.done)
            shown.update(shown.tasks[0].id, total=state.total, completed=state.done)

        yield progress


@contextlib.contextmanager
def collection_bar(label: str) -> Iterator[Callable[[Collection], None]]:
    """Show steps, throughput, time left and the best episode so far, on a terminal; elsewhere a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        last = -math.inf

        def show(state: Collection) -> None:
            nonlocal last
            best = (
                "no episode within the limits yet" if state.best is None else f"best within the limits {state.best:.0f}"
            )
            told = (
                f"{state.steps / 1e6:.2f}M of {state.total / 1e6:.2f}M steps, {state.steps_per_second:.0f} a second,"
                f" {state.episodes} episodes, {best}"
            )
            if not shown.tasks:
                shown.add_task(label, total=state.total, completed=state.begun_at, told="")
            shown.update(shown.tasks[0].id, completed=state.steps, told=told)
            if not console.is_terminal and state.seconds >= last + _LINE_SECONDS:
                last = state.seconds
                console.print(f"{label}: {told}", markup=False, soft_wrap=True)

        yield show


@contextlib.contextmanager
def study_bars(
    label: str, episodes: int
) -> Iterator[tuple[Callable[[int, Training], None], Callable[[int, int, int], None]]]:
    """Show one bar per seed for its training and one for its episodes, on a terminal; elsewhere a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        bars: dict[str, Any] = {}
        last = -math.inf

        def show(title: str, done: int, total: int) -> None:
            nonlocal last
            if title not in bars:
                bars[title] = shown.add_task(title, total=total)
            shown.update(bars[title], completed=done)
            if not console.is_terminal and time.monotonic() >= last + _LINE_SECONDS:
                last = time.monotonic()
                console.print(f"{title}, {done} of {total}", markup=False, soft_wrap=True)

        yield (
            lambda seed, state: show(f"{label}, seed {seed}: training", state.step, state.steps),
            lambda seed, done, _: show(f"{label}, seed {seed}: episodes", done, episodes),
        )
