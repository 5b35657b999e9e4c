"""PointCircle and Hopper with changed physics: a system that is not the one that was logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lifesafe.environments import Task
from lifesafe.environments.point_circle import Physics, PointCircle
from lifesafe.environments.velocity import Velocity

PHYSICS = {
    "friction 0.8 to 0.6 kg/s": Physics(friction=0.6),
    "friction 0.8 to 0.32 kg/s": Physics(friction=0.32),
    "payload 0.2 kg": Physics(payload=0.2),
    "payload 0.5 kg": Physics(payload=0.5),
    "position seen 0.3 m too far left": Physics(sensor_bias=(-0.3, 0.0)),
    "position seen 0.6 m too far left": Physics(sensor_bias=(-0.6, 0.0)),
}

MILD = {
    "friction 0.8 to 0.7 kg/s": Physics(friction=0.7),
    "friction 0.8 to 0.95 kg/s": Physics(friction=0.95),
    "payload 0.1 kg": Physics(payload=0.1),
    "position seen 0.3 m too far left": Physics(sensor_bias=(-0.3, 0.0)),
    "gusts 0.4 to 0.8 N": Physics(gust=0.8),
}
"""Under these some targets stay safe."""


@dataclass(frozen=True)
class Changed:
    """Makes a Hopper that is not the one it was."""

    ordinary: Velocity
    friction: float = 1.0
    """Factor on the friction of everything."""
    payload: float = 0.0
    """Added to the mass of the torso, as a fraction of it."""
    bias: float = 0.0
    """How much too slow it sees itself run, in m/s."""

    def __call__(self) -> Any:
        import gymnasium

        environment = self.ordinary()
        model = environment.unwrapped.model
        model.geom_friction[:] *= self.friction
        model.body_mass[1] *= 1 + self.payload
        shift = np.zeros(environment.observation_space.shape)
        shift[5] = -self.bias
        return gymnasium.wrappers.TransformObservation(
            environment, lambda seen: seen + shift, environment.observation_space
        )


HOPPER: dict[str, dict[str, float]] = {
    "friction halved": {"friction": 0.5},
    "torso 20 % heavier": {"payload": 0.2},
    "speed seen 0.2 m/s too low": {"bias": 0.2},
}
MORE_HOPPER: dict[str, dict[str, float]] = {
    "friction half as much again": {"friction": 1.5},
    "speed seen 0.05 m/s too low": {"bias": 0.05},
}


def changes(
    known: Task, physics: Mapping[str, Physics] = PHYSICS, hopper: Mapping[str, Mapping[str, float]] = HOPPER
) -> Iterator[tuple[str, Task]]:
    """Give the same task after one change after the other."""
    if known.name == "PointCircle":
        for name, each in physics.items():
            yield name, replace(known, vector=partial(PointCircle, physics=each))
    elif known.name == "HopperVelocity" and isinstance(known.make, Velocity):
        for name, change in hopper.items():
            yield name, replace(known, make=Changed(known.make, **change), envpool=None)
    else:
        raise SystemExit(f"No changes are known for {known.name}; give a run of PointCircle or HopperVelocity.")
