"""Scripted behaviors for PointCircle: logs in a second.

A behavior chases a point that runs ahead of it on a circle. Each time it comes to a strip it either follows the
circle through it (boldly) or drives straight along the strip's edge. Eight numbers make drivers of every kind, from
hesitant to excellent, so a thousand of them drawn at random fill the cost-reward plane as real logs do: dense where
middling drivers are, sparse near the best. The numbers differ from episode to episode and the noise is white: noise
that lasts over steps would teach a policy that sees its past actions to repeat the last one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe._random import generator, integer
from lifesafe.data.dataset import Dataset
from lifesafe.errors import ConfigError
from lifesafe.returns import Returns
from lifesafe.systems.simulators.point_circle import (
    FORCE,
    HORIZON,
    POSITION_SCALE,
    VELOCITY_SCALE,
    Physics,
    PointCircle,
    norm,
)
from lifesafe.systems.vector import clip

_FRICTION = Physics().friction / FORCE  # push that holds a speed of 1 m/s


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """A driver of PointCircle; as a policy it ignores the targets."""

    radius: float = 7.1
    """Radius in m of the circle that is followed."""
    lead: float = 0.35
    """How far the chased point runs ahead, in radians."""
    speed: float = 4.6
    """Speed in m/s that is aimed at."""
    gain: float = 1.0
    """Push for each m/s that the speed is off."""
    edge: float = 4.9
    """Largest |x| in m of the chased point while careful."""
    swing: float = 0.03
    """How far it swings out before a corner while careful, and in after it, as a fraction of the radius."""
    boldness: float = 1.0
    """Probability of following the circle through a strip, drawn anew for each strip that is come to."""
    noise: float = 0.0
    """Standard deviation of the white noise on each push."""

    def actor(self, targets: Sequence[Returns], seed: int = 0) -> Driver:
        """Return an actor with one row per target; the seed decides its noise and when it is bold."""
        return Driver([self] * len(targets), [integer(seed, "actor", row) for row in range(len(targets))])


class Driver:
    """Acts out one behavior per row (an `Actor`).

    Args:
        behaviors: What each row does.
        seeds: One per row; it decides the row's noise and when it is bold.
    """

    def __init__(self, behaviors: Sequence[Behavior], seeds: Sequence[int]) -> None:
        if not behaviors or len(behaviors) != len(seeds):
            raise ConfigError(f"Got {len(behaviors)} behaviors and {len(seeds)} seeds; give one seed per behavior.")
        size = len(behaviors)
        self._settings = {
            field.name: np.array([[getattr(behavior, field.name)] for behavior in behaviors], dtype=np.float64)
            for field in dataclasses.fields(Behavior)
            if field.name != "lead"
        }
        # Not NumPy's sine and cosine: their last bit may depend on the place in the array.
        self._lead = np.array([(math.cos(behavior.lead), math.sin(behavior.lead)) for behavior in behaviors])
        self._seeds = list(seeds)
        self._episodes = np.zeros(size, dtype=int)
        self._time = np.zeros(size, dtype=int)
        self._noise = np.zeros((size, HORIZON, 2))
        self._dice = np.zeros((size, HORIZON))
        self._side = np.zeros(size)  # which strip is ahead, -1 or 1
        self._bold = np.zeros(size, dtype=bool)
        self._draw(np.arange(size))

    def act(
        self, observations: Float[np.ndarray, "m o"], rows: Int[np.ndarray, " m"] | None = None
    ) -> Float[np.ndarray, "m 2"]:
        """Return the push of each named row (of all rows if none is named), given what it sees now."""
        rows = np.arange(len(self._seeds)) if rows is None else rows
        seen = observations.astype(np.float64)
        position, velocity = seen[:, :2] / POSITION_SCALE, seen[:, 2:4] / VELOCITY_SCALE
        radius, speed, gain, edge, swing, boldness, noise = (array[rows] for array in self._settings.values())
        self._decide(position[:, 0], boldness[:, 0], rows)
        ahead = _turned(_direction(position), self._lead[rows])
        reach = np.where(self._bold[rows, None], radius, _careful(ahead, radius, edge, swing))
        wanted = speed * _direction(reach * ahead - position)
        push = gain * (wanted - velocity) + _FRICTION * wanted + noise * self._noise[rows, self._time[rows]]
        self._time[rows] += 1
        return clip(push)

    def observe(
        self,
        rewards: Float[np.ndarray, " m"],
        costs: Float[np.ndarray, "m k"],
        rows: Int[np.ndarray, " m"] | None = None,
    ) -> None:
        """Do nothing: a scripted behavior does not look at what it earns."""

    def restart(self, targets: Sequence[Returns], rows: Int[np.ndarray, " m"]) -> None:
        """Begin a new episode in each named row, whatever the target."""
        self._episodes[rows] += 1
        self._draw(rows)

    def _draw(self, rows: Int[np.ndarray, " m"]) -> None:
        for row in rows:
            random = generator(self._seeds[row], "Driver", int(self._episodes[row]))
            random.standard_normal(out=self._noise[row])
            random.random(out=self._dice[row])
        self._time[rows] = 0
        self._side[rows] = 0.0

    def _decide(
        self, x: Float[np.ndarray, " m"], boldness: Float[np.ndarray, " m"], rows: Int[np.ndarray, " m"]
    ) -> None:
        side = np.where(x < 0, -1.0, 1.0)
        changed = side != self._side[rows]
        bold = self._dice[rows, self._time[rows]] < boldness
        self._bold[rows] = np.where(changed, bold, self._bold[rows])
        self._side[rows] = side


def draw(seed: int) -> Behavior:
    """Return a behavior drawn at random from the family."""
    random = generator(seed, "behaviour")  # the tag is part of the data: another spelling, other episodes
    skill = random.beta(2.0, 2.0)
    clumsy = 1 - skill
    return Behavior(
        radius=7.1 + clumsy * random.normal(0, 0.9),
        lead=0.35 + clumsy * random.uniform(0, 0.6),
        speed=4.7 * (1 - clumsy * random.uniform(0, 0.9)),
        gain=random.uniform(0.5, 1.2),
        edge=4.8 + random.normal(0, 0.1 + 0.7 * clumsy),
        swing=random.uniform(0, 0.03),
        boldness=random.beta(0.7, 1.0),
        noise=random.uniform(0, 0.2 + 0.6 * clumsy),
    )


def collect(episodes: int = 1500, *, seed: int = 0, physics: Physics | None = None) -> Dataset:
    """Return so many episodes of PointCircle, each by a behavior drawn at random.

    Episode i depends on the seed and on i only, so a smaller dataset is the beginning of a larger one.

    Args:
        episodes: How many; a thousand take about a second.
        seed: Decides everything that is random.
        physics: The physics of the point, if not the ordinary ones.

    Examples:
        >>> collect(2, seed=0)
        Dataset(2 episodes, 400 transitions, 5 observations, 2 actions, 1 costs)
    """
    if episodes < 1:
        raise ConfigError(f"A dataset needs at least one episode; got episodes = {episodes}.")
    seeds = [integer(seed, "collect", episode) for episode in range(episodes)]
    return drive([draw(seed) for seed in seeds], seeds, physics)


def drive(behaviors: Sequence[Behavior], seeds: Sequence[int], physics: Physics | None = None) -> Dataset:
    """Return one episode of PointCircle per behavior; its seed decides everything in it that is random."""
    rows = np.arange(len(behaviors))
    driver, points = Driver(behaviors, seeds), PointCircle(len(behaviors), physics)
    observations = np.empty((len(rows), HORIZON + 1, 5), dtype=np.float32)
    actions = np.empty((len(rows), HORIZON, 2), dtype=np.float32)
    rewards, costs = np.empty((2, len(rows), HORIZON), dtype=np.float32)
    observations[:, 0] = points.reset(rows, seeds)
    for time in range(HORIZON):
        actions[:, time] = driver.act(observations[:, time])
        step = points.step(rows, actions[:, time])
        observations[:, time + 1], rewards[:, time], costs[:, time] = step.observations, step.rewards, step.costs[:, 0]
    return Dataset(
        observations=observations[:, :-1].reshape(-1, 5),
        actions=actions.reshape(-1, 2),
        rewards=rewards.reshape(-1),
        costs=costs.reshape(-1, 1),
        next_observations=observations[:, 1:].reshape(-1, 5),
        terminated=np.zeros(len(rows), dtype=bool),
        offsets=np.arange(len(rows) + 1) * HORIZON,
    )


def _careful(
    ahead: Float[np.ndarray, "m 2"],
    radius: Float[np.ndarray, "m 1"],
    edge: Float[np.ndarray, "m 1"],
    swing: Float[np.ndarray, "m 1"],
) -> Float[np.ndarray, "m 1"]:
    """Return how far from the middle, in each direction ahead, the way lies that stays out of the strips."""
    x, y = ahead[:, :1], ahead[:, 1:]
    four = 4 * x * y * (x**2 - y**2)  # the sine of four times the angle: lowest before a corner, highest after it
    way: Float[np.ndarray, "m 1"] = np.minimum(radius * (1 - swing * four), edge / np.maximum(np.abs(x), 1e-9))
    return way


def _direction(vectors: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 2"]:
    directions: Float[np.ndarray, "m 2"] = vectors / np.maximum(norm(vectors), 1e-9)
    return directions


def _turned(vectors: Float[np.ndarray, "m 2"], angle: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 2"]:
    """Return the vectors turned clockwise by angles given as cosine and sine."""
    x, y, cosine, sine = vectors[:, :1], vectors[:, 1:], angle[:, :1], angle[:, 1:]
    return np.hstack([cosine * x + sine * y, cosine * y - sine * x])
