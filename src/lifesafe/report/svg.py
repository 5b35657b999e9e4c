"""Charts as SVG, drawn without a library: shapes get classes, the style sheet `charts.css` gives them colors.

A chart is a box with two linear axes. All coordinates that are given are data. Text is escaped; a mark may carry a tip,
which browsers show while the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from lifesafe.report.wording import number

Numbers = Sequence[float] | np.ndarray  # plain floats, or a vector of them

WIDE, HALF, NARROW = 960, 470, 400  # widths of charts, in units that are pixels at full size
_LETTER = 6.6  # width of a letter at the size of the tick labels
_ROW, _ROWS = 15.0, 4  # height and largest number of rows of names above a chart
_MARKS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-3.7-3.7h7.4v7.4h-7.4z",
    "triangle": "M0-5L4.8 3.6h-9.6z",
    "diamond": "M0-5L5 0L0 5L-5 0z",
    "cross": "M-5-5L5 5M-5 5L5-5",
    "dash": "M-5 0h10",
    "slab": "M-5-2.2h10v4.4h-10z",
    "small": "M-2.6-2.6h5.2v5.2h-5.2z",
    "ring": "M-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0z",
    "star": "M0-9L2.6-2.9L9-2.6L4-.1" + "".join(("L5.7 6.9", "L0 3.4", "L-5.7 6.9", "L-4-.1", "L-9-2.6", "L-2.6-2.9z")),
}
_SIGNS = {
    "line": '<path class="line {}" d="M-9 0h18"/>',
    "dots": '<path class="dots {}" d="M-6 2h0M0-3h0M6 1h0"/>',
    "band": '<path class="fill {}" d="M-9-5h18v10h-18z"/>',
    "cell": '<path class="{}" d="M-8-8h16v16h-16z"/>',
    "forecast": '<path class="bar {}" d="M0-8V8"/>',
    "arrow": '<path class="beyond {}" d="M-4 4L0-4L4 4z"/>',
}


@dataclass(frozen=True)
class Sign:
    """An entry of a legend."""

    shape: str
    kind: str
    """Its class."""
    text: str

    @property
    def drawn(self) -> Markup:
        """The sign itself, around the origin."""
        known = _SIGNS.get(self.shape) or f'<path class="mark {{}}" d="{_MARKS[self.shape]}"/>'
        return Markup(known).format(self.kind)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Charts that belong together, to be drawn at any width."""

    caption: str
    charts: tuple[Callable[[int], Chart], ...]
    legend: tuple[Sign, ...]
    notes: tuple[str, ...] = ()
    """What the reader must know of how it is drawn."""
    halves: bool = False
    """Whether two charts stand side by side."""


