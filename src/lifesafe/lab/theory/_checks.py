"""Checks of settings shared by the modules of the theory."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError


def check_candidates(Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return the candidates as a matrix of floats, or refuse."""
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or not Z.size or not np.all(np.isfinite(Z)):
        raise ConfigError(f"Got candidates of shape {Z.shape}; give a matrix of finite numbers, one row per target.")
    return Z


def check_count(name: str, value: int) -> None:
    """Refuse anything but a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigError(f"Got {name} = {value!r}; give a whole number of at least 1.")


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"Got {name} = {value!r}; give a finite number above 0.")


def check_probability(name: str, value: float) -> None:
    """Refuse anything but a number strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ConfigError(f"Got {name} = {value!r}; give a probability strictly between 0 and 1, say 0.05.")
