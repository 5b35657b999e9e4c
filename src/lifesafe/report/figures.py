"""The picture of a run: one panel per question that a reader has.

(a) Were the limits kept?  (b) Which targets were known to be safe, and when?  (c) What did it bring?
(d) How much risk was taken?  (e) Can the model be believed?

Each `draw_...` fills one Axes, so that a paper can take a single panel; `compose` puts them together. Figures
are made without pyplot: no window, no backend to choose, no state that other code could see.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sized
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError
from lifesafe.optimizer import Problem, Stage
from lifesafe.optimizer.calibration import BANDS, half_width
from lifesafe.report.history import History
from lifesafe.report.shown import PANELS, candidates_near, moments_shown
from lifesafe.report.simulation import best_reachable
from lifesafe.report.words import checks, guarantee, outside_the_safe_set, settings
from lifesafe.theory.simulators import SimulatedMap

# Colors of Okabe and Ito, which people with any color vision can tell apart; shapes say the same in print.
STAGES = {
    Stage.SEED: ("#E69F00", "s"),
    Stage.EXPLORE: ("#0072B2", "o"),
    Stage.MAXIMIZE: ("#009E73", "^"),
}
RETURNS = (("#000000", "o"), ("#CC79A7", "D"), ("#56B4E9", "v"), ("#D55E00", "P"), ("#009E73", "X"))
LIMIT = "#D55E00"
BEST = "#F0E442"
CLOSED, FRONTIER, SAFE = "#D9D9D9", "#FBEFA8", "#B5DDF2"
_KINDS = ("#FFFFFF", CLOSED, FRONTIER, SAFE)  # a cell of the plane: unknown, closed, frontier, safe

SMALL, NORMAL, LARGE = 7.5, 8.5, 10.5  # font sizes, points
_WIDTH = 11.0  # inches
_LINE = 178  # letters of a line of the caption, at the normal size
_SPARSE = 4  # cells per candidate above which candidates are drawn as points, not as a grid
_DEVIATIONS = 2.0  # half length of the cost bars: a bar that ends above the limit shows a violation
_FORMATS = ("png", "pdf", "svg")


def compose(history: History, *, truth: SimulatedMap | None = None, title: str = "") -> Figure:
    """Return the whole picture of a run.

    Args:
        history: The run.
        truth: The true map, where the system was simulated.
        title: Line above everything, such as the name of the run.
    """
    costs = len(history.problem.limits)
    star = outside_the_safe_set(history.moments[i] for i in moments_shown(len(history.moments)))
    paragraphs = (guarantee(history), checks(history, truth), star, settings(history, truth))
    caption = "\n".join(textwrap.fill(paragraph, _LINE) for paragraph in paragraphs if paragraph)
    heights = [2.3 * costs + 0.2, 2.6, 2.6, 0.16 * (caption.count("\n") + 1) + 0.1]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.4), layout="constrained", facecolor="white")
    top, middle, bottom, foot = figure.subfigures(4, 1, height_ratios=heights, squeeze=False)[:, 0]
    figure.suptitle(title or "Run", x=0.01, ha="left", fontsize=LARGE, weight="bold")
    panels = top.subplots(costs, 1, sharex=True, squeeze=False)[:, 0]
    for k, ax in enumerate(panels):
        draw_costs(ax, history, cost=k, truth=truth, letter="(a) " if k == 0 else "")
        ax.label_outer()
    _draw_safe_sets(middle, history, truth)
    axes = bottom.subplots(1, 3)
    draw_reward(axes[0], history, truth=truth)
    draw_ledger(axes[1], history)
    draw_calibration(axes[2], history)
    foot.text(0.01, 0.98, caption, ha="left", va="top", fontsize=NORMAL, linespacing=1.35)
    return figure


def save(figure: Figure, path: Path, *, dpi: int = 150) -> None:
    """Write a figure, all of it or nothing; the ending of the path decides the format.

    Raises:
        ConfigError: If the ending is none of png, pdf and svg.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in _FORMATS:
        raise ConfigError(f"Cannot draw into {path}: give a file that ends in .{', .'.join(_FORMATS)}.")
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=dpi)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, stream.getvalue())


