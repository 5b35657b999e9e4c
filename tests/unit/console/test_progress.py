"""The display of progress: lines where there is no terminal, bars on one."""

import io

import pytest
from rich.console import Console

from lifesafe.console import progress as module
from lifesafe.console.progress import progress
from lifesafe.interfaces import Progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_are_notes_and_a_line_now_and_then() -> None:
    stream = io.StringIO()
    with progress("Car", stream=stream, line_seconds=0.0) as report:
        report(Progress("training", 10, 100))
        report(Progress("training", 20, 100, "a note", {"loss": 0.25}))
    first, note, second = stream.getvalue().splitlines()
    assert (first, note) == ("Car: training, 10 of 100", "Car: a note")
    assert second.startswith("Car: training, 20 of 100, ")
    assert "s left" in second
    assert second.endswith("loss 0.25")


def test_what_is_over_soon_says_nothing_without_a_terminal() -> None:
    stream = io.StringIO()
    with progress("Car", stream=stream) as report:
        report(Progress("training", 100, 100))
    assert stream.getvalue() == ""


@pytest.mark.parametrize("total", [None, 3_000_000])
def test_a_terminal_shows_the_label_then_how_far_it_is(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    stream = Terminal()
    monkeypatch.setattr(module, "Console", lambda **given: Console(**given, width=100, force_terminal=True))
    with progress("Car", stream=stream) as report:
        assert "Car" in stream.getvalue()
        report(Progress("bytes", 1_500_000, total))
        report(Progress("bytes", 2_250_000, total))
    assert f"2.25M{'' if total is None else ' of 3M'}" in stream.getvalue()
    assert "\x1b" in stream.getvalue()
