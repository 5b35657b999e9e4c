"""The picture of Theorem 1: how the returns of fitted policies vary over datasets, against what is predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lifesafe.errors import ConfigError
from lifesafe.lab.figures.saving import LARGE, NORMAL, SMALL
from theorem1 import comparison
from theorem1.experiment import Study

_EPISODE, _PRINTED, _PLAIN = "#0072B2", "#D55E00", "#666666"
_RETURNS = (("reward", "#000000", "o"), ("cost", "#CC79A7", "D"))


def theorem1_figure(studies: Sequence[Study]) -> Figure:
    """Return one row of panels for each case whose policies vary, and what is asked against what comes for all.

    Raises:
        ConfigError: If there is no case.
    """
    if not studies:
        raise ConfigError("Got no case of Theorem 1 to draw; give at least one.")
    heights = [2.75 if study.varies else 2.2 for study in studies]
    figure = Figure(figsize=(13.0, 0.3 + sum(heights)), layout="constrained", facecolor="white")
    rows = figure.subfigures(len(studies), 1, squeeze=False, height_ratios=heights)[:, 0]
    for study, row in zip(studies, rows, strict=True):
        row.suptitle(f"{study.case.name}: {study.case.says}", x=0.01, ha="left", fontsize=LARGE, weight="bold")
        covariance, quantiles, scaling, bias = row.subplots(1, 4)
        draw_bias(bias, study)
        if study.varies:
            draw_covariance(covariance, study)
            draw_quantiles(quantiles, study)
            draw_scaling(scaling, study)
        else:
            for ax in (covariance, quantiles, scaling):
                ax.set_axis_off()
            covariance.text(0.0, 0.5, "k = 0: every fitted policy returns its target", fontsize=NORMAL)
    return figure


def draw_covariance(ax: Axes, study: Study) -> None:
    """Draw every covariance found in the largest datasets over the predicted one, for both k."""
    Y = study.samples[-1].deviations
    found = np.cov(Y, rowvar=False)
    upper = np.triu_indices(len(found))
    for predicted, color, marker, label in (
        (study.covariance("step"), _PRINTED, "x", "k as printed (V by step)"),
        (study.covariance(), _EPISODE, "o", "k, V by episode"),
    ):
        ax.plot(predicted[upper], found[upper], marker, color=color, markersize=3, alpha=0.6, label=label)
    span = [min(0.0, found.min()), found.max()]
    ax.plot(span, span, color=_PLAIN, linestyle="--", linewidth=1)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.set_xlabel("predicted covariance")
    ax.set_ylabel(f"found, n = {study.samples[-1].episodes}")
    _finish(ax)
    ax.legend(fontsize=SMALL, frameon=False)


def draw_quantiles(ax: Axes, study: Study) -> None:
    """Draw the squared distances of the fitted policies over the quantiles of chi-square, smallest and largest n."""
    K = study.covariance()
    shown = study.samples[:: max(1, len(study.samples) - 1)]
    for sample, color in zip(shown, (_PLAIN, _EPISODE) if len(shown) > 1 else (_EPISODE,), strict=True):
        predicted = comparison.distance_quantiles(K, len(sample.deviations))
        found = comparison.squared_distances(sample.deviations, K)
        ax.plot(predicted, found, ".", color=color, markersize=3, label=f"n = {sample.episodes}")
    end = float(predicted[-1])
    ax.plot([0.0, end], [0.0, end], color=_PLAIN, linestyle="--", linewidth=1)
    ax.set_xlim(0.0, 1.05 * end)
    ax.set_ylim(0.0, 1.6 * end)
    ax.set_xlabel(f"chi-square quantile, {comparison.directions(K)} directions")
    ax.set_ylabel("squared distance")
    _finish(ax)
    ax.legend(fontsize=SMALL, frameon=False)


def draw_scaling(ax: Axes, study: Study) -> None:
    """Draw the deviation and the part of it that is not of first order over n, with their predicted slopes."""
    sizes = np.array([row.episodes for row in study.agreements])
    found = np.array([row.deviation for row in study.agreements])
    rest = found * np.array([row.remainder for row in study.agreements])
    ax.loglog(sizes, [row.predicted for row in study.agreements], color=_EPISODE, linewidth=1, label="k, 1/sqrt(n)")
    printed = np.sqrt(np.trace(study.covariance("step")) / np.trace(study.covariance()))
    ax.loglog(sizes, [printed * row.predicted for row in study.agreements], color=_PRINTED, linewidth=1,
              label="k as printed")  # fmt: skip
    ax.loglog(sizes, found, "o", color="black", markersize=4, label="found")
    if rest.min() > 1e-9:
        ax.loglog(sizes, rest, "s", color=_PLAIN, markersize=4, label="not of first order")
        ax.loglog(sizes, rest[-1] * sizes[-1] / sizes, color=_PLAIN, linestyle=":", linewidth=1, label="1/n")
    ax.set_xlabel("episodes n")
    ax.set_ylabel("deviation of J [units]")
    _finish(ax)
    ax.legend(fontsize=SMALL, frameon=False)


def draw_bias(ax: Axes, study: Study) -> None:
    """Draw what a policy fitted to endless data returns over what it is asked for."""
    for k, (name, color, marker) in enumerate(_RETURNS):
        asked = [row.target[k] for row in study.bias]
        ax.plot(asked, [row.policy[k] for row in study.bias], marker, color=color, markersize=4, alpha=0.7, label=name)
    end = float(study.limit.horizon)
    ax.plot([0.0, end], [0.0, end], color=_PLAIN, linestyle="--", linewidth=1)
    ax.set_xlabel("target z [units]")
    ax.set_ylabel("J(theta*, z)")
    _finish(ax)
    ax.legend(fontsize=SMALL, frameon=False)


def _finish(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    ax.xaxis.label.set_fontsize(NORMAL)
    ax.yaxis.label.set_fontsize(NORMAL)