class Chart:
    """A chart under construction.

    Args:
        label: What the chart shows, for people who do not see it.
        size: Width and height of the whole.
        x: Ends of the horizontal axis.
        y: Ends of the vertical axis.
        name: A word that no other chart of the page has.
        powers: Whether values of the vertical axis are logarithms to the base 10.
    """

    def __init__(
        self,
        label: str,
        *,
        size: tuple[float, float],
        x: tuple[float, float],
        y: tuple[float, float],
        name: str,
        powers: bool = False,
    ) -> None:
        self.label, self.name, (self.width, self.height) = label, name, size
        self.x_ends, self.y_ends, self._powers = _proper(x), _proper(y), powers
        self.right, self.top, self.bottom = self.width - 14, 12.0, self.height - 42.0
        longest = max((len(self._written(value)) for value in self._y_ticks()), default=0)
        self.left = max(58.0, 30 + _LETTER * longest)  # the name of the axis stands left of its numbers
        self._parts: list[str] = []
        self._clipped: list[str] = []
        self._marks: list[str] = []

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis lies."""
        low, high = self.x_ends
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis lies."""
        low, high = self.y_ends
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def axes(self, x_label: str, y_label: str, *, whole: bool = False) -> None:
        """Draw both axes with their names and ticks, from left to right perhaps at whole numbers only."""
        for value in self._y_ticks():
            at = _short(self.y(value))
            self._parts.append(f'<path class="grid" d="M{_short(self.left)} {at}H{_short(self.right)}"/>')
            self._text(self.left - 7, self.y(value) + 4, self._written(value), "tick end")
        room = _LETTER * max(len(number(value)) for value in self.x_ends) + 18
        for value in ticks(*self.x_ends, max(2, int((self.right - self.left) // max(room, 52))), whole=whole):
            at = _short(self.x(value))
            self._parts.append(f'<path class="axis" d="M{at} {_short(self.bottom)}v4"/>')
            self._text(self.x(value), self.bottom + 17, number(value), "tick middle")
        self._parts.append(f'<path class="axis" d="M{_short(self.left)} {_short(self.bottom)}H{_short(self.right)}"/>')
        self._text((self.left + self.right) / 2, self.bottom + 35, x_label, "name middle")
        place = f"translate(14 {_short((self.top + self.bottom) / 2)}) rotate(-90)"
        self._parts.append(f'<text class="name middle" transform="{place}">{escape(y_label)}</text>')

    def line(self, xs: Numbers, ys: Numbers, kind: str) -> None:
        """Draw a line through points."""
        points = [(self.x(a), self.y(b)) for a, b in zip(xs, ys, strict=True) if math.isfinite(b)]
        if points:
            d = "L".join(f"{_short(a)} {_short(b)}" for a, b in points)
            self._clipped.append(f'<path class="line {kind}" d="M{d}"/>')

    def band(self, xs: Numbers, lows: Numbers, highs: Numbers, kind: str) -> None:
        """Fill what lies between two lines; an end that is not finite runs out of the chart."""
        low, high = self.y_ends
        reach = 2 * (high - low)
        upper = [(a, min(b, high + reach)) for a, b in zip(xs, highs, strict=True)]
        lower = [(a, max(b, low - reach)) for a, b in zip(xs, lows, strict=True)]
        points = [f"{_short(self.x(a))} {_short(self.y(b))}" for a, b in upper + lower[::-1]]
        self._clipped.append(f'<path class="fill {kind}" d="M{"L".join(points)}z"/>')

    def dots(self, xs: Numbers, ys: Numbers, kind: str) -> None:
        """Draw many small dots as one shape; one beyond an end of the vertical axis becomes an arrow at that end."""
        dots = arrows = ""
        for a, b in zip(xs, ys, strict=True):
            at = _short(self.x(a))
            if b > self.y_ends[1]:
                arrows += f"M{_short(self.x(a) - 4)} {_short(self.top + 8)}l4-8l4 8z"
            elif b < self.y_ends[0]:
                arrows += f"M{_short(self.x(a) - 4)} {_short(self.bottom - 8)}l4 8l4-8z"
            else:
                dots += f"M{at} {_short(self.y(b))}h0"
        self._clipped += [f'<path class="dots {kind}" d="{dots}"/>'] if dots else []
        self._clipped += [f'<path class="beyond {kind}" d="{arrows}"/>'] if arrows else []

    def rings(self, xs: Numbers, ys: Numbers, kind: str) -> None:
        """Draw many small rings as one shape."""
        ring = "a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z"
        d = "".join(f"M{_short(self.x(a) - 2.5)} {_short(self.y(b))}{ring}" for a, b in zip(xs, ys, strict=True))
        if d:
            self._clipped.append(f'<path class="rings {kind}" d="{d}"/>')

    def intervals(self, xs: Numbers, lows: Numbers, highs: Numbers, kind: str) -> None:
        """Draw vertical bars of one kind as one shape; a bar beyond an end of the axis ends there."""
        bottom, top = self.y_ends
        d = "".join(
            f"M{_short(self.x(x))} {_short(self.y(max(low, bottom)))}V{_short(self.y(min(high, top)))}"
            for x, low, high in zip(xs, lows, highs, strict=True)
            if low <= top and high >= bottom
        )
        if d:
            self._clipped.append(f'<path class="bar {kind}" d="{d}"/>')

    def mark(self, x: float, y: float, shape: str, kind: str, tip: str = "", *, data: str = "") -> None:
        """Draw a sign at a point, with a tip for the pointer and, for the script of the page, a number by its name."""
        told = f"<title>{escape(tip)}</title>" if tip else ""
        place = f"translate({_short(self.x(x))} {_short(self.y(y))})"
        more = f" {data}" if data else ""
        self._marks.append(f'<path class="mark {kind}"{more} transform="{place}" d="{_MARKS[shape]}">{told}</path>')

    def horizontal(self, y: float, kind: str, label: str = "") -> None:
        """Draw a line across the chart, named at its right end, above the line."""
        at = _short(self.y(y))
        self._clipped.append(f'<path class="line {kind}" d="M{_short(self.left)} {at}H{_short(self.right)}"/>')
        if label:
            self._text(self.right - 4, self.y(y) - 5, label, f"note end {kind}")

    def annotate(self, marks: Sequence[tuple[float, str, str]]) -> None:
        """Draw lines, each with place, name and class, from top to bottom, named above the chart.

        To be called first, since it makes room. Names that would meet stand in different rows; without room for
        another row, a name is left out.
        """
        rows: list[float] = []  # where the last name of each row ends
        placed = []
        for x, label, kind in sorted(marks, key=lambda mark: mark[0]):
            wide = _LETTER * len(label)
            fits = self.x(x) + 4 + wide < self.width  # else it stands to the left of its line
            left = self.x(x) + 4 if fits else self.x(x) - 4 - wide
            row = next((i for i, end in enumerate(rows) if left > end + 6), len(rows) if len(rows) < _ROWS else None)
            if row is not None and label:
                rows[row : row + 1] = [left + wide]
                placed.append((left if fits else left + wide, "" if fits else " end", row, label, kind))
        self.top += _ROW * len(rows)
        for start, side, row, label, kind in placed:
            self._text(start, self.top - _ROW * row - 5, label, f"note{side} {kind}")
        for x, _, kind in marks:
            d = f"M{_short(self.x(x))} {_short(self.top - 6)}V{_short(self.bottom)}"
            self._parts.append(f'<path class="line {kind}" d="{d}"/>')

    def shade(self, spans: Iterable[tuple[float, float]], kind: str) -> None:
        """Fill the chart between pairs of values of the horizontal axis, as one shape."""
        d = ""
        for start, stop in spans:
            a, b = self.x(max(start, self.x_ends[0])), self.x(min(stop, self.x_ends[1]))
            d += f"M{_short(a)} {_short(self.top)}H{_short(b)}V{_short(self.bottom)}H{_short(a)}z"
        if d:
            self._parts.append(f'<path class="fill {kind}" d="{d}"/>')

    def raw(self, markup: str, *, clipped: bool = True) -> None:
        """Add markup of one's own, clipped to the box or not; it must be safe as it is."""
        (self._clipped if clipped else self._parts).append(markup)

    @property
    def inside(self) -> str:
        """What the SVG element of the chart contains."""
        # Dots on a border stay whole.
        box = (self.left, self.top - 4, self.right - self.left, self.bottom - self.top + 8)
        x, y, width, height = (_short(value) for value in box)
        clip = f'<clipPath id="clip-{self.name}"><rect x="{x}" y="{y}" width="{width}" height="{height}"/></clipPath>'
        clipped = f'<g clip-path="url(#clip-{self.name})">{"".join(self._clipped)}</g>'
        return f"{clip}{''.join(self._parts)}{clipped}{''.join(self._marks)}"

    def __html__(self) -> str:
        """Return the chart as an SVG element; templates take it as it is."""
        return (
            f'<svg class="chart" viewBox="0 0 {_short(self.width)} {_short(self.height)}" role="img"'
            f' aria-label="{escape(self.label)}">{self.inside}</svg>'
        )

    def _written(self, value: float) -> str:
        return number(10.0**value) if self._powers else number(value)

    def _y_ticks(self) -> list[float]:
        return ticks(*self.y_ends, max(3, int((self.bottom - self.top) // 34)), whole=self._powers)

    def _text(self, x: float, y: float, text: str, kind: str) -> None:
        if text:
            self._parts.append(f'<text class="{kind}" x="{_short(x)}" y="{_short(y)}">{escape(text)}</text>')


def ticks(low: float, high: float, count: int, *, whole: bool = False) -> list[float]:
    """Return round numbers between two values, about as many as asked for and, unless whole, at least two.

    Examples:
        >>> ticks(0, 23, 5), ticks(-3, 4.9, 3)
        ([0.0, 5.0, 10.0, 15.0, 20.0], [-2.5, 0.0, 2.5])
    """
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    if whole:
        step = max(1.0, step)
    elif len(_multiples(low, high, step)) < 2:
        step /= 2
    return _multiples(low, high, step)


def _multiples(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def padded(values: Iterable[float]) -> tuple[float, float]:
    """Return ends of an axis with a little room around all finite values."""
    finite = [float(value) for value in values if math.isfinite(value)]
    smallest, largest = (min(finite), max(finite)) if finite else (0.0, 1.0)
    room = 0.06 * (largest - smallest) or 0.06 * abs(largest) or 1.0
    return smallest - room, largest + room


def _proper(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _short(value: float) -> str:
    """Return a coordinate to a tenth of a unit; a page has tens of thousands of them."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
