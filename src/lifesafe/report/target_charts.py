"""What is believed of reward and costs along lines through one target."""

from __future__ import annotations

from functools import partial

import numpy as np

from lifesafe.journal.events import Point
from lifesafe.report.moments import Line, lines_of
from lifesafe.report.reading import Reading
from lifesafe.report.svg import Chart, Figure, Sign, padded
from lifesafe.report.wording import axis_text, number

_TALL = 2.5  # limits up to which a band may stretch a chart


def line_figure(reading: Reading) -> Figure | None:
    """Return what is believed of reward and costs along every axis; none if only listed targets may be tried."""
    charts = []
    for line in lines_of(reading.problem, reading.focus, reading.beliefs.model):
        charts.append(partial(_reward, reading, line))
        if line.costs:
            charts.append(partial(_costs, reading, line))
    several = len(reading.problem.limits) > 1
    what = "mean reward ± 2 sd" if several else "mean reward ± 2 sd; mean cost, 5 to 95\N{NO-BREAK SPACE}%"
    signs = [Sign("band", "model", what), Sign("line", "median", "mean reward")]
    if several:
        quantile = "95\N{NO-BREAK SPACE}% quantile"
        signs += [Sign("line", f"cost-{k}", f"{name}, {quantile}") for k, name in enumerate(reading.names[1:])]
    signs += [
        Sign("line", "limit", "limit"),
        Sign("circle", "measured", "measured"),
        Sign("ring", "focus", "the target"),
    ]
    caption = f"What is believed along every axis, through the target {reading.text(reading.focus)}."
    return Figure(caption=caption, charts=tuple(charts), legend=tuple(signs), halves=True) if charts else None


def _reward(reading: Reading, line: Line, width: int) -> Chart:
    low, high = line.reward - 2 * line.sd, line.reward + 2 * line.sd
    measured = [float(reading.beliefs.own[point].means[0]) for point in _on_line(reading, line)]
    chart = _chart(reading, line, "reward", padded([*low, *high, *measured]), width)
    chart.band(line.x, low, high, "model")
    chart.line(line.x, line.reward, "median")
    _measured(chart, reading, line, 0)
    return chart


def _costs(reading: Reading, line: Line, width: int) -> Chart:
    """Return the chart of the costs; of several, each as a share of its limit."""
    limits = reading.problem.limits
    several = len(limits) > 1
    scale = 1.0 if several else limits[0]
    bands = {k: tuple(values / limits[k] * scale for values in band) for k, band in line.costs.items()}
    largest = max(float(high.max()) for _, high in bands.values())
    what = "mean cost / limit" if several else f"mean {reading.names[1]}"
    chart = _chart(reading, line, what, (0.0, 1.06 * max(1.3 * scale, min(largest, _TALL * scale))), width)
    for k, (low, high) in bands.items():
        if several:
            chart.line(line.x, high, f"cost-{k}")
        else:
            chart.band(line.x, low, high, "model")
    chart.horizontal(scale, "limit", "limit")
    if not several:
        _measured(chart, reading, line, 1)
    return chart


def _chart(reading: Reading, line: Line, what: str, ends: tuple[float, float], width: int) -> Chart:
    across = axis_text(reading.problem, line.axis)
    told = f"What is believed of the {what} along {across}, through {reading.text(reading.focus)}."
    name = f"line-{line.axis}-{'reward' if what == 'reward' else 'cost'}-{width}"
    chart = Chart(told, size=(width, 240), x=(float(line.x[0]), float(line.x[-1])), y=ends, name=name)
    chart.axes(across, what)
    return chart


def _on_line(reading: Reading, line: Line) -> list[Point]:
    """Return the tried targets that differ from the one in focus along one axis only."""
    tried = reading.beliefs.tried
    apart = np.abs(reading.problem.scaled(tried) - reading.problem.scaled([reading.focus]))
    apart[:, line.axis] = 0.0
    return [tried[i] for i in np.flatnonzero((apart < 1e-9).all(axis=1))]


def _measured(chart: Chart, reading: Reading, line: Line, axis: int) -> None:
    for point in _on_line(reading, line):
        own = reading.beliefs.own[point]
        mean, half = float(own.means[axis]), float(reading.doubt_of(own)[axis])
        chart.intervals([point[line.axis]], [mean - half], [mean + half], "measured")
        tip = f"Target {reading.text(point)}\n{number(mean)} ± {number(half)}"
        chart.mark(point[line.axis], mean, "circle", "measured", tip)
        if point == reading.focus:
            chart.mark(point[line.axis], mean, "ring", "focus")