def draw_costs(
    ax: Axes, history: History, *, cost: int = 0, truth: SimulatedMap | None = None, letter: str = ""
) -> None:
    """Draw the mean cost of every trial against its limit, by stage, violations marked."""
    name = history.problem.names[1 + cost]
    numbers = np.array([m.result.trial.number for m in history.moments])
    means = np.array([m.mean_costs[cost] for m in history.moments])
    bars = _DEVIATIONS * np.array([m.noise_sds[cost] for m in history.moments])
    limits = np.array([m.limits[cost] for m in history.moments])
    for stage, (color, marker) in STAGES.items():
        own = np.array([m.result.trial.stage is stage for m in history.moments], dtype=bool)
        if own.any():
            low = np.minimum(bars[own], np.maximum(means[own], 0.0))  # costs below zero are not believed
            ax.errorbar(
                numbers[own], means[own], yerr=[low, bars[own]], fmt=marker, color=color, markersize=5,
                elinewidth=1.1, capsize=0, label=f"{stage.value} stage", zorder=3,
            )  # fmt: skip
    # A fleet tells trials in any order, so the limits are drawn by trial number.
    order = np.argsort(numbers)
    edges = np.append(numbers[order] - 0.5, numbers.max(initial=0) + 0.5)
    ax.stairs(limits[order], edges, baseline=None, color=LIMIT, linestyle="--", linewidth=1.5, label="limit")
    shown = np.array([m.result.violated for m in history.moments], dtype=bool)
    if shown.any():
        ax.plot(
            numbers[shown], means[shown], "x", color="black", markersize=11, markeredgewidth=2,
            label="shows a violation", zorder=5,
        )  # fmt: skip
    if truth is not None and cost == 0:
        true = np.array([truth.cost.flat[m.result.trial.index] for m in history.moments])
        ax.plot(numbers, true, "_", color="black", markersize=8, label="true mean", zorder=4)
        bad = true > limits
        if bad.any():
            ax.plot(
                numbers[bad], true[bad], "o", color=LIMIT, markerfacecolor="none", markersize=11,
                markeredgewidth=1.8, label="violation in truth", zorder=5,
            )  # fmt: skip
    bottom, top = float(means.min(initial=0.0)), float((means + bars).max(initial=0.0))
    ax.set_ylim(1.1 * bottom, 1.06 * max(top, float(limits.max(initial=history.problem.limits[cost]))))
    ax.set_ylabel(f"mean {name} per episode")
    if letter:
        _title(ax, f"{letter}Cost of every trial, ± {_DEVIATIONS:g} sd")
        ax.legend(loc="lower right", bbox_to_anchor=(1.005, 0.99), ncols=7, **_LEGEND)
    _trial_axis(ax, int(numbers.max(initial=1)))
    _plain_axes(ax)


def draw_plane(ax: Axes, history: History, moment: int, *, cost: int = 0, truth: SimulatedMap | None = None) -> None:
    """Draw what was known over the plane of target reward and target cost after a moment.

    With several costs it is a projection: a cell is safe if some target with this reward and this cost is. Where
    little of the plane was ever touched, only that part is shown.
    """
    problem, now = history.problem, history.moments[moment]
    kinds = np.zeros(len(problem.candidates), dtype=np.int64)
    for kind, mask in enumerate((now.closed, now.frontier, now.safe), start=1):
        kinds[mask] = kind
    _draw_kinds(ax, problem, kinds, cost)
    if truth is not None and _crosses(truth):
        ax.contour(
            truth.reward_axis, truth.cost_axis, truth.cost.T, levels=[truth.limit], colors="black",
            linewidths=1.1,
        )  # fmt: skip
    Z = problem.candidates[:, [0, 1 + cost]]
    for m in history.moments[: moment + 1]:
        color, marker = STAGES[m.result.trial.stage]
        ax.plot(*Z[m.result.trial.index], marker, color=color, markersize=3.5, markeredgewidth=0, zorder=3)
        if m.result.violated:
            ax.plot(*Z[m.result.trial.index], "x", color="black", markersize=6, markeredgewidth=1.5, zorder=4)
    if now.best is not None:
        ax.plot(
            *Z[now.best.index],
            "*",
            color=BEST,
            markersize=12,
            markeredgecolor="black",
            clip_on=False,
            zorder=5,
        )
    part = Z[candidates_near(history, cost)]
    low, high = part.min(axis=0), part.max(axis=0)
    pad = 0.03 * (high - low)
    ax.set_xlim(low[0] - pad[0], high[0] + pad[0])
    ax.set_ylim(low[1] - pad[1], high[1] + pad[1])
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    _plain_axes(ax)


