"""The monitor: has the mean cost of the served target risen above its limit?

Two rules watch every cost, and both hold whatever the distribution of the costs, as long as each lies in [0, H]; a
third one watches that:

    mean    a test by betting against "every mean cost is at most b": the probability that it *ever* raises an alarm
            while that is true is at most `level`
    drift   an e-detector, which forgets: quick to notice a change after a long safe time, and its false alarms are
            at least `run_length` episodes apart in the mean
    bound   a cost above H, by more than rounding: what the other two suppose is wrong, and the cost worse than
            anything foreseen

With K costs each has level / K and K run_length, so that both promises hold for all costs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from jaxtyping import Float

from lifesafe.errors import ConfigError, TrialError
from lifesafe.theory.betting import ROUNDING, BettingTest, DriftDetector, alarm_test, drift_detector

Rule = Literal["bound", "mean", "drift"]


@dataclass(frozen=True, kw_only=True)
class MonitorConfig:
    """How easily the monitor raises an alarm."""

    level: float = 0.01
    """Probability that the rule "mean" ever raises a false alarm at one target."""
    run_length: float = 1000.0
    """Episodes between two false alarms of the rule "drift", in the mean, at least."""

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ConfigError(f"level must lie between 0 and 1; got {self.level}.")
        if not self.run_length > 1:
            raise ConfigError(f"run_length must be above 1 episode; got {self.run_length}.")


@dataclass(frozen=True)
class Alarm:
    """A cost that is too high.

    Attributes:
        rule: Which rule noticed.
        cost: Number of the cost, from 0.
        episode: Episode since the target is served, from 1.
        mean: Mean of that cost over all those episodes.
        limit: Its limit.
    """

    rule: Rule
    cost: int
    episode: int
    mean: float
    limit: float

    def __str__(self) -> str:
        noticed = {
            "bound": "an episode cost more than cost_bounds says is possible, with the limit",
            "mean": "its mean is above the limit",
            "drift": "it has risen above the limit",
        }[self.rule]
        return (
            f"after {self.episode} episodes the monitor is sure of cost {self.cost + 1}: {noticed} {self.limit:g}"
            f" (mean so far {self.mean:.3g}; rule {self.rule})"
        )


@dataclass(frozen=True)
class Monitor:
    """Both rules for every cost, after some episodes of one target. A value: `update` returns a new one.

    Examples:
        >>> monitor = Monitor.start(limits=[20.0], bounds=[200.0])
        >>> monitor.update([[3.0], [0.0]]).alarm is None
        True
        >>> monitor.update([[90.0]] * 10).alarm.episode
        5
    """

    tests: tuple[BettingTest, ...]
    detectors: tuple[DriftDetector, ...]
    episodes: int = 0
    sums: tuple[float, ...] = ()
    alarm: Alarm | None = None
    """The first alarm, if there was one."""

    @classmethod
    def start(cls, limits: Sequence[float], bounds: Sequence[float], config: MonitorConfig | None = None) -> Self:
        """Return a monitor before the first episode.

        Args:
            limits: Largest mean of each cost.
            bounds: Largest possible cost of an episode, for each cost.
            config: How easily it raises an alarm.

        Raises:
            ConfigError: If there is not one bound for each limit, above it.
        """
        if len(bounds) != len(limits):
            raise ConfigError(
                f"The monitor needs the largest possible cost of an episode for each of {len(limits)} costs; got"
                f" {len(bounds)}. Give cost_bounds: horizon times the largest cost of a step."
            )
        config, costs = config or MonitorConfig(), len(limits)
        pairs = list(zip(limits, bounds, strict=True))
        return cls(
            tests=tuple(alarm_test(limit, bound, config.level / costs) for limit, bound in pairs),
            detectors=tuple(drift_detector(limit, bound, config.run_length * costs) for limit, bound in pairs),
            sums=(0.0,) * costs,
        )

    def update(self, costs: Sequence[Sequence[float]] | Float[np.ndarray, "t k"]) -> Monitor:
        """Return the monitor after these further episodes; many at once or one by one is the same.

        Raises:
            TrialError: If episodes do not have as many costs as there are limits, or a cost is negative.
        """
        X = np.asarray(costs, dtype=np.float64)
        X = X.reshape(-1, len(self.tests)) if X.size == 0 else X
        if X.ndim != 2 or X.shape[1] != len(self.tests):
            raise TrialError(
                f"The monitor watches {len(self.tests)} costs an episode; got an array of shape {X.shape}."
            )
        possible = np.minimum(X, [test.bound for test in self.tests])
        after = replace(
            self,
            tests=tuple(test.update(possible[:, k]) for k, test in enumerate(self.tests)),
            detectors=tuple(detector.update(possible[:, k]) for k, detector in enumerate(self.detectors)),
            episodes=self.episodes + len(X),
            sums=tuple(total + float(X[:, k].sum()) for k, total in enumerate(self.sums)),
        )
        return after if after.alarm else replace(after, alarm=after._first_alarm(X))

    @property
    def evidence(self) -> dict[str, Any]:
        """Logarithms of wealth and detector for every cost, as plain values; alarms are at log(1 / level) and so on."""
        return {
            "log_wealth": [test.log_wealth for test in self.tests],
            "log_drift": [detector.log_value if detector.episodes else None for detector in self.detectors],
        }

    def _first_alarm(self, X: Float[np.ndarray, "t k"]) -> Alarm | None:
        found: list[tuple[int, Rule, int]] = []
        for k, (test, detector) in enumerate(zip(self.tests, self.detectors, strict=True)):
            beyond = np.flatnonzero(X[:, k] > test.bound * (1 + ROUNDING))
            if len(beyond):
                found.append((self.episodes - len(X) + int(beyond[0]) + 1, "bound", k))
            if test.rejected_at is not None:
                found.append((test.rejected_at, "mean", k))
            if detector.alarmed_at is not None:
                found.append((detector.alarmed_at, "drift", k))
        if not found:
            return None
        episode, rule, k = min(found, key=lambda each: (each[0], get_args(Rule).index(each[1]), each[2]))
        later = self.episodes - episode  # episodes of this batch that came after the alarm
        total = self.sums[k] - float(X[len(X) - later :, k].sum())
        return Alarm(rule=rule, cost=k, episode=episode, mean=total / episode, limit=self.tests[k].limit)
