"""Exit codes, and words on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

OK, FOUND, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 trial", "1,200 episodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def numbers(values: Sequence[float]) -> str:
    """Return numbers as words: "20, 2.5"."""
    return ", ".join(f"{value:g}" for value in values)


def say(text: str) -> None:
    """Print a text to standard error."""
    print(text, file=sys.stderr)
