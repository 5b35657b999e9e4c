"""Pictures of a comparison: reward against cost, and what the safe searches tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.results import Cells, Key, Row
from lifesafe.lab.benchmark.tables import METHOD_COLUMNS
from lifesafe.lab.figures.saving import LARGE, LIMIT, NORMAL, SMALL
from lifesafe.lab.methods import mark as mark_of
from lifesafe.lab.methods import title

_SEED_COLORS = ("C0", "C2", "C4", "C7", "C9", "C5", "C8", "C6")  # none of them like the limit
_MOST = 3.0
_WIDE = 3


def draw_scatter(rows: Sequence[Row]) -> Figure:
    """Return a panel for every task and limit: mean reward over mean cost of each method, safe to the left of 1.

    Costs of more than three times the limit are drawn at the edge, with their number beside them. Normalized rewards
    are drawn between 0 and 1.
    """
    table = Cells.of(rows)
    methods = [
        *(name for name in METHOD_COLUMNS if name in table.methods),
        *(m for m in table.methods if m not in METHOD_COLUMNS),
    ]
    normalized = {row.task for row in rows if row.references is not None}
    figure, axes = _panels(table, "Reward and cost of every method")
    for ax, (task, limit) in zip(axes, _places(table), strict=False):
        ax.axvspan(1, _MOST * 1.1, color=LIMIT, alpha=0.08, lw=0)
        ax.axvline(1, color=LIMIT, lw=1)
        for method in methods:
            cell = table.cells.get(Key(task, method, limit))
            if cell is None or not cell.seeds:
                continue
            color, mark = mark_of(method)
            spread = cell.cost_deviation if cell.cost <= _MOST else None  # its bar does not belong to the edge
            ax.errorbar(
                min(cell.cost, _MOST), cell.reward, xerr=spread, yerr=cell.reward_deviation, fmt=mark,
                color=color, ms=11 if method == "pls" else 6, lw=0.8, zorder=3 if method == "pls" else 2,
            )  # fmt: skip
            if cell.cost > _MOST:
                ax.annotate(
                    f"{cell.cost:.2g} →", (_MOST, cell.reward), xytext=(-6, 0), textcoords="offset points",
                    ha="right", va="center", fontsize=SMALL, color=color,
                )  # fmt: skip
        ax.set_xlim(-0.1, _MOST * 1.1)
        if task in normalized:  # all of the scale, so that small differences look small
            low, high = ax.get_ylim()
            ax.set_ylim(min(low, -0.05), max(high, 1.05))
        ax.set_title(f"{task}, limit {limit:g}", fontsize=NORMAL, loc="left")
        ax.tick_params(labelsize=SMALL)
    _name_axes(axes, "cost / limit", "normalized reward")
    handles = [
        Line2D([], [], ls="", marker=mark_of(method)[1], color=mark_of(method)[0], label=title(method))
        for method in methods
    ]
    figure.legend(handles=handles, loc="outside right upper", fontsize=SMALL)
    return figure


def draw_exploration(rows: Sequence[Row]) -> Figure:
    """Return a panel for every task and limit: the mean cost of every trial of a safe search, over the trials.

    Raises:
        ConfigError: If no row is of a safe search.
    """
    searched = [row for row in rows if row.trial_costs]
    if not searched:
        raise ConfigError('No row is of a safe search; run a suite with the method "pls".')
    table = Cells.of(searched)
    figure, axes = _panels(table, "Cost of every trial of the safe search")
    seeds = sorted({row.seed for row in searched})
    for ax, (task, limit) in zip(axes, _places(table), strict=False):
        here = [row for row in searched if (row.task, row.limit) == (task, limit)]
        for row in here:
            trials = np.arange(1, len(row.trial_costs) + 1)
            ax.plot(trials, row.trial_costs, "o-", ms=2.5, lw=0.8, alpha=0.8, color=_seed_color(seeds, row.seed))
        ax.axhline(limit, color=LIMIT, lw=1.2)
        ax.set_ylim(0, 1.1 * max([limit, *(max(row.trial_costs) for row in here)]))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        above, trials_in_all = sum(row.violations for row in here), sum(row.trials for row in here)
        title = f"{task}, limit {limit:g}\n{above} of {trials_in_all} above"
        ax.set_title(title, fontsize=NORMAL, loc="left")
        ax.tick_params(labelsize=SMALL)
    _name_axes(axes, "trial", "mean cost")
    handles = [Line2D([], [], marker="o", ms=2.5, color=_seed_color(seeds, n), label=f"seed {n}") for n in seeds]
    handles.append(Line2D([], [], color=LIMIT, label="limit"))
    figure.legend(handles=handles, loc="outside right upper", fontsize=SMALL)
    return figure


def _seed_color(seeds: Sequence[int], seed: int) -> str:
    return _SEED_COLORS[seeds.index(seed) % len(_SEED_COLORS)]


def _places(table: Cells) -> list[tuple[str, float]]:
    return [(task, limit) for task in table.tasks for limit in table.limits]


def _panels(table: Cells, title: str) -> tuple[Figure, list[Axes]]:
    places = _places(table)
    columns = min(len(places), _WIDE if len(table.limits) != 2 else 4)
    height = -(-len(places) // columns)
    figure = Figure(figsize=(2.7 * columns + 1.6, 2.3 * height + 0.5), layout="constrained", facecolor="white")
    axes = list(figure.subplots(height, columns, squeeze=False).flat)
    for spare in axes[len(places) :]:
        spare.set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=LARGE, weight="bold")
    return figure, axes


def _name_axes(axes: Sequence[Axes], across: str, up: str) -> None:
    for ax in axes:
        ax.set_xlabel(across, fontsize=SMALL)
        ax.set_ylabel(up, fontsize=SMALL)
