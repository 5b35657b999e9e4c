"""Picture of a coverage table: how often deployments violated, and how quickly they found the best target."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lifesafe.coverage.simulation import Summary

_KEPT, _BROKEN, _PLAIN = "#0072b2", "#d55e00", "#555555"  # told apart by color-blind readers too


def coverage_figure(summaries: Sequence[Summary]) -> Figure:
    """Return a figure with one line per row: violations with their interval, and what was reached."""
    height = 1.6 + 0.28 * len(summaries)
    figure = Figure(figsize=(11.0, height), layout="constrained")
    violations, found, trials = figure.subplots(1, 3, sharey=True, width_ratios=(2, 1, 1))
    _draw_violations(violations, summaries)
    _draw_dots(found, [100 * s.found for s in summaries], "within 5 % of\nthe best [%]", 100.0)
    longest = max((s.row.trials for s in summaries), default=30)
    _draw_dots(trials, [s.median_trials for s in summaries], "median trials\nuntil then", float(longest))
    labels = [f"{s.row.family}: {s.row.name}, delta {s.row.delta:g}" for s in summaries]
    violations.set_yticks(range(len(summaries)), labels, fontsize=8)
    violations.set_ylim(len(summaries) - 0.4, -0.6)
    return figure


def _draw_violations(axes: Axes, summaries: Sequence[Summary]) -> None:
    for line, s in enumerate(summaries):
        low, high = s.violated_interval
        color = _KEPT if s.keeps_promise else _BROKEN
        axes.plot([100 * low, 100 * high], [line, line], color=color, linewidth=2, solid_capstyle="butt")
        axes.plot(100 * s.violated, line, marker="o", color=color, markersize=5)
        axes.plot([100 * s.row.delta] * 2, [line - 0.4, line + 0.4], color="black", linewidth=1.2)
        if s.unsafe_operation > 0:
            axes.plot(100 * s.unsafe_operation, line, marker="x", color=_BROKEN, markersize=5)
    # Rates near zero and near one in the same picture.
    axes.set_xscale("symlog", linthresh=10.0)
    axes.set_xlim(-0.3, 110.0)
    ticks = (0, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("deployments with a violation [%], 95 % interval\n(bar: delta; cross: unsafe in operation)")
    axes.grid(axis="x", alpha=0.3)


def _draw_dots(axes: Axes, values: Sequence[float], label: str, end: float) -> None:
    shown = [(value, line) for line, value in enumerate(values) if math.isfinite(value)]
    axes.scatter([value for value, _ in shown], [line for _, line in shown], color=_PLAIN, s=18)
    axes.set_xlim(-0.02 * end, 1.02 * end)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.3)
