"""What episodes say of the mean cost of a target: a likelihood that adds up.

Notation:
    b       limit
    m       mean cost of a target, in limits
    f       m on the modeled scale: 1 at the limit, and free to fall below 0 where m is nearly nothing
    x       cost of an episode, in limits
    n, S    episodes of a target, and the sum of their costs
    phi     dispersion: variance of an episode's cost over its mean, in limits
    s       largest dispersion, the largest cost that can come at once, in limits

    m = 1/4 * 0.05 * log(1 + exp(u / 0.05)),  u = 5^f - 1
    log p(episodes | m, phi) = (S log m - n m) / phi

This is the quasi-likelihood of a Poisson variable whose steps are phi. It adds up: ten trials of one target are one
observation with ten times the episodes. Ten episodes without cost are worth a factor exp(-10 m / phi), so what they
prove depends on how large lumps can be, and phi = s keeps a weight of at least `FLOOR` whatever was seen; all of it
where nothing is assumed of lumps.

Reference: Wedderburn 1974, *Quasi-likelihood functions*.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

_LOG5 = float(np.log(5.0))
_SOFT = 0.05
_HIGHEST = 8.0  # f above which the scale ends: 5^8 / 4 limits
_TYPICAL, _SPREAD = 0.5, 0.7  # prior of phi: log-normal around half a limit
_SMALLEST = 0.1
_NEGLIGIBLE = 0.01  # weight of a dispersion that does not matter
FLOOR = 0.1
"""Weight that the largest dispersion keeps, whatever was seen."""


def mean_of(f: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the mean cost m, in limits, of a value on the modeled scale."""
    t = np.expm1(_LOG5 * np.minimum(f, _HIGHEST)) / _SOFT
    return np.asarray(0.25 * _SOFT * (np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))))


def scale_of(m: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the value on the modeled scale of a mean cost in limits; minus infinity where the scale never gets."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        softplus = np.asarray(m) / (0.25 * _SOFT)
        t = np.where(softplus > 30, softplus, np.log(np.expm1(np.minimum(softplus, 30.0))))
        u = np.asarray(_SOFT * t)
        return np.where(u > -1, np.log1p(np.maximum(u, -1.0)) / _LOG5, -np.inf)


def dispersions(
    s: float, n: Float[np.ndarray, " n"], S: Float[np.ndarray, " n"], squares: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return the values of phi that matter, by factors of 2 up to s, and the posterior probability of each.

    Small weights go to the next larger value, which is the safe side; s itself stays, whatever its weight.
    """
    phis = _SMALLEST * 2.0 ** np.arange(40)
    phis = np.append(phis[phis < 0.9 * s], s)
    says = (S > 0) & (n >= 2)  # zeros say nothing of the size of lumps
    n, S, squares = n[says], S[says], squares[says]
    mean = S / n
    trust = np.minimum(1.0, 1.0 / mean)  # targets far above the limit may be noisy in another way
    spread = np.maximum(squares - S * mean, 0.0) / mean
    log_weights = -0.5 * (np.log(phis / min(_TYPICAL, s)) / _SPREAD) ** 2
    log_weights -= 0.5 * (trust @ (n - 1) * np.log(phis) + trust @ spread / phis)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    for i in range(len(phis) - 1):
        if weights[i] < _NEGLIGIBLE:
            weights[i + 1] += weights[i]
            weights[i] = 0.0
    matter = (weights > 0) | (phis == s)
    return phis[matter], weights[matter]


def floored(weights: Float[np.ndarray, " p"], least: float = FLOOR) -> Float[np.ndarray, " p"]:
    """Return the weights with at least this on the largest dispersion."""
    if weights[-1] >= least or len(weights) == 1:
        return weights
    raised = weights * ((1 - least) / (1 - weights[-1]))
    raised[-1] = least
    return np.asarray(raised)
