"""The velocity tasks: run fast, but not faster than allowed (Safety-Gymnasium, version 1 of each), as data.

They are Gymnasium's MuJoCo environments in version 4, as in the public datasets; a step costs 1 if it was faster
than a fixed speed. Speeds are differences of positions over the time of a step: of the torso in the plane for the
Ant, signed along x for all others (the documentation of Safety-Gymnasium says absolute, its code does not).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped

from lifesafe._optional import require
from lifesafe.systems.task import Box, Task


@dataclass(frozen=True, kw_only=True)
class Velocity:
    """Makes a MuJoCo environment whose steps cost 1 if they are too fast."""

    robot: str
    """What runs: Hopper, say."""
    speed: float
    """Largest speed that costs nothing, in m/s."""
    planar: bool = False
    """Whether the speed is that in the plane, rather than signed along x."""

    def __call__(self) -> Any:
        """Return a new Gymnasium environment."""
        user = f"Task '{self.robot}Velocity'"
        mujoco = require("mujoco", name="MuJoCo", extra="mujoco", user=user)
        gymnasium = require("gymnasium", name="Gymnasium", extra="mujoco", user=user)
        require("gymnasium.envs.mujoco", name="the MuJoCo part of Gymnasium", extra="mujoco", user=user)
        from lifesafe.systems._wrappers import Costly

        with _no_news(mujoco):
            environment = gymnasium.make(f"{self.robot}-v4", disable_env_checker=True)
        return Costly(environment, self._cost)

    def too_fast(self, info: Mapping[str, Any]) -> Bool[np.ndarray, "..."]:
        """Return whether each step was too fast, given the velocities in its info."""
        x: Shaped[np.ndarray, "..."] = np.asarray(info["x_velocity"])
        speed = np.hypot(x, info["y_velocity"]) if self.planar else x
        return np.asarray(speed > self.speed)

    def _cost(self, observation: Any, action: Any, next_observation: Any, info: dict[str, Any]) -> float:
        return float(self.too_fast(info))


@contextmanager
def _no_news(mujoco: Any) -> Iterator[None]:
    """Leave out that version 4 is old and so are its model files, which MuJoCo would also log in a file here."""
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
            yield
    finally:
        mujoco.set_mju_user_warning(handler)


def _task(
    robot: str,
    observations: int,
    actions: int,
    *,
    speed: float,
    file: str,
    reference: tuple[float, float],
    start: tuple[float, float] | None,
    planar: bool = False,
) -> Task:
    return Task(
        name=f"{robot}Velocity",
        make=Velocity(robot=robot, speed=speed, planar=planar),
        observations=observations,
        actions=actions,
        horizon=1000,
        reference=reference,
        dataset_file=f"Safety{robot}VelocityGymnasium-v1-{file}.hdf5",
        start=None if start is None else Box(reward=start, cost=(0.0, 5.0)),
        envpool=f"{robot}-v4",
        cost=f"1 if the {'speed in the plane' if planar else 'velocity along x'} is above {speed} m/s",
        summary=f"MuJoCo: {robot} runs forward, no faster than {speed} m/s",
    )


TASKS = (
    _task(
        "Ant", 27, 8, speed=2.6222, planar=True,
        file="250-2249", reference=(6.1519012451171875, 2976.276611328125), start=(2000.0, 2300.0),
    ),
    _task(
        "HalfCheetah", 17, 6, speed=3.2096,
        # NOTE: the paper prints [200, 2300], most likely for the [2000, 2300] that the Ant has and that is used here.
        file="250-2495", reference=(5.7509765625, 2806.93310546875), start=(2000.0, 2300.0),
    ),
    _task(
        "Hopper", 11, 3, speed=0.7402,
        file="250-2240", reference=(37.05154800415039, 1911.396728515625), start=(1200.0, 1500.0),
    ),
    _task(
        "Walker2d", 17, 6, speed=2.3415,
        file="300-2729", reference=(18.668498992919922, 3418.223876953125), start=(2000.0, 2400.0),
    ),
    _task(
        "Swimmer", 8, 2, speed=0.2282,
        file="200-1686", reference=(0.07114458084106445, 238.95831298828125), start=None,
    ),
)  # fmt: skip
