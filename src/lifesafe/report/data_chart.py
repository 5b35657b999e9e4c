"""The cost-reward plot of a dataset: what its episodes earned and cost, and the best reward at every cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from lifesafe.data import Dataset
from lifesafe.report.picture import Sheet, write_picture
from lifesafe.report.svg import HALF, WIDE, Chart, Sign, padded
from lifesafe.report.wording import number
from lifesafe.returns import per_cost, return_names

_BINS = 40
_SIDE = 56.0  # room for the distribution of each return


def draw_dataset(dataset: Dataset, limits: float | Sequence[float] | None, path: str | Path, title: str = "") -> None:
    """Draw the returns of a dataset into a PNG or SVG file, as its ending says; each episode becomes a point.

    Limits are one per cost; of one cost any number may be shown, the lowest of which decides what is safe.

    Raises:
        ConfigError: If the file ends in something else, or the limits do not fit the costs.
    """
    write_picture(dataset_svg(dataset, limits, title), Path(path))


def dataset_svg(dataset: Dataset, limits: float | Sequence[float] | None = None, title: str = "") -> str:
    """Return the plot of a dataset as SVG; see `draw_dataset`."""
    costs = dataset.costs.shape[1]
    lines = _lines(limits, costs)
    safe = None
    if lines is not None:
        safe = np.asarray((dataset.returns[:, 1:] <= [line[0] for line in lines]).all(axis=1))
    panels = [_panel(dataset, k, () if lines is None else lines[k], safe) for k in range(costs)]
    rows = [panels[i : i + 2] for i in range(0, costs, 2)]
    sheet = Sheet()
    sheet.charts(title or "Returns of every episode", rows, _legend(dataset, safe))
    return sheet.svg()


def frontier_line(
    rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return the costs at which the best reward of all episodes that cost no more rises, and that reward.

    The largest cost is the last point, so that a line through them ends where the episodes do.
    """
    order = np.lexsort([-rewards, costs])
    best = np.maximum.accumulate(rewards[order])
    rises = np.flatnonzero(np.diff(best, prepend=-np.inf) > 0)
    return np.append(costs[order][rises], costs.max()), np.append(best[rises], best[-1])


def _panel(dataset: Dataset, cost: int, limits: Sequence[float], safe: Bool[np.ndarray, " e"] | None) -> Chart:
    rewards, costs = dataset.returns[:, 0], dataset.returns[:, 1 + cost]
    name = return_names(dataset.costs.shape[1])[1 + cost]
    chart = Chart(
        f"Reward and {name} of {len(rewards):,} episodes.",
        size=(WIDE, 560) if dataset.costs.shape[1] == 1 else (HALF, 400),
        x=padded([*costs, *limits]), y=padded(rewards), name=f"data-{cost}",
    )  # fmt: skip
    chart.top, chart.right = chart.top + _SIDE, chart.right - _SIDE
    chart.annotate([(limit, f"limit {number(limit)}", "limit") for limit in limits])
    chart.axes(f"{name} return", "reward return")
    for mask, kind in _kinds(len(rewards), safe):
        across, upwards = _side(costs, mask, chart.x_ends), _side(rewards, mask, chart.y_ends)
        above, beside = chart.top - (20 if limits else 4), chart.right + 4  # room for the names of limits
        bars = [f"M{chart.x(a):.1f} {above}v{-n:.1f}H{chart.x(b):.1f}V{above}z" for a, b, n in across]
        bars += [f"M{beside} {chart.y(a):.1f}h{n:.1f}V{chart.y(b):.1f}H{beside}z" for a, b, n in upwards]
        chart.raw(f'<path class="fill of-{kind}" d="{"".join(bars)}"/>', clipped=False)
        early = mask & dataset.terminated
        chart.dots(costs[mask & ~early], rewards[mask & ~early], kind)
        chart.rings(costs[early], rewards[early], kind)
    steps, heights = frontier_line(rewards, costs)
    chart.line(np.repeat(steps, 2)[1:], np.repeat(heights, 2)[:-1], "best")
    if safe is not None and safe.any():
        best = np.flatnonzero(safe)[np.argmax(rewards[safe])]
        chart.mark(costs[best], rewards[best], "star", "star", f"reward {number(rewards[best], 4)}")
    return chart


def _kinds(episodes: int, safe: Bool[np.ndarray, " e"] | None) -> list[tuple[Bool[np.ndarray, " e"], str]]:
    """Return the episodes that are drawn alike, those behind first."""
    return [(np.ones(episodes, dtype=bool), "safe")] if safe is None else [(~safe, "unsafe"), (safe, "safe")]


def _side(
    values: Float[np.ndarray, " e"], mask: Bool[np.ndarray, " e"], ends: tuple[float, float]
) -> list[tuple[float, float, float]]:
    """Return the bars of a distribution: from where to where, and how long in units of the sheet."""
    most = max(int(np.histogram(values, _BINS, ends)[0].max()), 1)
    counts, edges = np.histogram(values[mask], _BINS, ends)
    lengths = counts / most * (_SIDE - 8)
    return [each for each in zip(edges[:-1].tolist(), edges[1:].tolist(), lengths.tolist(), strict=True) if each[2]]


def _legend(dataset: Dataset, safe: Bool[np.ndarray, " e"] | None) -> list[Sign]:
    signs = [Sign("dots", "safe", "episode" if safe is None else "safe episode")]
    signs += [] if safe is None else [Sign("dots", "unsafe", "unsafe episode"), Sign("line", "limit", "limit")]
    signs += [Sign("ring", "early", "ended early")] if dataset.terminated.any() else []
    signs.append(Sign("line", "best", "best at this cost or less"))
    if safe is not None and safe.any():
        best = number(float(dataset.returns[safe, 0].max()), 4)
        signs.append(Sign("star", "star", f"best safe episode: {best}"))
    return signs


def _lines(limits: float | Sequence[float] | None, costs: int) -> list[tuple[float, ...]] | None:
    """Return the limits of every cost, the lowest first; all are of the one cost, if there is one."""
    if limits is None or np.size(limits) == 0:
        return None
    if costs == 1:
        return [tuple(sorted(per_cost("limits", limits)))]
    return [(limit,) for limit in per_cost("limits", limits, costs)]
