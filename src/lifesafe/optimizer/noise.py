"""How well the mean of a trial's episodes is known.

Costs of real policies come in lumps: twenty episodes may all cost nothing although the mean is far above the limit.
The sample variance is then zero and the trial would count as certain. The score form below stays honest: it solves
the Wilson equation for a mean whose variance is proportional to it, with the proportion pooled over all trials.

Notation:
    x       episode costs of a trial; xbar their mean, n their number
    phi     index of dispersion, Var / mean, pooled over trials, with a prior phi0 worth w0 episodes
    nu      standard deviation of the trial's mean
    c       multiplier at which the score interval is solved
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

SCORE = 2.0  # c
WORTH = 10.0  # w0: the prior dispersion counts as much as so many episodes at the limit


class Dispersion:
    """Index of dispersion of episode costs, Var / mean, pooled over the trials added so far.

    Trials count in proportion to their mean, but none for more than one at the limit: the noise matters up to there,
    and a trial that failed at a high, steady cost must not make the others look certain.
    """

    def __init__(self, limit: float, prior: float) -> None:
        self._limit = limit
        self._above, self._below = WORTH * prior * limit, WORTH * limit

    @property
    def phi(self) -> float:
        """The pooled index."""
        return self._above / self._below

    def add(self, costs: Float[np.ndarray, " _"]) -> None:
        """Add the episode costs of one trial."""
        mean = float(costs.mean())
        weight = min(mean, self._limit) / mean if mean > 0 else 1.0
        self._above += weight * float(((costs - mean) ** 2).sum())
        self._below += weight * (len(costs) - 1) * max(mean, 0.0)


def score_sd(mean: float, episodes: int, phi: float) -> float:
    """Return the standard deviation of a trial's mean cost in score form."""
    half = SCORE * phi / (2 * episodes)
    return half + math.sqrt(phi * max(mean, 0.0) / episodes + half * half)


def shrunk_variance(values: Float[np.ndarray, " n"], prior_sd: float, worth: float = 4.0) -> float:
    """Return the variance of the mean of a trial's rewards, shrunk towards a prior worth a few episodes."""
    n = len(values)
    squares = float(((values - values.mean()) ** 2).sum()) + worth * prior_sd**2
    return squares / (n - 1 + worth) / n
