"""The picture of a run: one panel per question that a reader has.

(a) Were the limits kept?  (b) What is believed of the targets, and when?  (c) What did it bring?
(d) What paid for it?  (e) Can the model be believed?

Each `draw_...` fills one Axes, so that a paper can take a single panel; `compose` puts them together. Figures
are made without pyplot: no window, no backend to choose, no state that other code could see.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError
from lifesafe.journal.history import Tried
from lifesafe.report.account_chart import path as account_path
from lifesafe.report.forecasts import outcomes
from lifesafe.report.planes import LIKELY, Moment, Plane, moments_shown, planes, small_risk
from lifesafe.report.promise import qualifications, statement
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.wording import axis_text, number, percent, plural

# Colors of Okabe and Ito, which people with any color vision can tell apart; shapes say the same in print.
STAGES = {
    "start": ("#E69F00", "s"),
    "search": ("#0072B2", "o"),
    "base": ("#777777", "_"),
    "newcomer": ("#009E73", "^"),
    "test": ("#9A5FB5", "D"),
}
RETURNS = (("#0072B2", "o"), ("#CC79A7", "D"), ("#009E73", "^"), ("#000000", "s"))
LIMIT = "#D55E00"
BEST = "#F0E442"
SCOUT = "#CC79A7"
UNKNOWN, LIKELY_SAFE, SAFE = "#E8ECEF", "#FBEFA8", "#B5DDF2"

SMALL, NORMAL, LARGE = 7.5, 8.5, 10.5  # font sizes, points
_WIDTH = 11.0  # inches
_LINE = 165  # letters of a line of the caption, at the normal size
_FORMATS = ("png", "pdf", "svg")
_PANELS = 6  # of the middle row
_POINTS = 60  # of a line of beliefs


def compose(reading: Reading, *, title: str = "") -> Figure:
    """Return the whole picture of a run.

    Args:
        reading: The run.
        title: Line above everything, such as the name of the run.
    """
    costs = len(reading.problem.limits)
    promised = f"Promise ({reading.problem.promise}): {statement(reading)}"
    paragraphs = (promised, *qualifications(reading), _took(reading))
    caption = "\n".join(textwrap.fill(paragraph, _LINE) for paragraph in paragraphs)
    heights = [2.1 * costs + 0.3, 2.6, 2.6, 0.16 * (caption.count("\n") + 1) + 0.1]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.4), layout="constrained", facecolor="white")
    top, middle, bottom, foot = figure.subfigures(4, 1, height_ratios=heights, squeeze=False)[:, 0]
    figure.suptitle(title or "Run", x=0.01, ha="left", fontsize=LARGE, weight="bold")
    panels = top.subplots(costs, 1, sharex=True, squeeze=False)[:, 0]
    for k, ax in enumerate(panels):
        draw_costs(ax, reading, cost=k, letter="(a) " if k == 0 else "")
        ax.label_outer()
    _draw_beliefs(middle, reading)
    axes = bottom.subplots(1, 3)
    draw_reward(axes[0], reading)
    if reading.beliefs.account is not None:
        draw_account(axes[1], reading)
    else:
        draw_ledger(axes[1], reading)
    draw_forecasts(axes[2], reading)
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


def draw_costs(ax: Axes, reading: Reading, *, cost: int = 0, letter: str = "") -> None:
    """Draw the mean cost of every trial against its limit, by stage, with the means of its center and its scout."""
    trials, bars = _told(reading), reading.problem.promise == "trial"
    for stage, (color, marker) in STAGES.items():
        own = [each for each in trials if each.asked.stage == stage]
        if own:
            means = np.array([float(each.episodes[:, 1 + cost].mean()) for each in own])
            halves = np.array([float(reading.doubt(each.episodes)[1 + cost]) for each in own])
            ax.errorbar(
                [each.number for each in own], means, yerr=[np.minimum(halves, means), halves] if bars else None,
                fmt=marker, color=color, markersize=4.5, elinewidth=1.1, label=f"trial, {stage}", zorder=3,
            )  # fmt: skip
    scouted = [each for each in trials if scout_of(each) is not None]
    for which, name, color, marker in ((0, "its center", "black", "_"), (1, "its scout", SCOUT, ".")):
        found = [(each.number, episodes_of(each, which)[:, 1 + cost]) for each in scouted]
        shown = [(at, float(costs.mean())) for at, costs in found if len(costs)]
        if shown:
            ax.plot(*zip(*shown, strict=True), marker, color=color, markersize=7, label=name, zorder=4)
    numbers = sorted(reading.history.trials)
    limits = [reading.history.trials[each].limits[cost] for each in numbers] or [reading.problem.limits[cost]]
    edges = np.append(np.array(numbers or [1]) - 0.5, max(numbers, default=1) + 0.5)
    ax.stairs(limits, edges, baseline=None, color=LIMIT, linestyle="--", linewidth=1.5, label="limit")
    above = [each for each in trials if reading.beliefs.exceeded(each)]
    if above:
        means = np.array([float(each.episodes[:, 1 + cost].mean()) for each in above])
        ax.plot(
            [each.number for each in above], means, "x", color="black", markersize=11, markeredgewidth=2,
            label="clearly above", zorder=5,
        )  # fmt: skip
    if not trials:
        _say(ax, "no trial is told yet")
    tallest = max((float(each.episodes[:, 1 + cost].mean()) for each in trials), default=0.0)
    ax.set_ylim(0.0, 1.25 * max(tallest, *limits))
    ax.set_ylabel(f"mean {reading.names[1 + cost]}")
    if letter:
        _title(ax, f"{letter}Cost of every trial{', ± 2 sd' if bars else ''}")
        ax.legend(loc="lower right", bbox_to_anchor=(1.005, 0.99), ncols=8, **_LEGEND)
    _trial_axis(ax, max(numbers, default=1))
    _plain_axes(ax)


def draw_plane(ax: Axes, reading: Reading, plane: Plane, moment: Moment) -> None:
    """Draw the risk over a plane of targets as was believed at a moment, and what had been tried."""
    found = plane.risks(moment.beliefs)
    kinds = (found <= LIKELY).astype(np.int64) + (found <= small_risk(reading.problem))
    colors, norm = ListedColormap([UNKNOWN, LIKELY_SAFE, SAFE]), BoundaryNorm([-0.5, 0.5, 1.5, 2.5], 3)
    if reading.problem.targets is None:
        grid = plane.grid(kinds)
        x, y = (np.linspace(*plane.ends(k), grid.shape[1 - k] + 1) for k in (0, 1))
        ax.pcolormesh(x, y, grid, cmap=colors, norm=norm, rasterized=True)
    else:
        places = np.array([plane.place(point) for point in reading.problem.targets])
        ax.scatter(places[:, 0], places[:, 1], c=kinds, cmap=colors, norm=norm, marker="s", s=60, linewidths=0)
    for tried in reading.history.told:
        if tried.number <= moment.trial:
            color, marker = STAGES[tried.asked.stage]
            scout = scout_of(tried)
            if scout is not None:
                ax.plot(*plane.place(scout), ".", color=SCOUT, markersize=4, zorder=3)
            ax.plot(*plane.place(tried.center), marker, color=color, markersize=3.5, zorder=3)
    best = reading.best_after.get(moment.trial)
    if best is not None:
        style = {"color": BEST, "markersize": 12, "markeredgecolor": "black", "clip_on": False, "zorder": 5}
        ax.plot(*plane.place(best.point), "*", **style)  # type: ignore[arg-type]
    ax.set_xlim(plane.ends(0))
    ax.set_ylim(plane.ends(1))
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    _plain_axes(ax)


def draw_line(ax: Axes, reading: Reading, axis: int) -> None:
    """Draw between which values each mean cost is believed to lie along an axis, through the target in focus."""
    problem = reading.problem
    u = np.linspace(0.0, 1.0, _POINTS)
    Z = np.repeat(problem.scaled([reading.focus]), _POINTS, axis=0)
    Z[:, axis] = u
    x = problem.low[axis] + u * problem.extents[axis]
    bands = reading.beliefs.model.expect(Z).quantiles((0.05, 0.95))
    for k, cost in enumerate(reading.beliefs.model.costs):
        if cost is not None:
            low, high = bands[..., k]
            ax.fill_between(x, low, high, color=RETURNS[k][0], alpha=0.25, linewidth=0, label=reading.names[1 + k])
    ax.axhline(1.0, color=LIMIT, linestyle="--", linewidth=1.2)
    ax.axvline(reading.focus[axis], color="black", linestyle=":", linewidth=1)
    ax.set_ylim(0.0, 2.5)
    ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    ax.set_xlabel(axis_text(problem, axis))
    _plain_axes(ax)


def draw_reward(ax: Axes, reading: Reading) -> None:
    """Draw the reward of the target to operate after every trial."""
    told = reading.history.told
    best = [reading.best_after.get(each.number) for each in told]
    _title(ax, "(c) Reward of the target to operate")
    if any(best):
        low, high = reading.problem.rewards  # type: ignore[misc]  # made so by the problem
        means = [np.nan if each is None else each.means[0] for each in best]
        modeled = [np.nan if each is None else low + (high - low) * each.modeled for each in best]
        edges = np.append([each.number for each in told], told[-1].number + 1) - 0.5
        ax.stairs(means, edges, baseline=None, color="black", linewidth=1.5, label="mean of its episodes")
        ax.stairs(modeled, edges, baseline=None, color="#777777", linestyle=":", label="by the model")
        ax.legend(loc="best", **_LEGEND)
    else:
        _say(ax, "no target is fit\nto be operated")
    _trial_axis(ax, max(reading.history.trials, default=1))
    ax.set_ylabel("reward per episode")
    _plain_axes(ax)


def draw_ledger(ax: Axes, reading: Reading) -> None:
    """Draw the risk charged against delta."""
    delta, spent = reading.problem.delta, reading.spent_after
    _title(ax, "(d) Risk ledger")
    if spent and not all(reading.problem.sure):
        edges = np.append([at for at, _ in spent], spent[-1][0] + 1) - 0.5
        values = [value for _, value in spent]
        ax.stairs(values, edges, fill=True, color="#56B4E9", alpha=0.35, linewidth=0)
        ax.stairs(values, edges, baseline=None, color="#0072B2", linewidth=1.5, label="charged")
        ax.axhline(delta, color=LIMIT, linestyle="--", linewidth=1.5, label=f"delta = {delta:g}")
        ax.legend(loc="lower right", **_LEGEND)
    else:
        _say(ax, "nothing is charged")
    _trial_axis(ax, max(reading.history.trials, default=1))
    ax.set_ylim(0.0, 1.18 * max([delta, *(value for _, value in spent)]))
    ax.set_ylabel("risk charged so far")
    _plain_axes(ax)


def draw_account(ax: Axes, reading: Reading) -> None:
    """Draw what the accounts hold against the price of a newcomer, both in limits."""
    account = reading.beliefs.account
    assert account is not None
    _title(ax, "(d) Account")
    for k, (limit, (color, _)) in enumerate(zip(account.limits, RETURNS, strict=False)):
        x, y = account_path(reading.saved, k)
        ax.plot(
            [0.0, *x], np.append(0.0, y) / limit, color=color, linewidth=1.3, label=f"holds, {reading.names[1 + k]}"
        )
        price = account.prices[k] / limit
        ax.axhline(price, color=color, linestyle="--", linewidth=1, label="price of a newcomer" if k == 0 else None)
    ax.axhline(0.0, color="#777777", linewidth=0.8)
    ax.set_xlabel("episode")
    ax.set_ylabel("saved / limit")
    ax.legend(loc="lower right", **_LEGEND)
    _plain_axes(ax)


def draw_forecasts(ax: Axes, reading: Reading) -> None:
    """Draw what was forecast of every target of a trial across, and what came back upwards, in limits."""
    _title(ax, "(e) Forecast and measured mean cost")
    most = 1.0
    for k, ((color, marker), limit) in enumerate(zip(RETURNS, reading.problem.limits, strict=False)):
        found = outcomes(reading, 1 + k)
        if found:
            x, upper = (np.array([each.forecast[i] for each in found]) / limit for i in (0, 1))
            y, half = (
                np.array([each.measured for each in found]) / limit,
                np.array([each.half for each in found]) / limit,
            )
            ax.errorbar(
                x, y, xerr=[np.zeros(len(x)), np.maximum(upper - x, 0.0)], yerr=[np.minimum(half, y), half],
                fmt=marker, color=color, markersize=3.5, elinewidth=0.6, label=reading.names[1 + k],
            )  # fmt: skip
            most = max(most, float(y.max()))
    if not reading.history.told:
        _say(ax, "no trial is told yet")
    ax.plot([0, 2 * most], [0, 2 * most], color="#777777", linestyle=":", linewidth=1)
    ax.set_xlim(0.0, 1.15 * most)
    ax.set_ylim(0.0, 1.15 * most)
    ax.set_xlabel("forecast / limit: median to 95 %")
    ax.set_ylabel("measured / limit, ± 2 sd")
    if len(reading.problem.limits) > 1 and reading.history.told:
        ax.legend(loc="upper left", **_LEGEND)
    _plain_axes(ax)


_LEGEND: dict[str, object] = {
    "fontsize": SMALL, "frameon": False, "handlelength": 1.6, "columnspacing": 1.2, "borderaxespad": 0.2,
}  # fmt: skip


def _took(reading: Reading) -> str:
    """Return how many real episodes it took, and how they ended."""
    tally = reading.tally
    told = f"{plural(tally.total, 'real episode')}: {tally.start} start, {tally.search} search"
    told += f", {tally.operation:,} operation" if tally.operation else ""
    if tally.counted:
        told += f"; {percent(tally.above / tally.counted)} cost more than a limit, the worst"
        told += f" {', '.join(number(each) for each in tally.largest)} ({', '.join(dict.fromkeys(tally.where))})"
    if tally.ended is not None:
        told += f"; the stop has ended {tally.ended}"
    return f"{told}. Problem {reading.problem.fingerprint[:8]}."


def _draw_beliefs(figure: SubFigure, reading: Reading) -> None:
    """Draw the planes of targets at several moments; where there is none, beliefs along every axis."""
    shown, title = planes(reading), "(b) Risk that a mean cost exceeds its limit, over the plane of targets"
    if not shown:
        title = "(b) Mean cost / limit along every axis through the target to operate, 5 to 95 %"
    figure.suptitle(title, x=0.01, ha="left", fontsize=NORMAL + 0.5, weight="bold")
    at = moments_shown(reading, max(_PANELS // max(len(shown), 1), 1)) or (Moment(0, reading.beliefs),)
    panels = [(plane, moment) for plane in shown for moment in at]
    count = len(panels) or len(reading.problem.names)
    # At least so many columns that one panel is not stretched over the page.
    axes = figure.subplots(1, max(count, 4), squeeze=False)[0]
    for ax in axes[count:]:
        ax.set_visible(False)
    for ax, (plane, moment) in zip(axes, panels, strict=False):
        draw_plane(ax, reading, plane, moment)
        ax.set_title(moment.name if moment.trial else "before the first trial", fontsize=NORMAL)
        ax.set_xlabel(axis_text(reading.problem, plane.axes[0]))
        if moment is at[0]:
            ax.set_ylabel(axis_text(reading.problem, plane.axes[1]))
        else:
            ax.tick_params(labelleft=False)
    for axis, ax in enumerate(axes[:count] if not shown else ()):
        draw_line(ax, reading, axis)
        ax.tick_params(labelleft=axis == 0)
    if shown:
        figure.legend(handles=list(_plane_keys(reading)), loc="outside lower center", ncols=9, **_LEGEND)
    elif len(reading.problem.limits) > 1:
        axes[0].legend(loc="upper left", **_LEGEND)


def _plane_keys(reading: Reading) -> Iterator[Artist]:
    names = (f"risk ≤ {number(small_risk(reading.problem))}", f"≤ {percent(LIKELY)}", "more, or unknown")
    for color, name in zip((SAFE, LIKELY_SAFE, UNKNOWN), names, strict=True):
        yield Patch(facecolor=color, label=name)
    tried = {each.asked.stage for each in reading.history.told}
    for stage in (each for each in STAGES if each in tried):
        color, marker = STAGES[stage]
        yield Line2D([], [], color=color, marker=marker, linestyle="", markersize=4, label=f"center, {stage}")
    if any(scout_of(each) is not None for each in reading.history.told):
        yield Line2D([], [], color=SCOUT, marker=".", linestyle="", label="scout")
    style = {"marker": "*", "color": BEST, "markeredgecolor": "black", "markersize": 10, "linestyle": ""}
    yield Line2D([], [], label="target to operate", **style)  # type: ignore[arg-type]


def _told(reading: Reading) -> list[Tried]:
    return [each for each in reading.history.told if each.told]


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=NORMAL + 0.5, weight="bold")


def _say(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, fontsize=NORMAL)


def _trial_axis(ax: Axes, last: int) -> None:
    ax.set_xlim(0.4, last + 0.6)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel("trial")


def _plain_axes(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    ax.xaxis.label.set_fontsize(NORMAL)
    ax.yaxis.label.set_fontsize(NORMAL)
