"""The Gaussian process behind one mean cost, given episodes: expectation propagation with one site for each target.

Notation:
    X       targets that were tried, every axis from 0 to 1                       (n, d)
    n, S    episodes of each, and the sums of their costs in limits               (n,)
    phi     dispersions, see `likelihood`                                         (p,)
    K       prior covariance of f - 1 at X                                        (c, n, n)
    tau, nu sites: f - 1 at target i as if observed with precision tau_i          (c, n)
    A       (K + diag(1 / tau))^-1; a = A applied to what was observed            (c, n, n), (c, n)
    c       components: every dispersion with every process; the process runs fastest, c = p * q

Two processes have the prior mean 1, the limit: the *rough* one may rise within a step, the *smooth* one is what the
planes of real policies look like. Sites are fitted by expectation propagation; a Laplace step at the mode would be too
sure above. Moments of a site are found by quadrature on a grid that closes in on where its density is.

References: Minka 2001, *Expectation propagation*; Rasmussen & Williams 2006, sections 3.6 and 4.2.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from lifesafe.safety.likelihood import mean_of, scale_of

PRIOR_MEAN = 1.0
LENGTHS, DEVIATIONS = (0.5, 1.0), (2.0, 0.7)
"""Of the rough process, then of the smooth one."""
ROUGH = 0.25
"""Weight that the rough process keeps, whatever was seen."""
_SWEEPS, _ACCURACY, _DAMPING = 40, 1e-3, 0.95
_LEAST_TAU, _MOST_TAU = 1e-10, 1e7  # no f is known better than to 3e-4, which keeps matrices regular
_COARSE, _FINE = 17, 49  # nodes of the grids that close in on the peak of a site, and of its quadrature
_MOST_GRIDS, _RESOLVED = 12, 6  # nodes at the peak from which on a grid has closed in
_PEAK, _NEGLIGIBLE = 3.0, 25.0  # log density below the largest: what is at the peak, and what does not matter
_WIDE = 7.0  # standard deviations of a first grid
_NOTHING, _LOWEST = 0.01, -5.0  # losses, and f, below which a likelihood is flat
_LEAST_VARIANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and deviation of f at some targets, in every component."""

    means: Float[np.ndarray, "c m"]
    sds: Float[np.ndarray, "c m"]
    explained: Float[np.ndarray, "c m n"]
    """Prior covariance with the targets that were tried, applied to A: what a covariance given the data needs."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The process given all episodes, for every component."""

    A: Float[np.ndarray, "c n n"]
    a: Float[np.ndarray, "c n"]
    log_evidence: Float[np.ndarray, " c"]

    def moments(self, cross: Float[np.ndarray, "q m n"]) -> Moments:
        """Return what is known of f at some targets, given their prior covariance with X."""
        (_, m, n), components = cross.shape, len(self.a)
        means, variances, explained = np.empty((components, m)), np.empty((components, m)), np.empty((components, m, n))
        for c in range(components):
            q = c % len(cross)
            means[c] = PRIOR_MEAN + cross[q] @ self.a[c]
            np.matmul(cross[q], self.A[c], out=explained[c])
            variances[c] = DEVIATIONS[q] ** 2 - np.einsum("mn,mn->m", explained[c], cross[q])
        return Moments(means, np.sqrt(np.maximum(variances, 1e-9)), explained)


def kernels(Z: Float[np.ndarray, "m d"], X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "q m n"]:
    """Return the prior covariance between targets, for each process: Matern 5/2."""
    squared = np.zeros((len(Z), len(X)))
    for axis in range(Z.shape[1]):
        squared += (Z[:, axis, None] - X[None, :, axis]) ** 2
    return matern(np.sqrt(squared))


