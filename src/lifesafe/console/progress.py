"""The one display of progress: bars on a terminal, a line now and then elsewhere, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from lifesafe.interfaces import Progress, Report

LINE_SECONDS = 30.0
"""Time between two lines where there is no terminal."""


@contextlib.contextmanager
def progress(label: str, *, line_seconds: float = LINE_SECONDS, stream: TextIO | None = None) -> Iterator[Report]:
    """Show how far work has come while the context lasts; the function that it gives is told.

    Everything that is being done has a bar of its own, with the time left at the pace so far. Before the first report
    there is one that says no more than the label. Notes are lines above the bars.

    Args:
        label: What stands before each bar and note.
        line_seconds: Time between two lines where there is no terminal.
        stream: Where to draw; standard error if not given.

    Examples:
        >>> with progress("CarCircle") as report:
        ...     for step in range(3):
        ...         report(Progress("training", step, 3))
    """
    console = Console(file=stream or sys.stderr, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    shown = Bars(*columns, console=console, transient=True, redirect_stdout=False, disable=not console.is_terminal)
    with shown as bars:
        waiting = bars.add_task(label, total=None, words="")
        tasks: dict[str, TaskID] = {}
        paces: dict[str, _Pace] = {}
        told = time.monotonic()

        def report(state: Progress) -> None:
            nonlocal told
            if state.note:
                console.print(f"{label}: {state.note}" if label else state.note, markup=False, soft_wrap=True)
            words = ", ".join(paces.setdefault(state.doing, _Pace(state)).words(state))
            title = f"{label}: {state.doing}" if label else state.doing
            if not console.is_terminal:
                if time.monotonic() >= told + line_seconds:
                    told = time.monotonic()
                    console.print(f"{title}, {words}", markup=False, soft_wrap=True)
                return
            bars.update(waiting, visible=False)
            if state.doing not in tasks:
                tasks[state.doing] = bars.add_task(title, words="")
            over = state.total is not None and state.done >= state.total
            bars.update(tasks[state.doing], total=state.total, completed=state.done, words=words, visible=not over)

        yield report


class _Pace:
    """How fast one kind of work goes, counted from its first report: what was done before then took no time here."""

    def __init__(self, first: Progress) -> None:
        self._begun_at, self._begun = first.done, time.monotonic()

    def words(self, state: Progress) -> list[str]:
        seconds = time.monotonic() - self._begun
        done = state.done - self._begun_at
        words = [_count(state.done) if state.total is None else f"{_count(state.done)} of {_count(state.total)}"]
        if done > 0 and seconds > 0:
            words.append(f"{_count(done / seconds)}/s")
            if state.total is not None and state.total > state.done:
                words.append(f"{duration(seconds / done * (state.total - state.done))} left")
        return words + [f"{name} {value:.4g}" for name, value in state.figures.items()]


def _count(number: float) -> str:
    """Return a number in at most four digits, with k, M or G for thousands, millions and milliards."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{number:.0f}" if number == int(number) else f"{number:.3g}"


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
