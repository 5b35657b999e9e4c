"""Target against actual: what tried targets returned, and what is believed along lines through one of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from lifesafe.journal.events import Point
from lifesafe.report.reading import Reading
from lifesafe.report.svg import HALF, Chart, legend, padded
from lifesafe.report.wording import axis_text, number, plural
from lifesafe.safety.beliefs import Own

_POINTS = 60  # of a line
_LEVELS = (0.05, 0.95)  # quantiles of a mean cost that are drawn
_LEAST = 5  # own episodes of a target whose mean is drawn
_TALL = 2.5  # limits up to which a band may stretch a chart


def asked_against_measured(reading: Reading, axis: int) -> str:
    """Return the chart of one return: asked for across, measured upwards.

    Args:
        reading: The run.
        axis: 0 for the reward, 1 for the first cost, and so on.
    """
    own, name = well_measured(reading), reading.names[axis]
    asked = [point[axis] for point in own]
    measured = [float(each.means[axis]) for each in own.values()]
    halves = [float(reading.doubt_of(each)[axis]) for each in own.values()]
    values = [*measured, *np.add(measured, halves)]
    least = 0.02 * float(reading.problem.extents[axis])  # where all asked for the same, the axis still needs a width
    ends_x = padded([x + sign * least for x in asked for sign in (-1, 1)])
    if axis:
        ends_x = (max(ends_x[0], -0.05 * ends_x[1]), ends_x[1])
        limit = reading.problem.limits[axis - 1]
        ends_y = (0.0, 1.06 * max([limit, *measured, min(max(values, default=0.0), _TALL * limit)]))
    else:
        ends_y = padded([*values, *np.subtract(measured, halves)])
    chart = Chart(
        f"Measured against asked-for {name} of {plural(len(own), 'target')}.",
        width=HALF, height=330, x=ends_x, y=ends_y, name=f"asked-{axis}",
    )  # fmt: skip
    chart.axes(f"{name} asked for", f"mean {name} measured")
    low, high = max(ends_x[0], ends_y[0]), min(ends_x[1], ends_y[1])
    if high > low:
        chart.line([low, high], [low, high], "diagonal")
    if axis:
        chart.horizontal(reading.problem.limits[axis - 1], "limit", "limit")
    chart.intervals(asked, np.subtract(measured, halves), np.add(measured, halves), "measured")
    for (point, each), x, y, half in zip(own.items(), asked, measured, halves, strict=True):
        tip = (
            f"Target {reading.text(point)}\n{name}: asked {number(x)}, measured {number(y)} ±"
            f" {number(half)}\n{plural(each.episodes, 'episode')}"
        )
        chart.mark(x, y, "circle", "measured", tip)
        if reading.chosen is not None and point == reading.chosen.point:
            chart.mark(x, y, "ring", "focus")
    return chart.svg()


def well_measured(reading: Reading) -> dict[Point, Own]:
    """Return the targets with enough episodes of their own, and what these add up to."""
    return {point: own for point, own in reading.beliefs.own.items() if own.episodes >= _LEAST}


def asked_legend() -> str:
    """Return what the signs of these charts mean."""
    return legend(
        [
            ("circle", "measured", f"mean of all episodes of a target with at least {_LEAST}, ± 2 sd"),
            ("line", "diagonal", "as asked"),
            ("line", "limit", "limit"),
            ("ring", "focus", "target to operate"),
        ]
    )


def line_charts(reading: Reading) -> list[str]:
    """Return what is believed of reward and costs along every axis, through the target in focus; none for a list."""
    if reading.problem.targets is not None:
        return []
    return [
        chart for axis in range(len(reading.problem.names)) for chart in (_reward(reading, axis), _costs(reading, axis))
    ]


def line_legend(reading: Reading) -> str:
    """Return what the bands and lines mean."""
    costs = range(len(reading.problem.limits))
    items = [("band", "model", "mean reward ± 2 sd; mean cost, 5 to 95\N{NO-BREAK SPACE}%"), ("line", "median", "mean")]
    if len(costs) > 1:
        items = [("band", "model", "mean reward ± 2 sd")]
        items += [("line", f"cost-{k}", f"{reading.names[1 + k]}, 95\N{NO-BREAK SPACE}% quantile") for k in costs]
    items += [("line", "limit", "limit"), ("circle", "measured", "measured"), ("ring", "focus", "the target")]
    return legend(items)


def _reward(reading: Reading, along: int) -> str:
    x, Z = _along(reading, along)
    low, high = reading.problem.rewards  # type: ignore[misc]  # made so by the problem
    found = reading.beliefs.model.expect(Z)
    mean, sd = low + (high - low) * found.reward, (high - low) * found.reward_sd
    here = _on_line(reading, along)
    measured = [float(reading.beliefs.own[point].means[0]) for point in here]
    chart = _chart(reading, along, "reward", padded([*(mean - 2 * sd), *(mean + 2 * sd), *measured]), "reward")
    chart.band(x, mean - 2 * sd, mean + 2 * sd, "model")
    chart.line(x, mean, "median")
    _measured(chart, reading, along, 0)
    return chart.svg()


def _costs(reading: Reading, along: int) -> str:
    """Return the chart of the costs, each as a share of its limit."""
    x, Z = _along(reading, along)
    several, limits = len(reading.problem.limits) > 1, reading.problem.limits
    found = reading.beliefs.model.expect(Z).quantiles(_LEVELS)
    pairs = [(k, found[..., k]) for k, cost in enumerate(reading.beliefs.model.costs) if cost is not None]
    scale = 1.0 if several else limits[0]
    values = [float(value) for _, bands in pairs for value in bands[-1] * scale]
    top = 1.06 * max(1.3 * scale, min(max(values, default=0.0), _TALL * scale))
    what = "mean cost / limit" if several else f"mean {reading.names[1]}"
    chart = _chart(reading, along, what, (0.0, top), "cost")
    for k, bands in pairs:
        if several:
            chart.line(x, bands[-1], f"cost-{k}")
        else:
            chart.band(x, bands[0] * scale, bands[1] * scale, "model")
    chart.horizontal(scale, "limit", "limit")
    if not several:
        _measured(chart, reading, along, 1)
    return chart.svg()


def _chart(reading: Reading, along: int, what: str, ends: tuple[float, float], name: str) -> Chart:
    problem = reading.problem
    low, extent = float(problem.low[along]), float(problem.extents[along])
    across = axis_text(problem, along)
    told = f"What is believed of the {what} along {across}, through {reading.text(reading.focus)}."
    chart = Chart(told, width=HALF, height=240, x=(low, low + extent), y=ends, name=f"line-{along}-{name}")
    chart.axes(across, what)
    return chart


def _along(reading: Reading, axis: int) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p d"]]:
    """Return places on an axis, raw units, and the targets there."""
    problem = reading.problem
    u = np.linspace(0.0, 1.0, _POINTS)
    Z = np.repeat(problem.scaled([reading.focus]), _POINTS, axis=0)
    Z[:, axis] = u
    return problem.low[axis] + u * problem.extents[axis], Z


def _on_line(reading: Reading, along: int) -> list[Point]:
    """Return the tried targets that differ from the one in focus along one axis only."""
    tried = reading.beliefs.tried
    apart = np.abs(reading.problem.scaled(tried) - reading.problem.scaled([reading.focus]))
    apart[:, along] = 0.0
    return [tried[i] for i in np.flatnonzero((apart < 1e-9).all(axis=1))]


def _measured(chart: Chart, reading: Reading, along: int, axis: int) -> None:
    for point in _on_line(reading, along):
        own = reading.beliefs.own[point]
        mean, half = float(own.means[axis]), float(reading.doubt_of(own)[axis])
        chart.intervals([point[along]], [mean - half], [mean + half], "measured")
        tip = f"Target {reading.text(point)}\n{number(mean)} ± {number(half)}"
        chart.mark(point[along], mean, "circle", "measured", tip)
        if point == reading.focus:
            chart.mark(point[along], mean, "ring", "focus")
