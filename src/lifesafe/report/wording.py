"""Numbers and names as the page writes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from lifesafe.journal.events import Point
from lifesafe.safety import Problem

_MINUS = "\N{MINUS SIGN}"


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, without an exponent unless it is very small or large.

    Examples:
        >>> number(17.1314), number(-0.04567), number(12345.6), number(2.2e-15)
        ('17.1', '−0.0457', '12,346', '2.2e−15')
    """
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: f"{_MINUS}∞"}.get(value, "–")
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent < -4 or exponent > 8:
        text = f"{value:.{max(digits - 1, 1)}g}"
    else:
        text = f"{value:,.{max(digits - 1 - exponent, 0)}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    return text.replace("-", _MINUS)


def percent(share: float) -> str:
    """Return a share in percent; the sign stays on the line of the number, and few is not none."""
    if math.isnan(share):
        return "–"
    few = "<1" if 0 < share < 0.005 else ">99" if 0.995 <= share < 1 else f"{100 * share:.0f}"
    return f"{few}\N{NO-BREAK SPACE}%"


def target_text(problem: Problem, point: Sequence[float], digits: int = 3) -> str:
    """Return a target as (R, G), or as its knobs with their units."""
    if problem.asks_for_returns:
        return f"({', '.join(number(value, digits) for value in point)})"
    units = (axis.unit for axis in problem.axes.values())  # type: ignore[union-attr]  # made so by the problem
    return ", ".join(
        f"{name} {number(value, digits)}{' ' if unit else ''}{unit}"
        for name, value, unit in zip(problem.names, point, units, strict=True)
    )


def target_texts(problem: Problem, points: Iterable[Point]) -> dict[Point, str]:
    """Return targets in words, those that are almost the same with so many digits that they differ."""
    found = {point: target_text(problem, point) for point in points}
    for digits in range(4, 8):
        seen = Counter(found.values())
        found = {
            point: target_text(problem, point, digits) if seen[text] > 1 else text for point, text in found.items()
        }
    return found


def axis_text(problem: Problem, axis: int) -> str:
    """Return the name of an axis of targets, with its unit."""
    name = problem.names[axis]
    unit = problem.axes[name].unit  # type: ignore[union-attr]  # made so by the problem
    return f"{'target ' if problem.asks_for_returns else ''}{name}{f', {unit}' if unit else ''}"


def listed(items: Iterable[str]) -> str:
    """Return items as one reads them aloud.

    Examples:
        >>> listed(["a", "b", "c"])
        'a, b and c'
    """
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def mean_text(name: str, value: float) -> str:
    """Return the mean of a return with its name; a name such as cost 2 ends in a number itself.

    Examples:
        >>> mean_text("cost", 4.85), mean_text("cost 2", 4.85)
        ('mean cost 4.85', 'mean cost 2 = 4.85')
    """
    return f"mean {name}{' =' if name[-1:].isdigit() else ''} {number(value)}"


def each_of(values: Iterable[float]) -> str:
    """Return several numbers as one reads them aloud."""
    return listed(number(value) for value in values)
