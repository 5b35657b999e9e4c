"""What was expected of every target when it was asked for, beside what its episodes returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaincinv

from lifesafe.journal.events import Point
from lifesafe.report.reading import Reading, episodes_of
from lifesafe.report.wording import percent

RARE = 0.05
"""Share of outcomes that a right model leaves beyond its forecasts, at most."""
_SURE = 0.95  # confidence of the interval


@dataclass(frozen=True)
class Measured:
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


@dataclass(frozen=True)
class Calibration:
    """How often outcomes lie clearly beyond their forecasts, with the interval of Clopper and Pearson."""

    surprises: int
    outcomes: int

    @property
    def interval(self) -> tuple[float, float]:
        """Between which shares the true one lies, with 95 % confidence."""
        k, n, tail = self.surprises, self.outcomes, (1 - _SURE) / 2
        low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
        return low, float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0

    @property
    def is_doubtful(self) -> bool:
        """Whether all shares in the interval are larger than a right model allows."""
        return self.interval[0] > RARE

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.surprises} of {self.outcomes} (95 % interval {percent(low)} to {percent(high)})"


def outcomes(reading: Reading, axis: int) -> list[Measured]:
    """Return the forecasts of one return, 0 for the reward, with what came of them.

    A cost that no episode can bring above its limit is not modeled, and has none.
    """
    found = []
    for tried in reading.history.told:
        for i, (point, forecast) in enumerate(zip(tried.asked.targets, tried.asked.forecasts, strict=True)):
            episodes = episodes_of(tried, i)
            mean, sd = forecast.reward
            ends = forecast.costs[axis - 1] if axis else (mean - 2 * sd, mean + 2 * sd)
            if len(episodes) and (axis == 0 or ends[1] > 0):
                half = float(reading.doubt(episodes)[axis])
                measured = float(episodes[:, axis].mean())
                found.append(Measured(tried.number, point, ends, measured, half, axis > 0))
    return found


def calibration(found: Sequence[Measured]) -> Calibration:
    """Return how often these outcomes lie clearly beyond their forecasts."""
    return Calibration(sum(each.is_surprise for each in found), len(found))
