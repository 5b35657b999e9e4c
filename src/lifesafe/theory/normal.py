"""The standard normal distribution.

SciPy is imported on first use: `import scipy.special` alone takes longer than all of `import lifesafe`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def probability_below(x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return the probability that a standard normal number lies below x."""
    from scipy.special import ndtr

    return np.asarray(ndtr(x))


def quantile(probability: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
    """Return the number below which a standard normal one lies with the given probability."""
    from scipy.special import ndtri

    return np.asarray(ndtri(probability))
