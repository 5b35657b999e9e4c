"""Target against actual: what tried targets returned, and what the model expects along slices through one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe.optimizer import Stage
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.svg import HALF, THIRD, Chart, padded
from lifesafe.report.page.trial_charts import DEVIATIONS, SHAPES
from lifesafe.report.page.wording import mean_text, number, plural, target_text

_POINTS = 120  # of a slice, at the most


@dataclass(frozen=True, eq=False)
class Tried:
    """A target that was tried, with all its episodes."""

    index: int
    stage: Stage
    """Of its last trial."""
    means: Float[np.ndarray, " r"]
    halves: Float[np.ndarray, " r"]
    """Two standard deviations of each mean."""
    episodes: int


def tried_targets(reading: Reading) -> list[Tried]:
    """Return every target that was tried once, with the means of all its episodes, those of operation included."""
    posterior = reading.state.posterior
    stages = {m.result.trial.index: m.result.trial.stage for m in reading.history.moments}
    found = []
    for index, stage in stages.items():
        own = reading.own_episodes(index)
        sds = [float(own[:, 0].std(ddof=1)) / len(own) ** 0.5 if len(own) > 1 else 0.0]
        sds += [posterior.noise_sd(k, own[:, 1 + k]) for k in range(len(posterior.costs))]
        found.append(Tried(index, stage, own.mean(axis=0), DEVIATIONS * np.array(sds), len(own)))
    return found


def asked_against_measured(reading: Reading, axis: int) -> str:
    """Return the chart of one return: asked for across, measured upwards.

    Args:
        reading: The run.
        axis: 0 for the reward, 1 for the first cost, and so on.
    """
    tried, Z, name = tried_targets(reading), reading.problem.candidates, reading.problem.names[axis]
    asked = [float(Z[each.index, axis]) for each in tried]
    measured = [float(each.means[axis]) for each in tried]
    values = [*asked, *measured, *(float(each.means[axis] + each.halves[axis]) for each in tried)]
    if axis:
        values += [0.0, reading.problem.limits[axis - 1]]
    least = 0.02 * reading.problem.extents[axis]  # where all asked for the same, the axis still needs a width
    ends_x = padded([x + sign * least for x in asked for sign in (-1, 1)])
    ends_y = padded(values, low=min(0.0, *measured) if axis else None)
    chart = Chart(
        f"Measured against asked-for {name} of {plural(len(tried), 'target')}.",
        width=HALF, height=330, x=ends_x, y=ends_y, name=f"asked-{axis}",
    )  # fmt: skip
    chart.axes(f"{name} asked for", f"mean {name} measured")
    low, high = max(ends_x[0], ends_y[0]), min(ends_x[1], ends_y[1])
    if high > low:
        chart.line([low, high], [low, high], "diagonal")
    if axis:
        chart.horizontal(reading.problem.limits[axis - 1], "limit", "limit")
    for each, x, y in zip(tried, asked, measured, strict=True):
        kind = f"stage-{each.stage.value}"
        chart.interval(x, y - float(each.halves[axis]), y + float(each.halves[axis]), kind)
        tip = (
            f"Target {target_text(reading.problem.target(each.index))}\n{name}: asked {number(x)}, measured {number(y)}"
            f" ± {number(float(each.halves[axis]))}\n{plural(each.episodes, 'episode')}"
        )
        chart.mark(x, y, SHAPES[each.stage], kind, tip)
        if each.index == reading.focus and reading.chosen is not None:
            chart.mark(x, y, "ring", "focus")
    if not tried:
        chart.center("no trial is told yet")
    return chart.svg()


def slice_charts(reading: Reading) -> list[str]:
    """Return the bands of every return along every axis of the targets, through the target in focus."""
    axes = range(len(reading.problem.names))
    slices = {along: rows for along in axes if (rows := _slice(reading, along)) is not None}
    width = THIRD if len(slices) * len(axes) > 4 else HALF
    return [_band(reading, rows, along, axis, width) for along, rows in slices.items() for axis in axes]


def slice_title(reading: Reading) -> str:
    """Return which target the slices go through."""
    if reading.focus is None:
        return ""
    return target_text(reading.problem.target(reading.focus))


def _slice(reading: Reading, along: int) -> Int[np.ndarray, " m"] | None:
    """Return the candidates that differ from the target in focus along one axis only, in order."""
    if reading.focus is None:
        return None
    Z = reading.problem.candidates
    others = [axis for axis in range(Z.shape[1]) if axis != along]
    rows = np.flatnonzero(np.isclose(Z[:, others], Z[reading.focus, others]).all(axis=1))
    if len(rows) < 3:
        return None
    return rows[np.argsort(Z[rows, along])]


def _band(reading: Reading, rows: Int[np.ndarray, " m"], along: int, axis: int, width: int) -> str:
    problem, names = reading.problem, reading.problem.names
    x = problem.candidates[rows, along]
    lower, upper = reading.bands.lower[axis, rows], reading.bands.upper[axis, rows]
    if axis:
        lower = np.maximum(lower, 0.0)  # costs below zero are not believed
    thin = np.unique(np.linspace(0, len(rows) - 1, min(_POINTS, len(rows))).round().astype(int))
    here = [each for each in tried_targets(reading) if each.index in set(rows.tolist())]
    measured = [
        float(v) for each in here for v in (each.means[axis] - each.halves[axis], each.means[axis] + each.halves[axis])
    ]
    if axis:
        limit = problem.limits[axis - 1]
        ends = (0.0, 1.06 * max(2.2 * limit, *measured, 0.0) if measured else 2.3 * limit)
    else:
        low, extent = float(problem.candidates[:, 0].min()), problem.extents[0]
        ends = padded([*measured, *np.clip(lower, low, low + extent), *np.clip(upper, low, low + extent)])
    chart = Chart(
        f"Confidence band of the mean {names[axis]} along the target {names[along]} through "
        f"{slice_title(reading)}.",
        width=width, height=250, x=(float(x[0]), float(x[-1])), y=ends, name=f"slice-{along}-{axis}",
    )  # fmt: skip
    chart.axes(f"target {names[along]}", f"mean {names[axis]}")
    chart.band(x[thin], lower[thin], upper[thin], "model")
    if axis:
        chart.horizontal(problem.limits[axis - 1], "limit")
    for each in here:
        at, mean, half = float(problem.candidates[each.index, along]), float(each.means[axis]), float(each.halves[axis])
        kind = f"stage-{each.stage.value}"
        chart.interval(at, mean - half, mean + half, kind)
        tip = f"Target {target_text(problem.target(each.index))}\n{mean_text(names[axis], mean)} ± {number(half)}"
        chart.mark(at, mean, SHAPES[each.stage], f"small {kind}", tip)
        if each.index == reading.focus:
            chart.mark(at, mean, "ring", "focus")
    return chart.svg()
