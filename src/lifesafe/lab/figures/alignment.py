"""The picture of target against actual returns: does the policy do what it is asked for?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from lifesafe.errors import ConfigError
from lifesafe.lab.alignment.results import Alignment
from lifesafe.lab.figures.saving import LARGE, LIMIT, NORMAL, SMALL
from lifesafe.returns import return_names

_COLORS = "viridis"
_DASHES = "#666666"
_OUTLINE = withStroke(linewidth=2.5, foreground="white")  # around words that lie on lines


def draw_alignment(parts: Sequence[Alignment], limits: Sequence[float], title: str = "") -> Figure:
    """Return one panel per return: what was earned over what was asked for, one line per reward target.

    A line is the mean over seeds, its band the spread between them (one standard deviation); every seed's own
    mean is a dot. On the dashed line the policy would do exactly what it is asked for.

    Raises:
        ConfigError: If the seeds ran different targets.
    """
    targets = _targets(parts)
    means = np.array([[point.mean for point in part.points] for part in parts])  # (seed, target, return)
    names = return_names(targets.shape[1] - 1)
    figure = Figure(figsize=(3.9 * len(names) + 0.9, 3.7), layout="constrained", facecolor="white")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    figure.suptitle(title or parts[0].task, x=0.01, ha="left", fontsize=LARGE, weight="bold")
    for k, name in enumerate(names[1:], start=1):
        _draw_return(axes[k - 1], targets, means, k, f"{name} target", f"actual mean {name}")
        _draw_identity(axes[k - 1], targets[:, k])
        axes[k - 1].axhline(limits[k - 1], color=LIMIT, lw=1.2)
        axes[k - 1].annotate(
            f"limit {limits[k - 1]:g}", (targets[:, k].max(), limits[k - 1]), (0, 2), textcoords="offset points",
            ha="right", va="bottom", color=LIMIT, fontsize=SMALL, path_effects=[_OUTLINE],
        )  # fmt: skip
    _draw_return(axes[-1], targets, means, 0, f"{names[1]} target", "actual mean reward")
    lines, labels = axes[-1].get_legend_handles_labels()
    figure.legend(
        lines, labels, title="reward target", loc="outside right center", fontsize=SMALL, title_fontsize=SMALL
    )
    return figure


def _targets(parts: Sequence[Alignment]) -> Float[np.ndarray, "n r"]:
    if not parts:
        raise ConfigError("Got no seeds; run the study first.")
    grids = {tuple(point.target for point in part.points) for part in parts}
    if len(grids) > 1:
        raise ConfigError(f"The {len(parts)} seeds ran {len(grids)} different grids of targets; run them with one.")
    return np.array(grids.pop())


def _draw_return(
    ax: Axes,
    targets: Float[np.ndarray, "n r"],
    means: Float[np.ndarray, "s n r"],
    k: int,
    across: str,
    up: str,
) -> None:
    from matplotlib import colormaps

    asked = max(k, 1)  # rewards are drawn over the first cost target
    rewards = np.unique(targets[:, 0])
    for reward, color in zip(rewards, colormaps[_COLORS](np.linspace(0.0, 0.9, len(rewards))), strict=True):
        rows = np.flatnonzero(targets[:, 0] == reward)
        rows = rows[np.argsort(targets[rows, asked])]
        x, y = targets[rows, asked], means[:, rows, k]
        ax.plot(x, y.mean(axis=0), color=color, lw=1.6, label=f"{reward:.0f}")
        if len(y) > 1:
            spread = y.std(axis=0, ddof=1)
            ax.fill_between(x, y.mean(axis=0) - spread, y.mean(axis=0) + spread, color=color, alpha=0.15, lw=0)
        ax.plot(np.broadcast_to(x, y.shape).ravel(), y.ravel(), ".", color=color, ms=3.5, alpha=0.7)
        if k == 0:
            ax.axhline(reward, color=color, lw=0.8, ls=":")
    ax.set_xlabel(across, fontsize=NORMAL)
    ax.set_ylabel(up, fontsize=NORMAL)
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_identity(ax: Axes, asked: Float[np.ndarray, " n"]) -> None:
    ends = [asked.min(), asked.max()]
    ax.plot(ends, ends, color=_DASHES, lw=1.0, ls="--", zorder=1)
    ax.annotate("as asked", (ends[1], ends[1]), (-4, 2), textcoords="offset points", ha="right", va="bottom",
                color=_DASHES, fontsize=SMALL)  # fmt: skip
