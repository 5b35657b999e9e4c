"""Studies of Theorem 1 as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from theorem1.experiment import Agreement, Correlation, Study, TargetBias

_LAW = (
    *("case", "n", "deviation", "predicted", "covariance error", "by chance", "scale of k", "as printed"),
    *("p distance", "p leading", "p printed", "shift", "remainder"),
)
_SLOPES = ("case", "H", "parameters", "printed k / k", "episodes", "slope of the deviation", "slope of the remainder")
_CORRELATION = ("case", "pairs", "predicted", "mean square", "found - predicted", "by chance")
_BIAS = (
    *("case", "targets", "RCSL bias", "bound there", "likelihood bias", "mended bound", "printed bound"),
    *("above printed", "epsilon(z) below H"),
)


def markdown(studies: Sequence[Study]) -> str:
    """Return all tables, each with a sentence that says how to read it."""
    varying = [study for study in studies if study.varies]
    parts = ["\n".join(f"- **{study.case.name}**: {study.case.says}." for study in studies)]
    parts += [_still(study) for study in studies if not study.varies]
    if varying:
        parts += [
            "## The law of sqrt(n) / H² (J(theta_n) - J(theta*))\n\n"
            "Deviations are in units of reward and cost. The covariance error should be near what so few datasets give "
            "by chance, the scale near 1, p-values not small, and the remainder should halve when n is four times as "
            "large. *Printed* is k with V by step, as in the paper.",
            _table(_LAW, [_law(study, row) for study in varying for row in study.agreements]),
            "## 1 / sqrt(n)\n\nBy the theorem the slope over log n is -0.5, of the deviation and of the remainder. "
            "The ratio of both k is exact, of their traces.",
            _table(_SLOPES, [_slopes(study) for study in varying if study.slope is not None]),
        ]
    correlated = [study for study in varying if study.correlations]
    if correlated:
        parts += [
            "## Correlation of reward and cost, over datasets, at the same target\n\n"
            "The paper models both independently. The mean square is the share of one's variance that the other tells.",
            _table(_CORRELATION, [_correlation(study.case.name, study.correlations) for study in correlated]),
        ]
    parts += [
        "## Bias\n\nThe largest of all targets, in units, with the bound of that target. A bound of H or more says "
        "nothing.",
        _table(_BIAS, [_bias(study) for study in studies]),
    ]
    return "\n\n".join(parts) + "\n"


def _still(study: Study) -> str:
    count = len(study.samples) * study.settings.datasets
    farthest = max(sample.farthest for sample in study.samples)
    return (
        f"In the case *{study.case.name}* k is 0: the {count:,} fitted policies differ, and all return what they are "
        f"asked for; the farthest from its target by {farthest:.0e}."
    )


def _law(study: Study, row: Agreement) -> tuple[str, ...]:
    return (
        study.case.name,
        f"{row.episodes}",
        f"{row.deviation:.4f}",
        f"{row.predicted:.4f}",
        f"{row.covariance_error:.2f}",
        f"{row.chance_error:.2f}",
        f"{row.scale:.2f}",
        f"{row.printed_scale:.2f}",
        _p_value(row.distance_p_value),
        _p_value(row.leading_p_value),
        _p_value(row.printed_p_value),
        f"{row.shift:.2f}",
        f"{row.remainder:.2f}",
    )


def _slopes(study: Study) -> tuple[str, ...]:
    slope = study.slope
    assert slope is not None
    sizes = np.log([row.episodes for row in study.agreements])
    remainders = np.array([row.remainder for row in study.agreements])
    of_remainder = "-" if remainders.min() < 1e-3 else f"{np.polyfit(sizes, np.log(remainders), 1)[0]:.2f}"
    return (
        study.case.name,
        f"{study.limit.horizon}",
        f"{len(study.limit.theta)}",
        f"{np.trace(study.covariance('step')) / np.trace(study.covariance()):.2f}",
        f"{study.agreements[0].episodes} to {study.agreements[-1].episodes}",
        f"{slope.value:.3f} ± {slope.error:.3f}",
        of_remainder,
    )


def _correlation(name: str, rows: Sequence[Correlation]) -> tuple[str, ...]:
    predicted = np.array([row.predicted for row in rows])
    apart = np.array([row.found - row.predicted for row in rows])
    chance = np.array([row.error for row in rows])
    return (
        name,
        f"{len(rows)}",
        f"{predicted.min():.2f} to {predicted.max():.2f}",
        f"{np.mean(predicted**2):.2f}",
        f"{math.sqrt(np.mean(apart**2)):.3f}",
        f"{math.sqrt(np.mean(chance**2)):.3f}",
    )


def _bias(study: Study) -> tuple[str, ...]:
    by_rcsl = max(study.bias, key=lambda row: row.rcsl)
    by_likelihood = max(study.bias, key=lambda row: row.likelihood)
    said = sum(row.bound.total < study.limit.horizon for row in study.bias)
    return (
        study.case.name,
        f"{len(study.bias)}",
        f"{by_rcsl.rcsl:.3f}",
        f"{by_rcsl.bound.rcsl:.2f}",
        f"{by_likelihood.likelihood:.3f}",
        f"{by_likelihood.bound.likelihood:.2f}",
        f"{by_likelihood.printed_likelihood:.2f}",
        f"{sum(map(_is_above_printed, study.bias))}",
        f"{said} of {len(study.bias)}",
    )


def _is_above_printed(row: TargetBias) -> bool:
    return row.likelihood > row.printed_likelihood * (1.0 + 1e-9) + 1e-9


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    lines = [heading, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