def draw_reward(ax: Axes, history: History, *, truth: SimulatedMap | None = None) -> None:
    """Draw the reward of the recommended target after every trial."""
    best = [m.best for m in history.moments]
    _title(ax, "(c) Reward of the recommended target")
    if any(best):
        means = np.array([np.nan if each is None else each.means.reward for each in best])
        lower = np.array([np.nan if each is None else each.reward_lower for each in best])
        ax.stairs(means, _edges(best), baseline=None, color="black", linewidth=1.5, label="mean of its episodes")
        ax.stairs(lower, _edges(best), baseline=None, color="#777777", linestyle=":",
                  label="lower bound of the model, from all trials")  # fmt: skip
        if truth is not None:
            true = [np.nan if each is None else float(truth.reward.flat[each.index]) for each in best]
            x = np.arange(1, len(best) + 1)
            ax.plot(x, true, "_", color=STAGES[Stage.MAXIMIZE][0], markersize=6, label="true mean")
            ax.axhline(best_reachable(truth), color="#0072B2", linestyle="--", linewidth=1.2, label="best reachable")
        ax.legend(loc="lower right", **_LEGEND)
        floor, top = float(np.nanmin(lower)), ax.get_ylim()[1]
        ax.set_ylim(floor - 0.6 * (top - floor), top)  # room for the legend
    else:
        ax.text(0.5, 0.5, "no target is fit\nto be operated", ha="center", va="center",
                transform=ax.transAxes, fontsize=NORMAL)  # fmt: skip
    _trial_axis(ax, len(history.moments))
    ax.set_ylabel("reward per episode")
    _plain_axes(ax)


def draw_ledger(ax: Axes, history: History) -> None:
    """Draw the risk spent against delta."""
    delta, ledger = history.problem.delta, history.schedule.risk == "ledger"
    spent = np.array([m.spent for m in history.moments])
    _title(ax, "(d) Risk ledger" if ledger else f"(d) Risk of first visits ({history.schedule.risk} schedule)")
    ax.stairs(spent, _edges(spent), fill=True, color="#56B4E9", alpha=0.35, linewidth=0)
    ax.stairs(spent, _edges(spent), baseline=None, color="#0072B2", linewidth=1.5, label="spent")
    ax.axhline(delta, color=LIMIT, linestyle="--", linewidth=1.5, label=f"delta = {delta:g}")
    _trial_axis(ax, len(spent))
    ax.set_ylim(0.0, 1.18 * max(delta, float(spent.max(initial=0.0))))
    ax.set_ylabel("probability of a violation" if ledger else "sum of probabilities")
    ax.legend(loc="lower right" if ledger else "upper left", **_LEGEND)
    _plain_axes(ax)


def draw_calibration(ax: Axes, history: History) -> None:
    """Draw how far every trial lies from its prediction by all others, and the bands that should hold it.

    Batches of operation are predicted, too, and drawn among the trials.
    """
    parts = history.calibration.returns
    count = len(parts[0].residuals)
    _title(ax, "(e) Each predicted from all others")
    for band, shade in zip(reversed(BANDS), ("#EEEEEE", "#DDDDDD", "#C8C8C8"), strict=True):
        ax.axhspan(-half_width(band), half_width(band), color=shade, linewidth=0)
        ax.text(
            1.0, half_width(band), f"{band:.0%} ", ha="right", va="top", fontsize=SMALL - 1, color="#555555",
            transform=ax.get_yaxis_transform(),
        )  # fmt: skip
    ax.axhline(0.0, color="white", linewidth=1)
    for part, (color, marker) in zip(parts, RETURNS, strict=False):
        held = f"{part.name}: 95 % band holds {part.coverage(0.95):.0%}" if count > 1 else part.name
        fill = "none" if part.name == "reward" else color
        x = np.arange(1, count + 1)
        ax.plot(x, part.residuals, marker, color=color, markerfacecolor=fill, markersize=4, label=held)
    largest = max((float(np.abs(p.residuals).max(initial=0.0)) for p in parts), default=0.0)
    reach = max(3.0, 1.1 * largest)
    ax.set_ylim(-(1.1 + 0.26 * len(parts)) * reach, reach)  # room for the legend
    _trial_axis(ax, count, room=0.08)  # for the names of the bands
    if history.calibration.batches:
        ax.set_xlabel("trial or batch of operation")
    ax.set_ylabel("standardized residual")
    ax.legend(loc="lower left", **_LEGEND)
    _plain_axes(ax)


