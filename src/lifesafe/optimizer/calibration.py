"""Whether the model predicts what happens: every trial predicted from all others, and from those before it.

All under the model in use: its priors, its noise and its dispersions as they are now.

Notation:
    y, m    observations of one return as they are modeled, their prior mean            (n,)
    C       K + N: prior covariance of the observed targets, and their noise variances    (n, n)
    Q       C^-1
    L       Cholesky factor of C
    z_i     leave-one-out residual (y_i - mu_-i) / s_-i = [Q (y - m)]_i / sqrt(Q_ii)      (n,)
    e_i     innovation, y_i predicted from y_1 ... y_i-1: [L^-1 (y - m)]_i                (n,)

A mixture predicts by a weighted sum of normal laws. Its residual is the normal quantile of the probability
that it gave to values below y_i, with the weights that it had, or would have had, without y_i.

Reference: Rasmussen & Williams 2006, section 5.4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe.optimizer.gp import GridGP
from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.state import State
from lifesafe.theory.normal import quantile

BANDS = (0.5, 0.8, 0.95)
_RARE = 0.01  # a count of misses that is rarer than this speaks against the model


@dataclass(frozen=True, eq=False)
class ReturnCalibration:
    """How well the trials of one return were predicted."""

    name: str
    residuals: Float[np.ndarray, " n"]
    """Standardised leave-one-out residual of every trial."""
    innovations: Float[np.ndarray, " n"]
    """Standardised difference between every trial and its prediction from the trials before."""

    def coverage(self, band: float) -> float:
        """Return the share of trials inside their band of this probability, predicted from all others."""
        return float(np.mean(np.abs(self.residuals) <= half_width(band))) if len(self.residuals) else np.nan

    @property
    def verdict(self) -> str:
        """What the misses say of the bands; a rough sign, since residuals depend on each other."""
        n = len(self.residuals)
        if n < 2:
            return "unknown"
        far, near = round(n * (1 - self.coverage(0.95))), round(n * self.coverage(0.5))
        if _at_least(far, n, 0.05) < _RARE:
            return "too narrow"
        return "cautious" if _at_least(near, n, 0.5) < _RARE else "plausible"


@dataclass(frozen=True, eq=False)
class Calibration:
    """How well the trials were predicted; printing it gives a table."""

    returns: tuple[ReturnCalibration, ...]
    """The reward, then every cost."""
    batches: int = 0
    """Of the observations, those that are batches of operation; all others are trials."""

    def rows(self) -> list[tuple[str, ...]]:
        """Return (return, coverage of each band, mean and sd of the residuals, verdict) for a table."""
        rows = []
        for part in self.returns:
            z = part.residuals
            several = len(z) > 1  # one alone has no others to be predicted from
            moments = (f"{z.mean():+.2f}", f"{z.std():.2f}") if several else ("-", "-")
            shares = (f"{part.coverage(band):.0%}" if several else "-" for band in BANDS)
            rows.append((part.name, *shares, *moments, part.verdict))
        return rows

    def __str__(self) -> str:
        n = len(self.returns[0].residuals)
        what = f"observations ({self.batches} from operation)" if self.batches else "trials"
        title = f"Calibration: each of {n} {what} predicted from the others; share inside the band"
        if n == 1:
            title = "Calibration: one trial, and no others to predict it from"
        header = ("return", *(f"{band:.0%} band" for band in BANDS), "mean", "sd", "bands are")
        table = [header, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for first, *numbers, last in table:
            cells = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells, last]))
        return "\n".join([title, *lines])


def calibration(state: State) -> Calibration:
    """Return how well the model of a run predicts its trials."""
    posterior, problem = state.posterior, state.problem
    values, variances = posterior.modeled()
    indices = np.array([o.index for o in posterior.observations], dtype=np.intp)
    prior = Posterior(problem)  # nothing observed: its mean and covariance are those of the prior
    mixtures: list[tuple[tuple[GridGP, ...], tuple[float, ...]]] = [((prior.reward,), (1.0,))]
    weights = tuple(weight for _, _, weight in problem.priors.cost.components)
    mixtures += [(model.processes, weights) for model in prior.costs]
    parts = []
    for name, y, noise, (processes, w) in zip(problem.names, values, variances, mixtures, strict=True):
        residuals, innovations = _residuals(processes, w, indices, y, noise)
        parts.append(ReturnCalibration(name, residuals, innovations))
    return Calibration(tuple(parts), batches=len(posterior.observations) - len(state.results))


def half_width(band: float) -> float:
    """Return the half width, in standard deviations, of the central band of this probability."""
    return float(quantile(np.asarray(0.5 + band / 2)))


def _at_least(count: int, total: int, probability: float) -> float:
    """Return how probable it is that so many of all events happen, or more."""
    p, q = math.log(probability), math.log1p(-probability)  # logarithms: factorials soon leave the floats
    ways = (math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) for k in range(count))
    return 1.0 - math.fsum(math.exp(way + k * p + (total - k) * q) for k, way in enumerate(ways))


def _residuals(
    processes: tuple[GridGP, ...],
    weights: tuple[float, ...],
    indices: Int[np.ndarray, " n"],
    y: Float[np.ndarray, " n"],
    noise: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return leave-one-out residuals and innovations of one return."""
    if not len(indices):
        return np.empty(0), np.empty(0)
    pairs = [_closed_form(gp, indices, y, noise) for gp in processes]
    left_out, ahead = (np.stack(kind) for kind in zip(*pairs, strict=True))  # (k, 2, n)
    start = np.log(weights)[:, None]
    evidence = start + ahead[:, 1].sum(axis=1, keepdims=True)
    before = start + np.cumsum(ahead[:, 1], axis=1) - ahead[:, 1]
    return _mixed(left_out[:, 0], evidence - left_out[:, 1]), _mixed(ahead[:, 0], before)


def _closed_form(
    gp: GridGP, indices: Int[np.ndarray, " n"], y: Float[np.ndarray, " n"], noise: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "2 n"], Float[np.ndarray, "2 n"]]:
    """Return residuals and log densities of one process: leave-one-out, then one ahead."""
    L = np.linalg.cholesky(gp.covariance(indices, indices) + np.diag(noise))
    inverse = np.linalg.inv(L)
    e = inverse @ (y - gp.mean[indices])
    precision = (inverse**2).sum(axis=0)  # Q_ii
    z = (inverse.T @ e) / np.sqrt(precision)
    left_out = np.stack([z, _log_density(z, 0.5 * np.log(precision))])
    return left_out, np.stack([e, _log_density(e, -np.log(np.diag(L)))])


def _log_density(z: Float[np.ndarray, " n"], log_scale: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.asarray(-0.5 * z**2 + log_scale - 0.5 * np.log(2 * np.pi))


def _mixed(z: Float[np.ndarray, "k n"], log_weights: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " n"]:
    """Return the normal quantile of a mixture's probability; by way of the smaller tail, to keep digits."""
    if len(z) == 1:
        return np.asarray(z[0])
    from scipy.special import log_ndtr, ndtri_exp  # only here: it would slow down `import lifesafe`

    log_weights = log_weights - np.logaddexp.reduce(log_weights, axis=0)
    below, above = (np.logaddexp.reduce(log_weights + log_ndtr(sign * z), axis=0) for sign in (1.0, -1.0))
    return np.asarray(np.where(below < above, ndtri_exp(below), -ndtri_exp(above)))
