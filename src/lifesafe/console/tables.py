"""Tables of words, as text or Markdown, and plain values as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LETTERS = 100  # of a line of JSON, beyond which it is broken


@dataclass(frozen=True)
class Table:
    """Rows of words under a heading.

    Examples:
        >>> print(Table(("task", "steps"), [("Hopper", "1000"), ("Car", "50")]).text())
        task    steps
        Hopper   1000
        Car        50
    """

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Return the table in columns, those of numbers aligned to the right."""
        columns = list(zip(self.heading, *self.rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        right = [all(cell.replace(".", "").replace(",", "").isdecimal() for cell in column[1:]) for column in columns]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in (self.heading, *self.rows)
        )

    def markdown(self) -> str:
        """Return the table in Markdown; the first column names the row, the others hold numbers."""
        lines = [f"| {' | '.join(row)} |" for row in (self.heading, *self.rows)]
        return "\n".join([lines[0], "|---|" + "---:|" * (len(self.heading) - 1), *lines[1:]])


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
