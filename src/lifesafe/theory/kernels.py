"""Stationary correlation functions of scaled inputs.

Notation:
    X, Y    inputs, each axis already divided by its length-scale    (n, d), (m, d)
    r       Euclidean distance between two scaled inputs             any shape
    rho(r)  correlation: 1 at r = 0, decreasing to 0                 shape of r

Reference: Rasmussen & Williams 2006, *Gaussian Processes for Machine Learning*, Eq. (4.9) for the squared
exponential (``rbf``) and Eq. (4.17) for the Matern kernels of smoothness 3/2 and 5/2.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError

Kernel = Literal["rbf", "matern32", "matern52"]
_KERNELS = get_args(Kernel)
"""Names of the correlation functions, from the smoothest to the roughest: rbf, matern52, matern32."""

# Entries worked on at a time: small enough that the buffers of a block stay in the second-level cache.
_BLOCK = 32_768


def correlation(kernel: Kernel, distances: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the correlation at the given scaled distances; exactly 1 at distance 0.

    Eq. (4.9) and (4.17) of Rasmussen & Williams 2006.

    Raises:
        ConfigError: If the kernel is unknown.
    """
    _check(kernel)
    squares = np.asarray(np.square(distances, dtype=np.float64))
    _replace_squares(kernel, squares, np.empty_like(squares))
    return squares


def correlation_matrix(
    kernel: Kernel, X: Float[np.ndarray, "n d"], Y: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, "n m"]:
    """Return the correlation of every row of X with every row of Y, both already scaled.

    Squared differences are summed axis by axis in blocks that fit the cache: no (n, m, d) array is made, and
    equal rows have correlation exactly 1 (the expansion x² - 2xy + y² loses that).
    Candidates stored by columns (``order="F"``) save a copy of Y.

    Raises:
        ConfigError: If the kernel is unknown, or X and Y are not matrices with the same number of columns.
    """
    _check(kernel)
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    if X.ndim != 2 or Y.ndim != 2 or X.shape[1] != Y.shape[1]:
        raise ConfigError(
            f"Got inputs of shapes {X.shape} and {Y.shape}; give two matrices, one row per input, "
            "with the same number of columns."
        )
    n, m = len(X), len(Y)
    columns = np.ascontiguousarray(Y.T)
    result = np.zeros((n, m))
    buffer = np.empty(_BLOCK)
    width = max(1, min(m, _BLOCK))
    height = max(1, _BLOCK // width)
    for top in range(0, n, height):
        for left in range(0, m, width):
            block = result[top : top + height, left : left + width]
            difference = buffer[: block.size].reshape(block.shape)
            for axis in range(X.shape[1]):
                rows = X[top : top + height, axis, None]
                np.subtract(rows, columns[axis, left : left + width], out=difference)
                np.square(difference, out=difference)
                block += difference
            _replace_squares(kernel, block, difference)
    return result


def _replace_squares(kernel: Kernel, squares: Float[np.ndarray, "*shape"], buffer: Float[np.ndarray, "*shape"]) -> None:
    """Overwrite squared distances by correlations, and the buffer by anything."""
    if kernel == "rbf":
        squares *= -0.5
        np.exp(squares, out=squares)
        return
    # With s = sqrt(2 nu) r: (1 + s) exp(-s) for nu = 3/2 and (1 + s + s²/3) exp(-s) for nu = 5/2.
    squares *= 3.0 if kernel == "matern32" else 5.0
    np.sqrt(squares, out=buffer)
    if kernel == "matern32":
        np.add(buffer, 1.0, out=squares)
    else:
        squares /= 3.0
        squares += 1.0
        squares += buffer
    np.negative(buffer, out=buffer)
    np.exp(buffer, out=buffer)
    squares *= buffer


def _check(kernel: str) -> None:
    if kernel not in _KERNELS:
        raise ConfigError(f"Unknown kernel {kernel!r}; choose one of {', '.join(_KERNELS)}.")
