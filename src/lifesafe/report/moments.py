"""What was believed at some moments of a run, as plain numbers: charts draw these and never ask the posterior."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float, Shaped

from lifesafe.journal import events as e
from lifesafe.journal.events import Point
from lifesafe.journal.store import Record
from lifesafe.safety import Problem
from lifesafe.safety.posterior import Model

LIKELY = 0.25
"""Risk up to which a target is drawn as one that likely keeps all limits. At first, it is about a half."""
_MOMENTS = 6
_CELLS = (48, 36)  # of a plane, across and upwards
_MOST_AXES = 3  # with more there are too many planes to look at
_SHARE = 0.2  # of delta: what is operated under the promise "trial" has at most this risk
_POINTS = 60  # of a line
_LEVELS = (0.05, 0.95)  # quantiles of a mean cost along a line


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

    def grid(self, values: Shaped[np.ndarray, " m"]) -> Shaped[np.ndarray, "h w"]:
        """Return values at the cells as rows from below."""
        return values.reshape(_CELLS[1], _CELLS[0])


@dataclass(frozen=True, eq=False)
class Moment:
    """What was believed after some trial."""

    trial: int
    """Its number; 0 before the first."""
    best: Point | None
    """Target to operate; in the end, the one of now."""
    searched: int
    served: int
    spent: float
    """Risk charged."""
    certified: int
    risks: tuple[Float[np.ndarray, " m"], ...] = ()
    """For each plane, the probability at each of its points that a mean cost exceeds its limit."""

    @property
    def name(self) -> str:
        return f"after trial {self.trial}" if self.trial else "before the first trial"


@dataclass(frozen=True, eq=False)
class Line:
    """What is believed in the end along one axis, through the target in focus; raw units."""

    axis: int
    x: Float[np.ndarray, " p"]
    reward: Float[np.ndarray, " p"]
    sd: Float[np.ndarray, " p"]
    """Standard deviation of that mean."""
    costs: dict[int, tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]]
    """5 and 95 % quantiles of each mean cost; none of a cost that cannot exceed its limit."""


def planes_of(problem: Problem, focus: Point) -> tuple[Plane, ...]:
    """Return the planes to show: none with one axis, or with more than three."""
    count = len(problem.names)
    if not 2 <= count <= _MOST_AXES or (problem.targets is not None and count > 2):
        return ()
    pairs: Iterable[tuple[int, int]] = combinations(range(count), 2)
    if problem.asks_for_returns:
        pairs = [(0, 1 + k) for k in range(len(problem.limits))]
    return tuple(Plane(problem, pair, focus) for pair in pairs)


def lines_of(problem: Problem, focus: Point, model: Model) -> tuple[Line, ...]:
    """Return the lines along every axis; none if only listed targets may be tried."""
    if problem.targets is not None:
        return ()
    low, high = problem.rewards  # type: ignore[misc]  # made so by the problem
    u = np.linspace(0.0, 1.0, _POINTS)
    lines = []
    for axis in range(len(problem.names)):
        Z = np.repeat(problem.scaled([focus]), _POINTS, axis=0)
        Z[:, axis] = u
        found = model.expect(Z)
        bands = found.quantiles(_LEVELS) * np.array(problem.limits)
        costs = {k: (bands[0, :, k], bands[1, :, k]) for k, cost in enumerate(model.costs) if cost is not None}
        x = problem.low[axis] + u * problem.extents[axis]
        lines.append(Line(axis, x, low + (high - low) * found.reward, (high - low) * found.reward_sd, costs))
    return tuple(lines)


def moments_at(records: Sequence[Record]) -> frozenset[int]:
    """Return the trials after which moments are shown: close together in the beginning, and the last."""
    told = [record.event.trial for record in records if isinstance(record.event, e.Told)]
    steps = np.geomspace(1, len(told), _MOMENTS) if told else ()
    return frozenset(told[round(float(step)) - 1] for step in steps)


def small_risk(problem: Problem) -> float:
    """Return the risk up to which a target is drawn as safe: what is operated under "trial" has at most this."""
    return _SHARE * problem.delta