def matern(distance: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "q *shape"]:
    """Return the prior covariance at some distances, for each process."""
    r = np.sqrt(5.0) * np.multiply.outer(1 / np.array(LENGTHS), distance)
    scale = np.square(DEVIATIONS).reshape(-1, *(1,) * distance.ndim)
    return np.asarray(scale * (1 + r + r * r / 3) * np.exp(-r))


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which matrices are computed on one thread.

    They are small: more threads wait for each other, many times as long beside another busy process. And the same run
    then rounds alike on any number of cores.
    """
    limited: AbstractContextManager[object] = _blas().limit(limits=1)
    return limited


def fit(
    X: Float[np.ndarray, "n d"],
    n: Float[np.ndarray, " n"],
    S: Float[np.ndarray, "p n"],
    phis: Float[np.ndarray, " p"],
    of: Int[np.ndarray, " p"],
) -> Fitted:
    """Return the process given episodes, for every dispersion with every process.

    `S` has a row for each dispersion, with the sums of its cost; `of` is the number of that cost.
    """
    K, components = np.tile(kernels(X, X), (len(phis), 1, 1)), len(phis) * len(LENGTHS)
    gains, losses, of = (np.repeat(each, len(LENGTHS), axis=0) for each in (S / phis[:, None], n / phis[:, None], of))
    tau, nu = np.full((components, len(X)), _LEAST_TAU), np.zeros((components, len(X)))
    A, a, log_det = _given_sites(K, tau, nu)
    log_evidence, live = np.zeros(components), np.arange(components if len(X) else 0)
    for _ in range(_SWEEPS):
        if not len(live):
            break
        # A_ii = 1 / (v + 1 / tau_i) and a_i = A_ii (what was observed - m), where m and v are moments without site i
        var = np.maximum(tau[live] / np.einsum("cii->ci", A[live]) - 1, 0.0) / tau[live] + _LEAST_VARIANCE
        mean = np.einsum("cij,cj->ci", K[live], a[live]) - a[live] * var
        m1, v1, log_z = tilted(mean, var, gains[live], losses[live], of[live])
        new_tau = np.clip(1 / v1 - 1 / var, _LEAST_TAU, _MOST_TAU)
        new_nu = m1 * (new_tau + 1 / var) - mean / var
        sites = log_z + 0.5 * np.log1p(tau[live] * var) - 0.5 * mean * a[live]
        log_evidence[live] = sites.sum(axis=-1) - 0.5 * log_det[live]
        steps_tau, steps_nu = new_tau - tau[live], new_nu - nu[live]
        changes = np.maximum(np.abs(steps_tau) / (1 + tau[live]), np.abs(steps_nu) / (1 + np.abs(nu[live])))
        tau[live] += _DAMPING * steps_tau
        nu[live] += _DAMPING * steps_nu
        A[live], a[live], log_det[live] = _given_sites(K[live], tau[live], nu[live])
        live = live[changes.max(axis=1) >= _ACCURACY]
    return Fitted(A, a, log_evidence)


def tilted(
    mean: Float[np.ndarray, "c n"],
    var: Float[np.ndarray, "c n"],
    gains: Float[np.ndarray, "c n"],
    losses: Float[np.ndarray, "c n"],
    of: Int[np.ndarray, " c"],
) -> tuple[Float[np.ndarray, "c n"], Float[np.ndarray, "c n"], Float[np.ndarray, "c n"]]:
    """Return mean and variance of N(mean, var) times the likelihood of a site, and the log of its integral.

    Given are the moments without it, S / phi and n / phi. No number of one cost depends on what was seen of another.
    """
    sd = np.sqrt(var)
    # The likelihood is largest at its mode, or flat below where it says nothing any more; the product, between there
    # and the mean.
    mode = np.maximum(scale_of(np.maximum(gains, _NOTHING) / losses), _LOWEST) - PRIOR_MEAN
    low, high = np.minimum(mean, mode) - _WIDE * sd, np.maximum(mean, mode) + _WIDE * sd

    def log_density(g: Float[np.ndarray, "c n q"]) -> Float[np.ndarray, "c n q"]:
        m = mean_of(PRIOR_MEAN + g)
        normal = ((g - mean[..., None]) / sd[..., None]) ** 2
        return np.asarray(gains[..., None] * np.log(m) - losses[..., None] * m - 0.5 * normal)

    share = np.linspace(0.0, 1.0, _COARSE)
    found = log_density(low[..., None] + (high - low)[..., None] * share)
    (low, high), (left, right) = _around(found, _NEGLIGIBLE, low, high), _around(found, _PEAK, low, high)
    wide = np.ones((len(of), 1), dtype=bool)  # components whose grids have not closed in yet: those of a cost together
    for _ in range(_MOST_GRIDS):
        found = log_density(left[..., None] + (right - left)[..., None] * share)
        left, right = np.where(wide, _around(found, _PEAK, left, right), (left, right))
        at_peak = (found > found.max(axis=-1, keepdims=True) - _PEAK).sum(axis=-1).min(axis=-1)
        wide &= np.equal.outer(of, of[at_peak < _RESOLVED]).any(axis=1, keepdims=True)
        if not wide.any():
            break
    # Nodes lie close together at the peak and further and further apart away from it, where a shoulder may be.
    center, width = 0.5 * (left + right)[..., None], 0.25 * (right - left)[..., None]
    first, last = np.arcsinh((low[..., None] - center) / width), np.arcsinh((high[..., None] - center) / width)
    u = first + (last - first) * np.linspace(0.0, 1.0, _FINE)
    g = center + width * np.sinh(u)
    found = log_density(g)
    top = found.max(axis=-1, keepdims=True)
    weights = np.exp(found - top) * np.cosh(u)
    total = weights.sum(axis=-1)
    m1 = (weights * g).sum(axis=-1) / total
    v1 = (weights * (g - m1[..., None]) ** 2).sum(axis=-1) / total
    step = (width * (last - first))[..., 0] / (_FINE - 1)
    return m1, np.maximum(v1, 1e-12), top[..., 0] + np.log(total * step / (sd * np.sqrt(2 * np.pi)))


def _around(
    log_density: Float[np.ndarray, "c n q"], drop: float, low: Float[np.ndarray, "c n"], high: Float[np.ndarray, "c n"]
) -> tuple[Float[np.ndarray, "c n"], Float[np.ndarray, "c n"]]:
    """Return the range in which a log density has not dropped by more than this, and one node more on both sides."""
    near = log_density > log_density.max(axis=-1, keepdims=True) - drop
    last = near.shape[-1] - 1
    step = (high - low) / last
    before, after = near.argmax(axis=-1), near[..., ::-1].argmax(axis=-1)
    return low + step * np.maximum(before - 1, 0), high - step * np.maximum(after - 1, 0)


def _given_sites(
    K: Float[np.ndarray, "c n n"], tau: Float[np.ndarray, "c n"], nu: Float[np.ndarray, "c n"]
) -> tuple[Float[np.ndarray, "c n n"], Float[np.ndarray, "c n"], Float[np.ndarray, " c"]]:
    """Return A = (K + diag(1 / tau))^-1, A applied to what was observed, nu / tau, and log det (I + K tau)."""
    root = np.sqrt(tau)
    regular = np.eye(K.shape[-1]) + root[:, :, None] * K * root[:, None, :]  # never near singular
    inverse, factor = np.linalg.inv(regular), np.linalg.cholesky(regular)
    log_det = 2 * np.log(np.einsum("cii->ci", factor)).sum(axis=1)
    return root[:, :, None] * inverse * root[:, None, :], root * np.einsum("cij,cj->ci", inverse, nu / root), log_det
