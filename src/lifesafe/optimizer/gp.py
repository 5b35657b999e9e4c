"""Exact Gaussian process regression on a finite set of candidates, one observation at a time.

Every observation is made at a candidate, so the posterior is kept on all candidates at once and each observation is a
rank-one update. It costs O(n M) time and M numbers of memory, needs no matrix factorization and no second pass, and
adding points in the same order gives the same bits.

Notation:
    M, d    candidates, their dimension
    n       observations so far
    X       scaled candidates, (d, M): one row per axis, so that each axis is contiguous
    mean    posterior mean, (M,)
    var     posterior variance, (M,)
    V       L^-1 K(observed, X), (n, M), with L the Cholesky factor of K(observed, observed) + noise
    c       posterior covariance between one candidate and all, (M,)
    s       predictive variance of one observation
    F       factor, (M, q): adds F F^T to the prior covariance, along ways in which the map is known to vary

Reference: Rasmussen & Williams 2006, Algorithm 2.1, in its incremental form.
"""

from __future__ import annotations

import copy
import math

import numpy as np
from jaxtyping import Float, Int

from lifesafe.theory.kernels import Kernel, correlation_matrix

_FLOOR = 1e-12  # smallest posterior variance, in units of the prior variance


class GridGP:
    """Posterior of a Gaussian process at every candidate."""

    def __init__(
        self,
        X: Float[np.ndarray, "d M"],
        kernel: Kernel,
        lengthscales: tuple[float, ...],
        sd: float,
        mean: Float[np.ndarray, " M"],
        factor: Float[np.ndarray, "M q"] | None = None,
    ) -> None:
        self._X = X / np.asarray(lengthscales)[:, None]
        self._kernel: Kernel = kernel
        self._sd2 = sd * sd
        self._factor = factor
        self.mean = mean.astype(np.float64, copy=True)
        self.var = np.full(X.shape[1], self._sd2)
        if factor is not None:
            self.var += (factor * factor).sum(axis=1)
        self.log_likelihood = 0.0
        self._V = np.empty((8, X.shape[1]))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def copy(self) -> GridGP:
        """Return a process that can be changed without changing this one."""
        twin = copy.copy(self)
        twin.mean, twin.var, twin._V = self.mean.copy(), self.var.copy(), self._V.copy()
        return twin

    def append(self, index: int, value: float, noise_variance: float) -> float:
        """Add one observation and return its innovation, standardized by what was predicted."""
        c = self.covariance_with(index)
        s = float(self.var[index]) + noise_variance
        residual = value - float(self.mean[index])
        self.log_likelihood -= 0.5 * (residual * residual / s + math.log(2 * math.pi * s))
        self._store(c / math.sqrt(s))
        self.mean += c * (residual / s)
        c *= c
        c /= s
        self.var -= c
        np.maximum(self.var, _FLOOR * self._sd2, out=self.var)
        return residual / math.sqrt(s)

    def covariance_with(self, index: int) -> Float[np.ndarray, " M"]:
        """Return the posterior covariance between one candidate and every candidate."""
        c: Float[np.ndarray, " M"] = correlation_matrix(self._kernel, self._X[:, [index]].T, self._X.T)[0]
        c *= self._sd2
        if self._factor is not None:
            c += self._factor @ self._factor[index]
        if self._count:
            V = self._V[: self._count]
            c -= V[:, index] @ V
        return c

    def covariance(self, rows: Int[np.ndarray, " a"], columns: Int[np.ndarray, " b"]) -> Float[np.ndarray, "a b"]:
        """Return the posterior covariance between two sets of candidates."""
        X, V = self._X, self._V[: self._count]
        block = self._sd2 * correlation_matrix(self._kernel, X[:, rows].T, X[:, columns].T)
        if self._factor is not None:
            block += self._factor[rows] @ self._factor[columns].T
        block -= V[:, rows].T @ V[:, columns]
        return block

    def _store(self, row: Float[np.ndarray, " M"]) -> None:
        if self._count == len(self._V):
            grown = np.empty((2 * self._count, self._V.shape[1]))
            grown[: self._count] = self._V
            self._V = grown
        self._V[self._count] = row
        self._count += 1
