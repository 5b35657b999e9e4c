"""What is believed over planes of targets, and when it was: for the page as for the picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float, Shaped

from lifesafe.journal import events as e
from lifesafe.journal.events import Point
from lifesafe.report.reading import Reading
from lifesafe.safety import Problem
from lifesafe.safety.beliefs import Beliefs, believed

MOMENTS = 6
"""Moments at which a plane is shown."""
LIKELY = 0.25
"""Risk up to which a target is drawn as one that likely keeps all limits. At first, it is about a half."""
_CELLS = (48, 36)  # of a plane, across and upwards
_MOST_AXES = 3  # with more there are too many planes to look at
_SHARE = 0.2  # of delta: what is operated under the promise "trial" has at most this risk


@dataclass(frozen=True, eq=False)
class Plane:
    """Two axes of the targets; along all others it goes through the target in focus."""

    problem: Problem
    axes: tuple[int, int]
    """Across, and upwards."""
    focus: Point

    @property
    def names(self) -> tuple[str, str]:
        return self.problem.names[self.axes[0]], self.problem.names[self.axes[1]]

    def ends(self, which: int) -> tuple[float, float]:
        """Return the ends of the plane, across (0) or upwards (1), raw units."""
        axis = self.axes[which]
        return float(self.problem.low[axis]), float(self.problem.low[axis] + self.problem.extents[axis])

    def place(self, point: Point) -> tuple[float, float]:
        """Return where a target lies, raw units."""
        return point[self.axes[0]], point[self.axes[1]]

    @cached_property
    def points(self) -> Float[np.ndarray, "m d"]:
        """The middles of its cells row by row from below, or the listed targets; every axis from 0 to 1."""
        if self.problem.listed is not None:
            return self.problem.listed
        u, v = ((np.arange(count) + 0.5) / count for count in _CELLS)
        Z = np.repeat(self.problem.scaled([self.focus]), len(u) * len(v), axis=0)
        Z[:, self.axes[0]], Z[:, self.axes[1]] = np.tile(u, len(v)), np.repeat(v, len(u))
        return Z

    def risks(self, beliefs: Beliefs) -> Float[np.ndarray, " m"]:
        """Return the probability that a mean cost of each point exceeds its limit, as is believed at some time."""
        return beliefs.model.expect(self.points).risks()

    def grid(self, values: Shaped[np.ndarray, " m"]) -> Shaped[np.ndarray, "h w"]:
        """Return values at the cells as rows from below."""
        return values.reshape(_CELLS[1], _CELLS[0])


@dataclass(frozen=True, eq=False)
class Moment:
    """What was believed after some trial."""

    trial: int
    beliefs: Beliefs

    @property
    def name(self) -> str:
        return f"after trial {self.trial}"


def planes(reading: Reading) -> tuple[Plane, ...]:
    """Return the planes to show: none with one axis, or with more than three."""
    problem = reading.problem
    count = len(problem.names)
    if not 2 <= count <= _MOST_AXES or (problem.targets is not None and count > 2):
        return ()
    pairs: Iterable[tuple[int, int]] = combinations(range(count), 2)
    if problem.asks_for_returns:
        pairs = [(0, 1 + k) for k in range(len(problem.limits))]
    return tuple(Plane(problem, pair, reading.focus) for pair in pairs)


def small_risk(problem: Problem) -> float:
    """Return the risk up to which a target is drawn as safe: what is operated under "trial" has at most this."""
    return _SHARE * problem.delta


def moments_shown(reading: Reading, count: int = MOMENTS) -> tuple[Moment, ...]:
    """Return the moments at which planes are shown: close together in the beginning, and the end."""
    told = [i for i, record in enumerate(reading.records) if isinstance(record.event, e.Told)]
    if not told:
        return ()
    steps = np.geomspace(1, len(told), count) if count > 1 else np.array([len(told)])
    chosen = sorted({round(float(step)) - 1 for step in steps})
    found = []
    for at in chosen:
        event = reading.records[told[at]].event
        assert isinstance(event, e.Told)
        is_last = at == len(told) - 1  # what came later, in operation say, is believed in the end
        beliefs = reading.beliefs if is_last else believed(reading.records[: told[at] + 1])
        found.append(Moment(event.trial, beliefs))
    return tuple(found)
