"""Is a sample drawn from a Gaussian law that is given in full, and if not, in what does it differ?

Notation:
    Y     sample, one draw per row                                  (N, q)
    K     covariance of the law; its mean is 0                      (q, q)
    S     covariance of the sample                                  (q, q)
    r     directions looked at: eigenvectors of K that carry at least 1 % of the largest variance
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError

_SHARE = 0.01


def has_variance(K: Float[np.ndarray, "q q"]) -> bool:
    """Tell whether a law is more than a point, rounding aside."""
    return bool(np.trace(K) > 1e-20)


def covariance_error(Y: Float[np.ndarray, "N q"], K: Float[np.ndarray, "q q"]) -> float:
    """Return |S - K| / |K|, in the Frobenius norm."""
    return float(np.linalg.norm(_covariance(Y) - K) / np.linalg.norm(K))


def chance_error(K: Float[np.ndarray, "q q"], draws: int) -> float:
    """Return the root mean square of `covariance_error` when the law is right: what so few draws give by chance.

    For Gaussian draws E|S - K|² = (tr(K)² + tr(K²)) / (N - 1).
    """
    square = float(np.sum(K * K))
    return math.sqrt((float(np.trace(K)) ** 2 + square) / (draws - 1) / square)


def scale(Y: Float[np.ndarray, "N q"], K: Float[np.ndarray, "q q"]) -> float:
    """Return the factor c for which c K is nearest to S; 1 when the law is right."""
    return float(np.sum(_covariance(Y) * K) / np.sum(K * K))


def squared_distances(Y: Float[np.ndarray, "N q"], K: Float[np.ndarray, "q q"]) -> Float[np.ndarray, " N"]:
    """Return the squared Mahalanobis distance of each draw in r directions, in ascending order."""
    return np.sort(np.sum(_standardized(Y, K) ** 2, axis=1))


def distance_quantiles(K: Float[np.ndarray, "q q"], draws: int) -> Float[np.ndarray, " N"]:
    """Return where the sorted squared distances should lie: quantiles of chi-square with r degrees of freedom."""
    from scipy.special import gammaincinv

    levels = (np.arange(draws) + 0.5) / draws
    return np.asarray(2.0 * gammaincinv(directions(K) / 2.0, levels))


def directions(K: Float[np.ndarray, "q q"]) -> int:
    """Return r."""
    values = np.linalg.eigvalsh(K)
    return int(np.sum(values >= _SHARE * values[-1]))


def distance_p_value(Y: Float[np.ndarray, "N q"], K: Float[np.ndarray, "q q"]) -> float:
    """Return the p-value of the Kolmogorov-Smirnov test that the squared distances are chi-square: shape and scale."""
    from scipy.special import gammainc

    return _kolmogorov(np.asarray(gammainc(directions(K) / 2.0, squared_distances(Y, K) / 2.0)))


def leading_p_value(Y: Float[np.ndarray, "N q"], K: Float[np.ndarray, "q q"]) -> float:
    """Return the p-value of the Kolmogorov-Smirnov test that the direction of most variance is normal as predicted."""
    from scipy.special import ndtr

    return _kolmogorov(np.asarray(ndtr(np.sort(_standardized(Y, K)[:, 0]))))


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Slope of a straight line through points, with its standard error."""

    value: float
    error: float


def log_slope(sizes: Float[np.ndarray, " k"], deviations: Float[np.ndarray, " k"], relative_error: float) -> Slope:
    """Return the slope of log deviation over log size, by least squares.

    Args:
        sizes: Episodes of a dataset.
        deviations: Deviation found at each.
        relative_error: Standard error of each deviation, as a share of it.

    Raises:
        ConfigError: If there are fewer than two different sizes.
    """
    x = np.log(sizes) - np.log(sizes).mean()
    if len(x) < 2 or not np.any(x):
        raise ConfigError(f"Got the sizes {list(map(float, sizes))}; a slope needs two that differ.")
    spread = float(x @ x)
    return Slope(value=float(x @ np.log(deviations)) / spread, error=relative_error / math.sqrt(spread))


def deviation_error(K: Float[np.ndarray, "q q"], draws: int) -> float:
    """Return the standard error of the root mean square deviation sqrt(tr(S) / q), as a share of it."""
    return math.sqrt(float(np.sum(K * K)) / (2.0 * (draws - 1))) / float(np.trace(K))


def _covariance(Y: Float[np.ndarray, "N q"]) -> Float[np.ndarray, "q q"]:
    centered = Y - Y.mean(axis=0)
    return np.asarray(centered.T @ centered / (len(Y) - 1))


def _standardized(Y: Float[np.ndarray, "N q"], K: Float[np.ndarray, "q q"]) -> Float[np.ndarray, "N r"]:
    """Return the draws along the directions, the one of most variance first, each with variance 1 if K is right."""
    values, vectors = np.linalg.eigh(K)
    kept = slice(None, -directions(K) - 1, -1)
    return np.asarray(Y @ vectors[:, kept] / np.sqrt(values[kept]))


def _kolmogorov(levels: Float[np.ndarray, " N"]) -> float:
    """Return the p-value that sorted levels are uniform, with the correction of Stephens (1970) for few draws."""
    from scipy.special import kolmogorov

    N = len(levels)
    ranks = np.arange(N + 1) / N
    distance = max(float(np.max(ranks[1:] - levels)), float(np.max(levels - ranks[:-1])))
    return float(kolmogorov((math.sqrt(N) + 0.12 + 0.11 / math.sqrt(N)) * distance))
