"""Stationary correlation functions of scaled inputs.

Notation:
    X, Y    inputs, each axis already divided by its length-scale    (n, d), (m, d)
    r       Euclidean distance between two scaled inputs             (n, m)
    rho(r)  correlation: 1 at r = 0, decreasing to 0                 (n, m)

Reference: Rasmussen & Williams 2006, *Gaussian Processes for Machine Learning*, Eq. (4.9) for the squared
exponential (``rbf``) and Eq. (4.17) for the Matern kernels of smoothness 3/2 and 5/2.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError

Kernel = Literal["rbf", "matern32", "matern52"]


def correlation_matrix(
    kernel: Kernel, X: Float[np.ndarray, "n d"], Y: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, "n m"]:
    """Return the correlation of every row of X with every row of Y, both already scaled.

    Raises:
        ConfigError: If the kernel is unknown.
    """
    if kernel not in get_args(Kernel):
        raise ConfigError(f"Unknown kernel {kernel!r}; choose one of {', '.join(get_args(Kernel))}.")
    # Squared differences are summed axis by axis: equal rows have correlation exactly 1, which x² - 2xy + y² loses.
    squares: Float[np.ndarray, "n m"] = np.zeros((len(X), len(Y)))
    for x, y in zip(X.T, Y.T, strict=True):
        squares += (x[:, None] - y) ** 2
    if kernel == "rbf":
        return np.exp(-squares / 2)
    s = np.sqrt((3.0 if kernel == "matern32" else 5.0) * squares)
    return (1 + s) * np.exp(-s) if kernel == "matern32" else (1 + s + s**2 / 3) * np.exp(-s)
