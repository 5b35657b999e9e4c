"""The Gaussian process behind one mean cost, given episodes: expectation propagation with one site for each target.

Notation:
    X       targets that were tried, every axis from 0 to 1                       (n, d)
    n, S    episodes of each, and the sums of their costs in limits               (n,)
    phi     dispersions, see `likelihood`                                         (p,)
    K       prior covariance of f - 1 at X, for each process                      (q, n, n)
    tau, nu sites: f - 1 at target i as if observed with precision tau_i          (c, n)
    A       (K + diag(1 / tau))^-1; a = A applied to what was observed            (c, n, n), (c, n)
    c       components: every dispersion with every process, c = p * q

Two processes have the prior mean 1, the limit: the *rough* one may rise within a step, the *smooth* one is what the
planes of real policies look like. Sites are fitted by expectation propagation; a Laplace step at the mode would be too
sure above. Moments of a site are found by quadrature on a grid that closes in on where its density is.

References: Minka 2001, *Expectation propagation*; Rasmussen & Williams 2006, sections 3.6 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

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
class Fitted:
    """The process given all episodes, for every component."""

    X: Float[np.ndarray, "n d"]
    A: Float[np.ndarray, "c n n"]
    a: Float[np.ndarray, "c n"]
    log_evidence: Float[np.ndarray, " c"]

    def moments(self, Z: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, "c m"], Float[np.ndarray, "c m"]]:
        """Return mean and standard deviation of f at some targets, in every component."""
        means, variances = np.empty((len(self.a), len(Z))), np.empty((len(self.a), len(Z)))
        for q, cross in enumerate(kernels(Z, self.X)):
            for c in range(q, len(self.a), len(LENGTHS)):
                means[c] = PRIOR_MEAN + cross @ self.a[c]
                variances[c] = DEVIATIONS[q] ** 2 - np.einsum("mn,mn->m", cross @ self.A[c], cross)
        return means, np.sqrt(np.maximum(variances, 1e-9))

    def covariances(self, z: Float[np.ndarray, " d"], Z: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "c m"]:
        """Return the covariance of f at one target with f at others, in every component."""
        prior, of_z, of_Z = kernels(z[None], Z), kernels(z[None], self.X), kernels(Z, self.X)
        parts = [
            prior[c % len(LENGTHS)][0] - of_Z[c % len(LENGTHS)] @ (self.A[c] @ of_z[c % len(LENGTHS)][0])
            for c in range(len(self.a))
        ]
        return np.stack(parts)


def kernels(Z: Float[np.ndarray, "m d"], X: Float[np.ndarray, "n d"]) -> list[Float[np.ndarray, "m n"]]:
    """Return the prior covariance between targets, for each process: Matern 5/2."""
    squared = np.zeros((len(Z), len(X)))
    for axis in range(Z.shape[1]):
        squared += (Z[:, axis, None] - X[None, :, axis]) ** 2
    distance = np.sqrt(5.0 * squared)
    found = []
    for length, deviation in zip(LENGTHS, DEVIATIONS, strict=True):
        r = distance / length
        found.append(deviation**2 * (1 + r + r * r / 3) * np.exp(-r))
    return found


def fit(
    X: Float[np.ndarray, "n d"], n: Float[np.ndarray, " n"], S: Float[np.ndarray, " n"], phis: Float[np.ndarray, " p"]
) -> Fitted:
    """Return the process given episodes, for every dispersion with every process."""
    K = np.tile(np.stack(kernels(X, X)), (len(phis), 1, 1))  # (c, n, n): the process runs fastest
    per_component = np.repeat(phis, len(LENGTHS))[:, None]
    gains, losses = S / per_component, n / per_component
    tau, nu = np.full(gains.shape, _LEAST_TAU), np.zeros(gains.shape)
    A, a = _given_sites(K, tau, nu)
    log_evidence = np.zeros(len(gains))
    for sweep in range(_SWEEPS if len(X) else 0):
        # A_ii = 1 / (v + 1 / tau_i) and a_i = A_ii (what was observed - m), where m and v are moments without site i
        var = np.maximum(tau / np.einsum("cii->ci", A) - 1, 0.0) / tau + _LEAST_VARIANCE
        mean = np.einsum("cij,cj->ci", K, a) - a * var
        m1, v1, log_z = tilted(mean, var, gains, losses)
        new_tau = np.clip(1 / v1 - 1 / var, _LEAST_TAU, _MOST_TAU)
        new_nu = m1 * (new_tau + 1 / var) - mean / var
        change = max(_change(new_tau, tau), _change(new_nu, nu))
        if change < _ACCURACY or sweep == _SWEEPS - 1:
            sites = log_z + 0.5 * np.log1p(tau * var) - 0.5 * mean * a
            log_evidence = sites.sum(axis=-1) - 0.5 * np.linalg.slogdet(_regular(K, tau))[1]
        tau, nu = tau + _DAMPING * (new_tau - tau), nu + _DAMPING * (new_nu - nu)
        A, a = _given_sites(K, tau, nu)
        if change < _ACCURACY:
            break
    return Fitted(X, A, a, log_evidence)


def tilted(
    mean: Float[np.ndarray, "c n"],
    var: Float[np.ndarray, "c n"],
    gains: Float[np.ndarray, "c n"],
    losses: Float[np.ndarray, "c n"],
) -> tuple[Float[np.ndarray, "c n"], Float[np.ndarray, "c n"], Float[np.ndarray, "c n"]]:
    """Return mean and variance of N(mean, var) times the likelihood of a site, and the log of its integral.

    Args:
        mean: Of f - 1, without the site.
        var: Of the same.
        gains: S / phi.
        losses: n / phi.
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
    for _ in range(_MOST_GRIDS):
        found = log_density(left[..., None] + (right - left)[..., None] * share)
        left, right = _around(found, _PEAK, left, right)
        if (found > found.max(axis=-1, keepdims=True) - _PEAK).sum(axis=-1).min() >= _RESOLVED:
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
) -> tuple[Float[np.ndarray, "c n n"], Float[np.ndarray, "c n"]]:
    """Return A = (K + diag(1 / tau))^-1, and A applied to what was observed, nu / tau."""
    root, inverse = np.sqrt(tau), np.linalg.inv(_regular(K, tau))
    inverse = 0.5 * (inverse + np.swapaxes(inverse, 1, 2))
    return root[:, :, None] * inverse * root[:, None, :], root * np.einsum("cij,cj->ci", inverse, nu / root)


def _regular(K: Float[np.ndarray, "c n n"], tau: Float[np.ndarray, "c n"]) -> Float[np.ndarray, "c n n"]:
    """Return I + sqrt(tau) K sqrt(tau), which is never near singular."""
    root = np.sqrt(tau)
    return np.asarray(np.eye(K.shape[-1]) + root[:, :, None] * K * root[:, None, :])


def _change(new: Float[np.ndarray, "c n"], old: Float[np.ndarray, "c n"]) -> float:
    return float((np.abs(new - old) / (1.0 + np.abs(old))).max())
