"""The cost-reward plot of a dataset: what its episodes earned and cost, and the best reward at every cost.

One panel per cost, with the distributions of both returns at its sides. Figures are made without pyplot, as in
`lifesafe.report.figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from lifesafe.data import Dataset
from lifesafe.data.summary import checked_limits
from lifesafe.report.figures import BEST, LARGE, LIMIT, NORMAL, SMALL, save
from lifesafe.returns import return_names

SAFE, UNSAFE, FRONTIER = "#0072B2", "#A6A6A6", "#000000"

_PANEL = (5.4, 4.2)  # inches
_BINS = 40
_DASHES = ("--", ":", "-.")
_MANY = 3000  # episodes above which the points of a vector graphic are an image, or the file would be huge


def draw_dataset(
    dataset: Dataset, limits: float | Sequence[float] | None, path: str | Path, title: str = "", *, dpi: int = 200
) -> None:
    """Draw the returns of a dataset into a PNG, PDF or SVG file.

    Args:
        dataset: The episodes; each becomes a point.
        limits: Cost limits to show, one per cost; of one cost any number, the lowest of which decides what is safe.
        path: The file; its ending decides the format.
        title: Line above the plot.
        dpi: Resolution of a PNG.

    Raises:
        ConfigError: If the file ends in something else, or the limits do not fit the costs.
    """
    save(compose_dataset(dataset, limits, title=title), Path(path), dpi=dpi)


def compose_dataset(dataset: Dataset, limits: float | Sequence[float] | None = None, *, title: str = "") -> Figure:
    """Return the plot of a dataset as a figure; see `draw_dataset`."""
    costs = dataset.costs.shape[1]
    lines = _lines(limits, costs)
    safe = None if lines is None else _safe(dataset, [line[0] for line in lines])
    figure = Figure(figsize=(_PANEL[0] * costs, _PANEL[1]), layout="constrained", facecolor="white")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=LARGE, weight="bold")
    for k, part in enumerate(figure.subfigures(1, costs, squeeze=False)[0]):
        _draw_panel(part, dataset, k, () if lines is None else lines[k], safe)
    return figure


def draw_returns(
    ax: Axes,
    dataset: Dataset,
    *,
    cost: int = 0,
    limits: Sequence[float] = (),
    safe: Bool[np.ndarray, " e"] | None = None,
) -> None:
    """Draw one point per episode, the frontier and the limits of one cost.

    Args:
        ax: Where to draw.
        dataset: The episodes.
        cost: Which of several costs.
        limits: Values of that cost at which to draw a line.
        safe: Which episodes keep every limit, if there are limits; the best of them is marked.
    """
    rewards, costs = dataset.returns[:, 0], dataset.returns[:, 1 + cost]
    for chosen, colors in _groups(dataset, safe):
        ax.scatter(costs[chosen], rewards[chosen], s=9, linewidths=0.6, rasterized=len(dataset) > _MANY, **colors)
    steps, heights = frontier(rewards, costs)
    ax.step(steps, heights, where="post", color=FRONTIER, linewidth=1.3, label="best at this cost or less")
    for number, limit in enumerate(limits):
        style = _DASHES[number % len(_DASHES)]
        ax.axvline(limit, color=LIMIT, linestyle=style, linewidth=1.3, label=f"limit {limit:g}")
    if safe is not None and safe.any():
        best = np.flatnonzero(safe)[np.argmax(rewards[safe])]
        ax.plot(
            costs[best], rewards[best], "*", color=BEST, markeredgecolor="black", markersize=11, zorder=5,
            label=f"best safe episode: {rewards[best]:,.4g}",
        )  # fmt: skip
    ax.set_xlabel(f"{return_names(dataset.costs.shape[1])[1 + cost]} return", fontsize=NORMAL)
    ax.set_ylabel("reward return", fontsize=NORMAL)
    ax.margins(0.02)


def frontier(
    rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return the costs at which the best reward of all episodes that cost no more rises, and that reward.

    The largest cost is the last point, so that a line through them ends where the episodes do.
    """
    order = np.lexsort([-rewards, costs])
    best = np.maximum.accumulate(rewards[order])
    rises = np.flatnonzero(np.diff(best, prepend=-np.inf) > 0)
    return np.append(costs[order][rises], costs.max()), np.append(best[rises], best[-1])


