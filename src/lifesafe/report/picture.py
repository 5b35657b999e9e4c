"""Pictures without a browser: the charts of the page on one sheet, as SVG, or as PNG by resvg."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import resvg_py
from markupsafe import escape

from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError
from lifesafe.report.operation_chart import operation_figure
from lifesafe.report.page import paid_figure, part
from lifesafe.report.plane import plane_chart, plane_legend, plane_shapes
from lifesafe.report.promise import qualifications, statement
from lifesafe.report.reading import Reading
from lifesafe.report.svg import HALF, WIDE, Chart, Figure, Sign
from lifesafe.report.target_charts import line_figure
from lifesafe.report.trial_charts import counted, forecast_figure, trial_figure
from lifesafe.report.verdict import headline

_EDGE, _GAP = 20, 20
_SHEET = WIDE + 2 * _EDGE
_LETTERS = 150  # of a line of text
_LINE = 17.0  # its height
_LETTER = 6.4  # width of a letter of a legend
_PANELS = 3  # of a row of planes
_NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'
_FONTS = "font-family=\"'DejaVu Sans', 'Segoe UI', 'Noto Sans', Roboto, 'Liberation Sans', Arial, sans-serif\""
_ZOOM = 2  # pixels of a PNG for each unit


class Sheet:
    """A picture under construction, from its top downwards."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._y = float(_EDGE)

    def text(self, words: str, kind: str = "words", letters: int = _LETTERS) -> None:
        """Write a paragraph."""
        for line in textwrap.wrap(words, letters):
            self._y += _LINE
            self._parts.append(f'<text class="{kind}" x="{_EDGE}" y="{self._y:.1f}">{escape(line)}</text>')
        self._y += 5

    def charts(self, title: str, rows: Iterable[Sequence[Chart]], legend: Sequence[Sign]) -> None:
        """Draw rows of charts below a title, and their legend."""
        self._y += _GAP / 2
        self.text(title, "title")
        for row in rows:
            x = float(_EDGE)
            for chart in row:
                self._parts.append(f'<g transform="translate({x:.1f} {self._y:.1f})">{chart.inside}</g>')
                x += chart.width + _GAP
            self._y += max(chart.height for chart in row) + 4
        x = float(_EDGE)
        for sign in legend:
            wide = 34 + _LETTER * len(sign.text)
            if x + wide > _SHEET and x > _EDGE:
                x, self._y = _EDGE, self._y + _LINE
            place = f"translate({x + 10:.1f} {self._y + 8:.1f})"
            self._parts.append(f'<g transform="{place}">{sign.drawn}<text x="14" y="4">{escape(sign.text)}</text></g>')
            x += wide
        self._y += _LINE + 4

    def raw(self, markup: str) -> None:
        """Add definitions."""
        self._parts.append(f"<defs>{markup}</defs>")

    def svg(self) -> str:
        """Return the whole, with the colors of the page put in."""
        height = self._y + _EDGE
        return (
            f'<svg {_NAMESPACE} class="chart" width="{_SHEET}" height="{height:.0f}"'
            f' viewBox="0 0 {_SHEET} {height:.0f}" {_FONTS}><style>{_style()}</style>'
            f'<rect width="{_SHEET}" height="{height:.0f}" fill="#fff"/>{"".join(self._parts)}</svg>\n'
        )


def picture(reading: Reading) -> str:
    """Return the charts of a run that a paper needs, with the promise and what it took, as SVG."""
    sheet = Sheet()
    sheet.text(headline(reading), "title", 110)
    sheet.text(f"Promise: {statement(reading)}")
    for text in qualifications(reading):
        sheet.text(text)
    if counted(reading):
        for axis in range(1, len(reading.names)):
            _draw(sheet, trial_figure(reading, axis), width=WIDE)
    _draw_beliefs(sheet, reading)
    if counted(reading):
        pair = [figure for figure in (trial_figure(reading, 0), paid_figure(reading)) if figure is not None]
        _draw(sheet, *pair)
        _draw(sheet, forecast_figure(reading))
    if (operation := operation_figure(reading)) is not None:
        _draw(sheet, operation, width=WIDE)
    return sheet.svg()


def write_picture(svg: str, path: Path) -> None:
    """Write a picture, all of it or nothing; the ending of the path decides the format.

    Raises:
        ConfigError: If the ending is neither .svg nor .png, or there is no font for a PNG.
    """
    kind = path.suffix.lower()
    if kind == ".pdf":
        raise ConfigError(f"Cannot draw into {path}: give a .svg or .png, or print the page (.html) into a PDF.")
    if kind not in (".svg", ".png"):
        raise ConfigError(f"Cannot draw into {path}: give a file that ends in .svg or .png.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, _png(svg) if kind == ".png" else svg)


def _png(svg: str) -> bytes:
    # Where no font fits, resvg leaves out all words without a word.
    letter, nothing = (
        f'<svg {_NAMESPACE} width="9" height="9"><text y="9" {_FONTS}>{word}</text></svg>' for word in "x "
    )
    if resvg_py.svg_to_bytes(svg_string=letter) == resvg_py.svg_to_bytes(svg_string=nothing):
        raise ConfigError(
            "A PNG needs a font such as DejaVu Sans, and none is installed. Install one (Debian: fonts-dejavu-core), or"
            " give a .svg."
        )
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM))


def _draw(sheet: Sheet, *figures: Figure, width: int = HALF) -> None:
    """Draw figures as one."""
    charts = [draw(width) for figure in figures for draw in figure.charts]
    title = " ".join(text for figure in figures for text in (figure.caption, *figure.notes))
    signs = dict.fromkeys(sign for figure in figures for sign in figure.legend)
    across = WIDE // width
    sheet.charts(title, [charts[i : i + across] for i in range(0, len(charts), across)], list(signs))


def _draw_beliefs(sheet: Sheet, reading: Reading) -> None:
    """Draw the planes of targets at several moments; where there is none, beliefs along every axis."""
    if not reading.planes:
        lines = line_figure(reading)
        if lines is not None:
            _draw(sheet, lines)
        return
    size = ((WIDE - (_PANELS - 1) * _GAP) // _PANELS, 260)
    last = len(reading.moments) - 1
    shown = sorted({0, last // 2, last})
    rows = []
    for i in range(len(reading.planes)):
        sheet.raw(plane_shapes(reading, i))
        rows.append([plane_chart(reading, i, j, size) for j in shown])
    names = ", ".join(reading.moments[j].name for j in shown)
    sheet.charts(f"Risk that a mean cost exceeds its limit: {names}.", rows, plane_legend(reading))


@cache
def _style() -> str:
    """Return the style of charts in the light colors of the page; programs other than browsers know no variables."""
    known = re.search(r":root \{(.*?)\}", part("style.css"), re.DOTALL)
    assert known is not None
    colors = dict(re.findall(r"--([\w-]+): ([^;]+);", known[1]))
    rules = ".title { font-size: 13.5px; font-weight: bold; fill: var(--ink); } .words { font-size: 12.5px; }"
    rules = part("charts.css") + rules.replace(".title", ".chart .title").replace(".words", ".chart .words")
    return re.sub(r"var\(--([\w-]+)\)", lambda found: colors[found[1]], rules)
