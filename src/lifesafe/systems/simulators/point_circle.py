"""PointCircle: the embedded default task, a point that is paid for circling where it must not always be.

A point with mass and friction is pushed around in a square arena. It earns its speed along a circle (clockwise),
divided by one plus its distance from that circle, and pays a cost of 1 for every step that it spends in the strips
|x| > 5. Half of the circle lies in the strips, so the fastest way round and the safe way round differ: reward and
cost of the Circle tasks of Bullet-Safety-Gym, with nothing to install and thousands of episodes a second.

Notation, all arrays with one row per episode:
    p, v    position (m) and velocity (m/s), two columns each
    a       action, the push as a fraction of FORCE, two columns
    w       gust, a random push (N) that is new in every step
    m, c    mass (kg) and friction (kg/s)

    v' = (v + DT (FORCE a + w) / m) / (1 + DT c / m)        friction implicitly, so that no c makes it unstable
    p' = p + DT v'                                          stopped at the walls
    reward = 0.1 (y' vx' - x' vy') / (1 + | |p'| - RADIUS |),    cost = 1 if |x'| > STRIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lifesafe._random import generator
from lifesafe.errors import ConfigError
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Rows, Step

HORIZON = 200
DT = 0.2  # s
FORCE = 4.0  # N
RADIUS = 7.0  # m, of the circle
STRIP = 5.0  # m, where the forbidden strips begin
WALL = 10.0  # m, where the arena ends
MASS = 1.0  # kg, without payload
START = (2.0, 4.0)  # m, distance from the middle at the start
POSITION_SCALE, VELOCITY_SCALE = 0.1, 0.2  # of what is seen

TASK = Task(
    name="PointCircle",
    make="lifesafe.systems.simulators.point_circle:make",
    vector="lifesafe.systems.simulators.point_circle:PointCircle",
    scripted="lifesafe.systems.simulators.behaviors:collect",
    observations=5,
    actions=2,
    horizon=HORIZON,
    reference=(20.06977, 547.21206),
    cost="1 in each step that ends at |x| > 5",
    summary="A point circles clockwise, half of the circle in forbidden strips; nothing to install.",
)


@dataclass(frozen=True, kw_only=True)
class Physics:
    """What may change between one day and the next: set `PointCircle.physics` to another one to make it drift."""

    friction: float = 0.8
    """Friction in kg/s, on average over episodes."""
    friction_spread: float = 0.1
    """Each episode has its own friction, drawn evenly within this fraction of it."""
    payload: float = 0.0
    """Mass in kg on top of the point's own 1 kg."""
    gust: float = 0.4
    """Standard deviation in N, along each axis, of the random push in every step."""
    sensor_bias: tuple[float, float] = (0.0, 0.0)
    """How much too large the position is seen, in m, along x and y."""

    def __post_init__(self) -> None:
        for name in ("friction", "payload", "gust"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ConfigError(f"{name} must be finite and not negative; got {getattr(self, name)}.")
        if not 0 <= self.friction_spread <= 1:
            raise ConfigError(f"friction_spread is a fraction from 0 to 1; got {self.friction_spread}.")
        if len(self.sensor_bias) != 2 or not np.isfinite(self.sensor_bias).all():
            raise ConfigError(f"sensor_bias is one finite number for x and one for y; got {self.sensor_bias}.")


class PointCircle(Rows):
    """Many points, each in an arena of its own, all stepped at once (a `Vector`).

    What is seen of a point: 0.1 p, 0.2 v and 0.1 (|p| - RADIUS), five numbers.

    Attributes:
        horizon: Steps after which an episode is cut off.
        physics: What the next step and the next reset obey; set another one at any time.

    Examples:
        >>> points = PointCircle(3)
        >>> points.reset(np.arange(3), seeds=[0, 1, 2]).shape
        (3, 5)
        >>> points.step(np.array([0, 2]), np.zeros((2, 2))).costs.shape
        (2, 1)
    """

    horizon = HORIZON

    def __init__(self, size: int, physics: Physics | None = None) -> None:
        super().__init__(TASK, size)
        self.physics = Physics() if physics is None else physics
        self._position = np.zeros((size, 2))
        self._velocity = np.zeros((size, 2))
        self._slippery = np.zeros(size)  # where in the spread of frictions the episode is, from -1 to 1
        self._gusts = np.zeros((size, HORIZON, 2))  # drawn at reset: what other rows do then changes nothing

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float[np.ndarray, "m 5"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        self._begin(rows, seeds)
        for row, seed in zip(rows, seeds, strict=True):
            random = generator(int(seed), "PointCircle")
            angle, distance = random.uniform(0, 2 * np.pi), random.uniform(*START)
            self._position[row] = distance * np.cos(angle), distance * np.sin(angle)
            self._slippery[row] = random.uniform(-1, 1)
            random.standard_normal(out=self._gusts[row])
        self._velocity[rows] = 0.0
        return self._seen(rows)

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m 2"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped.

        Raises:
            ConfigError: If a row has no episode under way, or the actions have the wrong shape.
            EpisodeError: If an action is not finite.
        """
        pushes = self._check(rows, actions).astype(np.float64)
        gusts = self._gusts[rows, self._steps[rows]]
        physics = self.physics
        mass = MASS + physics.payload
        friction = physics.friction * (1 + physics.friction_spread * self._slippery[rows, None])
        force = FORCE * pushes + physics.gust * gusts
        velocity = (self._velocity[rows] + DT / mass * force) / (1 + DT / mass * friction)
        free = self._position[rows] + DT * velocity
        position = np.clip(free, -WALL, WALL)
        velocity[position != free] = 0.0
        self._position[rows], self._velocity[rows] = position, velocity
        never = np.zeros(len(rows), dtype=bool)
        return Step(
            observations=self._seen(rows),
            rewards=reward(position, velocity),
            costs=(np.abs(position[:, :1]) > STRIP).astype(np.float64),
            terminated=never,
            truncated=self._end(rows, never, never),
        )

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""

    def _seen(self, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m 5"]:
        position = self._position[rows] + np.asarray(self.physics.sensor_bias)
        off = norm(position) - RADIUS
        seen = [POSITION_SCALE * position, VELOCITY_SCALE * self._velocity[rows], POSITION_SCALE * off]
        return np.hstack(seen).astype(np.float32)


def reward(position: Float[np.ndarray, "m 2"], velocity: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, " m"]:
    """Return what a step earns that ends there at that speed."""
    along = position[:, 1] * velocity[:, 0] - position[:, 0] * velocity[:, 1]
    rewards: Float[np.ndarray, " m"] = 0.1 * along / (1 + np.abs(norm(position)[:, 0] - RADIUS))
    return rewards


def norm(vectors: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 1"]:
    """Return the length of each vector."""
    # Only correctly rounded operations: the same row gives the same bits in any batch.
    lengths: Float[np.ndarray, "m 1"] = np.sqrt(vectors[:, :1] ** 2 + vectors[:, 1:] ** 2)
    return lengths


def make(**physics: Any) -> Any:
    """Return one point as a Gymnasium environment, whose step gives `info["cost"]`.

    Its attribute `points` is the `PointCircle` behind it, to set other physics later.

    Args:
        physics: Fields of `Physics` that are not as usual.
    """
    return _environment_class()(Physics(**physics))


@cache
def _environment_class() -> Any:
    import gymnasium  # here: thousands of points need no Gymnasium, and importing it takes longer than driving them

    class SinglePointCircle(gymnasium.Env[np.ndarray, np.ndarray]):
        """One row of `PointCircle`; the same seed gives the same episode."""

        def __init__(self, physics: Physics) -> None:
            self.observation_space = gymnasium.spaces.Box(-1000.0, 1000.0, (5,), np.float32)
            self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
            self.points = PointCircle(1, physics)
            self._row = np.arange(1)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            episode = int(self.np_random.integers(2**31)) if seed is None else seed
            return self.points.reset(self._row, [episode])[0], {}

        def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            step = self.points.step(self._row, np.asarray(action, dtype=np.float64)[None])
            info = {"cost": float(step.costs[0, 0])}
            return step.observations[0], float(step.rewards[0]), False, bool(step.truncated[0]), info

    return SinglePointCircle