def _draw_panel(
    part: SubFigure, dataset: Dataset, cost: int, limits: Sequence[float], safe: Bool[np.ndarray, " e"] | None
) -> None:
    grid = part.add_gridspec(2, 2, width_ratios=(6, 1), height_ratios=(1, 6), wspace=0.02, hspace=0.02)
    ax = part.add_subplot(grid[1, 0])
    above = part.add_subplot(grid[0, 0], sharex=ax)
    beside = part.add_subplot(grid[1, 1], sharey=ax)
    draw_returns(ax, dataset, cost=cost, limits=limits, safe=safe)
    _draw_sides(above, beside, dataset, cost, safe)
    ax.grid(color="#E5E5E5", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    for side in (ax, above, beside):
        side.spines[["top", "right"]].set_visible(False)
    _legend(part, ax, dataset, safe)


def _draw_sides(above: Axes, beside: Axes, dataset: Dataset, cost: int, safe: Bool[np.ndarray, " e"] | None) -> None:
    """Draw how often each cost and each reward occurs, safe episodes apart."""
    kinds = [(np.ones(len(dataset), dtype=bool), SAFE)] if safe is None else [(safe, SAFE), (~safe, UNSAFE)]
    colors = [color for _, color in kinds]
    for side, values, orientation in (
        (above, dataset.returns[:, 1 + cost], "vertical"),
        (beside, dataset.returns[:, 0], "horizontal"),
    ):
        parts = [values[chosen] for chosen, _ in kinds]
        side.hist(parts, bins=_BINS, range=_range(values), stacked=True, color=colors, orientation=orientation)  # type: ignore[arg-type]
        side.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        side.spines[:].set_visible(False)


def _groups(dataset: Dataset, safe: Bool[np.ndarray, " e"] | None) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Return masks of the episodes that are drawn alike, and how: filled if they lasted, open if they ended early."""
    early = dataset.terminated
    kinds = [(np.ones_like(early), SAFE)] if safe is None else [(~safe, UNSAFE), (safe, SAFE)]
    return [
        (kind & end, {"edgecolors": color, "facecolors": fill})
        for kind, color in kinds
        for end, fill in ((early, "none"), (~early, color))
    ]


def _legend(part: SubFigure, ax: Axes, dataset: Dataset, safe: Bool[np.ndarray, " e"] | None) -> None:
    words = {"episode": SAFE} if safe is None else {"safe episode": SAFE, "unsafe episode": UNSAFE}
    dot: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4}
    handles: list[Any] = [Line2D([], [], color=color, label=word, **dot) for word, color in words.items()]
    if dataset.terminated.any():
        handles.append(Line2D([], [], color="#555555", markerfacecolor="none", label="ended early", **dot))
    handles += ax.get_legend_handles_labels()[0]
    part.legend(
        handles=handles, loc="outside lower center", ncols=3, fontsize=SMALL, frameon=False,
        handletextpad=0.5, columnspacing=1.6,
    )  # fmt: skip


def _lines(limits: float | Sequence[float] | None, costs: int) -> list[tuple[float, ...]] | None:
    """Return the limits of every cost; all are of the one cost, if there is one."""
    if limits is None or np.size(limits) == 0:
        return None
    if costs == 1:
        values = tuple(sorted(float(limit) for limit in np.atleast_1d(limits)))
        checked_limits(values, len(values))
        return [values]
    return [(float(limit),) for limit in checked_limits(limits, costs)]


def _safe(dataset: Dataset, limits: Sequence[float]) -> Bool[np.ndarray, " e"]:
    return np.asarray((dataset.returns[:, 1:] <= np.array(limits)).all(axis=1))


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)