_LEGEND: dict[str, object] = {
    "fontsize": SMALL, "frameon": False, "handlelength": 1.6, "columnspacing": 1.2, "borderaxespad": 0.2,
}  # fmt: skip


def _draw_safe_sets(figure: SubFigure, history: History, truth: SimulatedMap | None) -> None:
    """Draw the safe set growing; with several costs, its projections at the end."""
    costs = len(history.problem.limits)
    title = "(b) Safe set over the plane of targets"
    if any(len(candidates_near(history, k)) < len(history.problem.candidates) for k in range(costs)):
        title += ", where they were tried or considered"
    if costs > 1:
        title += "; one projection per cost: a cell is safe if some value of the other costs is"
    figure.suptitle(title, x=0.01, ha="left", fontsize=NORMAL + 0.5, weight="bold")
    shown = moments_shown(len(history.moments), max(PANELS // costs, 1))
    panels = [(i, k) for k in range(costs) for i in shown]
    if not panels:
        figure.text(0.5, 0.5, "no trial was told yet", ha="center", va="center", fontsize=NORMAL)
        return
    # At least so many columns that one panel is not stretched over the page.
    axes = figure.subplots(1, max(len(panels), 4), squeeze=False)[0]
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax, (i, k) in zip(axes, panels, strict=False):
        draw_plane(ax, history, i, cost=k, truth=truth)
        ax.set_title(f"after trial {i + 1}", fontsize=NORMAL)
        ax.set_xlabel("target reward")
        if i == shown[0]:
            ax.set_ylabel(f"target {history.problem.names[1 + k]}")
        else:
            ax.tick_params(labelleft=False)
    figure.legend(handles=_plane_keys(history, truth), loc="outside lower center", ncols=9, **_LEGEND)


def _draw_kinds(ax: Axes, problem: Problem, kinds: Int[np.ndarray, " n"], cost: int) -> None:
    """Color the plane by kind; candidates that are no grid are drawn as points."""
    colors = ListedColormap(list(_KINDS))
    norm = BoundaryNorm(np.arange(len(_KINDS) + 1) - 0.5, len(_KINDS))
    Z = problem.candidates
    x, column = np.unique(Z[:, 0], return_inverse=True)
    y, row = np.unique(Z[:, 1 + cost], return_inverse=True)
    if len(x) * len(y) > _SPARSE * len(Z):
        ax.scatter(Z[:, 0], Z[:, 1 + cost], c=kinds, cmap=colors, norm=norm, s=4, linewidths=0)
        return
    cells = np.zeros((len(y), len(x)), dtype=np.int64)
    np.maximum.at(cells, (row, column), kinds)
    ax.pcolormesh(x, y, cells, cmap=colors, norm=norm, shading="nearest", rasterized=True)


def _plane_keys(history: History, truth: SimulatedMap | None) -> list[Artist]:
    keys: list[Artist] = [
        Patch(color=SAFE, label="safe set"),
        Patch(color=FRONTIER, label="open frontier"),
    ]
    if any(m.closed.any() for m in history.moments):
        keys.append(Patch(color=CLOSED, label="closed after a violation"))
    tried = {m.result.trial.stage for m in history.moments}
    keys += [
        Line2D([], [], linestyle="", marker=marker, color=color, markersize=5, label=f"tried, {stage.value}")
        for stage, (color, marker) in STAGES.items()
        if stage in tried
    ]
    keys.append(
        Line2D([], [], linestyle="", marker="*", color=BEST, markeredgecolor="black", markersize=10,
               label="recommended")
    )  # fmt: skip
    if truth is not None and _crosses(truth):
        keys.append(Line2D([], [], color="black", linewidth=1.1, label="true boundary: mean cost = limit"))
    return keys


def _crosses(truth: SimulatedMap) -> bool:
    return bool(truth.cost.min() < truth.limit < truth.cost.max())


def _edges(values: Sized) -> Float[np.ndarray, " n"]:
    """Return where the places of trials begin and end."""
    return np.arange(len(values) + 1) + 0.5


def _trial_axis(ax: Axes, trials: int, room: float = 0.0) -> None:
    ax.set_xlim(0.5, max(trials, 2) * (1 + room) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel("trial")


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=NORMAL + 0.5, weight="bold")


def _plain_axes(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    ax.xaxis.label.set_fontsize(NORMAL)
    ax.yaxis.label.set_fontsize(NORMAL)
