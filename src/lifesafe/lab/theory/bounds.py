"""Confidence multipliers and information gain.

Notation:
    Z          candidates, |Z| of them                                       (n, d)
    K          prior covariance of one return on the candidates              (n, n)
    sigma_f²   prior variance, the diagonal of K                             ()
    nu²        noise variance of the mean of one trial                       ()
    N          trials (observations of the Gaussian process)                 ()
    delta      allowed failure probability, Delta in the paper               ()
    alpha_j    half-width of the band of trial j in posterior deviations     ()
    xi_N       largest information gain of N observations                    ()
    rho_r      largest variance left after conditioning on r exact values    (r + 1,)
    lambda_i   eigenvalues of K, largest first                               (n,)

References: Wachi et al. 2025, *A Provable Approach for End-to-End Safe Reinforcement Learning*, Eq. (5);
Srinivas et al. 2012, *Information-Theoretic Regret Bounds for Gaussian Process Optimization in the Bandit
Setting*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lifesafe.lab.theory._checks import check_candidates, check_count, check_positive, check_probability
from lifesafe.lab.theory.kernels import Kernel, correlation_matrix

# Up to so many candidates all eigenvalues of K are computed: about two seconds.
_SPECTRUM = 2_500


def paper_multiplier(candidates: int, trial: int, delta: float, *, events: int = 1) -> float:
    """Return alpha_j = sqrt(2 log(|Z| j² pi² / (6 delta))), Eq. (5) of Wachi et al. 2025.

    With it the bands of every candidate hold at every trial with probability at least 1 - delta (Lemma 5.1 of
    Srinivas et al. 2012).

    Args:
        candidates: |Z|.
        trial: j, counted from 1 over all stages; a count that starts again later spends delta twice.
        delta: Failure probability of all bands together.
        events: Returns whose bands must hold together; each gets delta / events. With K costs: K for safety
            alone, K + 1 for safety and optimality.

    Raises:
        ConfigError: If a value is out of range.
    """
    # NOTE: The paper gives the reward and the cost the whole delta each (events = 1), which leaves 1 - 2
    # delta where Theorem 3 needs both; the caller chooses the split.
    check_count("candidates", candidates)
    check_count("trial", trial)
    check_count("events", events)
    check_probability("delta", delta)
    return math.sqrt(2.0 * _log_union(candidates, trial, delta / events))


def residual_variances(
    kernel: Kernel, Z: Float[np.ndarray, "n d"], ranks: int, *, variance: float = 1.0
) -> Float[np.ndarray, " ranks"]:
    """Return rho_0, ..., rho_r: the largest variance left on the candidates after r exact observations.

    This is the Cholesky factorization of K with diagonal pivots (the greedy Nystrom approximation). It stops
    early, with a shorter result, once rho falls to the rounding error, 1e-12 of the prior variance.

    Raises:
        ConfigError: If there is no candidate or a value is out of range.
    """
    Z = check_candidates(Z)
    check_count("ranks", ranks)
    check_positive("variance", variance)
    row = _rows(kernel, Z, variance)
    floor = 1e-12 * variance
    left = np.full(len(Z), variance, dtype=np.float64)
    ranks = min(ranks, len(Z))
    V = np.empty((ranks, len(Z)))
    residuals = [variance]
    for rank in range(ranks):
        pivot = int(np.argmax(left))
        column = row(pivot) - V[:rank, pivot] @ V[:rank]
        V[rank] = column / math.sqrt(left[pivot])
        left -= V[rank] ** 2
        residuals.append(max(float(left.max()), floor))
        if residuals[-1] == floor:
            break
    return np.array(residuals)


@dataclass(frozen=True)
class GainBound:
    """Upper bound on the information gain of any N observations of the candidates, repeats allowed.

    The smaller of two bounds, each computed from the covariance on the given candidates. Let K_N be the
    covariance of the N observed values; its trace is N sigma_f² and at most min(N, |Z|) of its eigenvalues
    are not 0.

    *Nystrom* (few observations). For every r <= N,

        xi_N <= 1/2 [ r log(1 + h / (r nu²)) + q log(1 + t / (q nu²)) ],
        q = min(N, |Z|) - r,  t = N min(rho_r, sigma_f² q / (r + q)),  h = N sigma_f² - t.

    The rank-r Nystrom part of K_N leaves a diagonal of at most rho_r, so all but the r largest eigenvalues
    sum to at most N rho_r (Ky Fan). The logarithm is concave: each group is worth most when its eigenvalues
    are equal, and t is where the sum is largest.

    *Spectral* (many observations, at most 2500 candidates). With w_i observations of candidate i, K_N has the
    nonzero eigenvalues of K diag(w), and products of the sorted eigenvalues of the factors dominate (Horn),
    so

        xi_N <= max over m >= 0, sum m = N of 1/2 sum_i log(1 + m_i lambda_i / nu²),

    solved by water-filling. This is the relaxed problem in the proof of Theorem 8 of Srinivas et al. 2012,
    without their factor 1 / (1 - 1/e), and with the eigenvalues measured on the candidates instead of
    bounded.

    For the squared exponential, rho_r and lambda_r fall like exp(-c r^(1/d)): of order (log N)^d terms matter
    and the bound grows as O((log N)^(d+1)), as Theorem 5 of Srinivas et al. 2012 says.
    """

    residuals: Float[np.ndarray, " ranks"]
    """rho_0, ..., rho_r; rho_0 is the prior variance."""
    eigenvalues: Float[np.ndarray, " spectrum"]
    """lambda_1 >= lambda_2 >= ... > 0, all of them; empty to do without the spectral bound."""
    noise_variance: float
    """nu²."""
    candidates: int
    """|Z|."""

    @classmethod
    def on(
        cls,
        kernel: Kernel,
        Z: Float[np.ndarray, "n d"],
        noise_variance: float,
        *,
        variance: float = 1.0,
        ranks: int = 400,
    ) -> GainBound:
        """Return the bound for scaled candidates, from at most so many Nystrom ranks.

        Raises:
            ConfigError: If there is no candidate or a value is out of range.
        """
        check_positive("noise variance", noise_variance)
        residuals = residual_variances(kernel, Z, ranks, variance=variance)
        eigenvalues = np.empty(0)
        if len(Z) <= _SPECTRUM:
            spectrum = variance * np.linalg.eigvalsh(correlation_matrix(kernel, Z, Z))[::-1]
            # Rounding may take small eigenvalues down: add its size, so that the bound stays one.
            rounding = len(Z) * np.finfo(np.float64).eps * spectrum[0]
            eigenvalues = np.maximum(spectrum, 0.0) + rounding
        return cls(residuals, eigenvalues, noise_variance, len(Z))

    def __call__(self, observations: int) -> float:
        """Return the bound on xi_N for N observations.

        Raises:
            ConfigError: If N is not positive.
        """
        check_count("observations", observations)
        nystrom = self._nystrom(observations)
        return min(nystrom, self._spectral(observations)) if len(self.eigenvalues) else nystrom

    def _nystrom(self, observations: int) -> float:
        variance = self.residuals[0]
        nonzero = min(observations, self.candidates)
        r = np.arange(min(len(self.residuals), nonzero + 1))
        q = nonzero - r
        t = observations * np.minimum(self.residuals[r], variance * q / nonzero)
        h = observations * variance - t
        head = r * np.log1p(h / (np.maximum(r, 1) * self.noise_variance))
        rest = q * np.log1p(t / (np.maximum(q, 1) * self.noise_variance))
        return float(0.5 * np.min(head + rest))

    def _spectral(self, observations: int) -> float:
        ground = self.noise_variance / self.eigenvalues
        levels = (observations + np.cumsum(ground)) / np.arange(1, len(ground) + 1)
        level = levels[np.flatnonzero(levels > ground)[-1]]
        return float(0.5 * np.sum(np.log(np.maximum(level / ground, 1.0))))


def _rows(kernel: Kernel, Z: Float[np.ndarray, "n d"], variance: float) -> Callable[[int], Float[np.ndarray, " n"]]:
    return lambda index: np.asarray(variance * correlation_matrix(kernel, Z[index : index + 1], Z)[0])


def _log_union(candidates: int, trial: int, delta: float) -> float:
    """Return log(|Z| j² pi² / (6 delta)), without overflow for any count."""
    return math.log(candidates) + 2.0 * math.log(trial) + math.log(math.pi**2 / 6.0) - math.log(delta)
