"""What was expected of every target when it was asked for, beside what its episodes returned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from lifesafe.journal.events import Point
from lifesafe.report.reading import Reading, episodes_of

RARE = 0.05
"""Share of outcomes that a right model leaves beyond its forecasts."""


@dataclass(frozen=True)
class Outcome:
    """One return of one target of a trial."""

    trial: int
    point: Point
    forecast: tuple[float, float]
    """Where its mean was expected: median to 95 % quantile of a cost, mean ± two deviations of a reward."""
    measured: float
    """Mean of its episodes."""
    half: float
    """Two standard deviations of that mean."""
    is_cost: bool

    @property
    def is_surprise(self) -> bool:
        """Whether the episodes lie clearly beyond the forecast: for a cost, above it."""
        low, high = self.forecast
        return self.measured - self.half > high or (not self.is_cost and self.measured + self.half < low)


def outcomes(reading: Reading, axis: int) -> list[Outcome]:
    """Return the forecasts of one return, 0 for the reward, with what came of them."""
    found = []
    for tried in reading.history.told:
        for i, (point, forecast) in enumerate(zip(tried.asked.targets, tried.asked.forecasts, strict=True)):
            episodes = episodes_of(tried, i)
            if len(episodes):
                mean, sd = forecast.reward
                ends = forecast.costs[axis - 1] if axis else (mean - 2 * sd, mean + 2 * sd)
                half = float(reading.doubt(episodes)[axis])
                measured = float(episodes[:, axis].mean())
                found.append(Outcome(tried.number, point, ends, measured, half, axis > 0))
    return found


def is_doubtful(found: list[Outcome]) -> bool:
    """Whether there are more surprises than a right model would show in 19 of 20 runs."""
    count = int(np.sum([each.is_surprise for each in found]))
    return count > 0 and bool(binom.sf(count - 1, len(found), RARE) < RARE)
