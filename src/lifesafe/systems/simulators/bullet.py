"""The Run and Circle tasks of Bullet-Safety-Gym, as data.

*Run*: progress along x is paid; a step costs 1 if it ends faster than allowed or outside |y| <= 2.
*Circle*: speed along a circle of radius 7 (clockwise) is paid, less the farther from the circle; a step costs 1 if it
ends outside |x| <= 6, where a good part of the circle lies.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from lifesafe._optional import require
from lifesafe.errors import DependencyError
from lifesafe.systems.task import Box, Task


@dataclass(frozen=True)
class Bullet:
    """Makes an environment of Bullet-Safety-Gym that obeys the seeds it is reset with."""

    task: str
    """Its name, without what Bullet-Safety-Gym puts around it: CarCircle, say."""

    def __call__(self) -> Any:
        """Return a new Gymnasium environment."""
        gymnasium = require("gymnasium", name="Gymnasium", extra="bullet", user=f"Task {self.task!r}")
        for module in ("pybullet", "bullet_safety_gym"):
            # Not `require`: the extra cannot install Bullet-Safety-Gym, which asks for a Gymnasium of long ago.
            if importlib.util.find_spec(module) is None:
                raise DependencyError(
                    f"Task {self.task!r} needs Bullet-Safety-Gym:"
                    ' pip install "lifesafe[bullet]", then'
                    " pip install --no-deps bullet-safety-gym==1.4.0.",
                    name=module,
                )
        from lifesafe.systems._wrappers import SeededBullet, lent_to_numpy

        # Box compares its bounds with those of float64 in float32, which overflows; harmless, and so is all it prints.
        with _silence(), np.errstate(over="ignore"):
            importlib.import_module("bullet_safety_gym")
            with _plain_client(), lent_to_numpy(np.random.RandomState(0)):  # building draws, too
                environment = gymnasium.make(f"Safety{self.task}-v0", disable_env_checker=True)
        _ask_once(environment.unwrapped)
        return SeededBullet(environment)


@contextlib.contextmanager
def _plain_client() -> Iterator[None]:
    """Let Bullet-Safety-Gym build its world without the meshes that are only looked at: 30 to 100 times faster."""
    builder: Any = importlib.import_module("bullet_safety_gym.envs.builder")
    usual = builder.bullet_client
    builder.bullet_client = SimpleNamespace(BulletClient=_client_class())
    try:
        yield
    finally:
        builder.bullet_client = usual


@cache
def _client_class() -> type:
    pybullet: Any = importlib.import_module("pybullet")
    client_class: Any = importlib.import_module("pybullet_utils.bullet_client").BulletClient
    functions = {name: value for name, value in vars(pybullet).items() if inspect.isbuiltin(value)}

    class PlainClient(client_class):  # type: ignore[misc]
        """PyBullet's client, but it looks functions up once instead of at every call, and counts what moves bodies."""

        def __init__(self, connection_mode: int) -> None:
            super().__init__(connection_mode=connection_mode)
            self.moves = 0
            for name in functions.keys() - {"loadURDF", "disconnect"}:
                function = functools.partial(functions[name], physicsClientId=self._client)
                setattr(self, name, self._counted(function) if name in _MOVING else function)

        def loadURDF(self, *args: Any, flags: int = 0, **kwargs: Any) -> Any:  # noqa: N802 - PyBullet's name
            flags |= pybullet.URDF_IGNORE_VISUAL_SHAPES
            return functions["loadURDF"](*args, flags=flags, physicsClientId=self._client, **kwargs)

        def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
            def counting(*args: Any, **kwargs: Any) -> Any:
                self.moves += 1
                return function(*args, **kwargs)

            return counting

    return PlainClient


_MOVING = {
    "stepSimulation", "restoreState", "resetBasePositionAndOrientation", "resetBaseVelocity", "resetJointState",
    "resetJointStateMultiDof", "resetJointStatesMultiDof", "resetSimulation",
}  # fmt: skip


def _ask_once(builder: Any) -> None:
    """Let PyBullet be asked for the state of the robot once a step instead of ten times."""

    def remembered(get_state: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
        moves, state = -1, np.empty(0)

        def recall() -> np.ndarray:
            nonlocal moves, state
            if moves != builder.bc.moves:
                moves, state = builder.bc.moves, get_state()
                state.flags.writeable = False  # it is handed out more than once
            return state

        return recall

    for body in (builder.agent, builder.agent.root_link):
        if body is not None:  # the Ball has no links
            body.get_state = remembered(body.get_state)
    builder.agent.violates_constraints = lambda violates: None  # which only paints a red sphere


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Send what is printed, in Python or in C, nowhere: PyBullet greets on import and comments on models."""
    with contextlib.ExitStack() as stack:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
            with contextlib.suppress(OSError):  # a service may have closed it
                kept = os.dup(number)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, number)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)
        # Bullet-Safety-Gym asks these for their file descriptors, which notebooks do not have.
        nowhere_stream = stack.enter_context(open(os.open(os.devnull, os.O_WRONLY), "w"))
        stack.enter_context(contextlib.redirect_stdout(nowhere_stream))
        stack.enter_context(contextlib.redirect_stderr(nowhere_stream))
        yield


_SPEEDS = {"Ant": 1.5, "Ball": 2.5, "Car": 1.5, "Drone": 1.5}
_SIZES = {"Ant": (33, 8), "Ball": (7, 2), "Car": (7, 2), "Drone": (17, 4)}


def _task(
    robot: str,
    kind: str,
    horizon: int,
    *,
    file: str,
    reference: tuple[float, float],
    start: tuple[float, float] | None = None,
) -> Task:
    observations, actions = _SIZES[robot]
    run = kind == "Run"
    return Task(
        name=f"{robot}{kind}",
        make=Bullet(f"{robot}{kind}"),
        observations=observations if run else observations + 1,
        actions=actions,
        horizon=horizon,
        reference=reference,
        dataset_file=f"Safety{robot}{kind}-v0-{file}.hdf5",
        start=None if start is None else Box(reward=start, cost=(0.0, 5.0)),
        cost=f"1 if faster than {_SPEEDS[robot]} m/s or |y| > 2 m" if run else "1 if |x| > 6 m",
        summary=f"Bullet: {robot} runs straight on, not too fast"
        if run
        else f"Bullet: {robot} runs in a circle between two lines",
    )


TASKS = (
    _task(
        "Ant", "Run", 200,
        # NOTE: the lowest return is a slip of DSRL (its CarButton2 has the same); kept, since all tables use it.
        file="150-1816", reference=(0.001767391717990563, 955.4818725585938), start=(700.0, 750.0),
    ),
    _task(
        "Ant", "Circle", 500,
        file="200-5728", reference=(0.0177031010389328, 460.7091979980469), start=(250.0, 300.0),
    ),
    _task(
        "Car", "Circle", 300,
        file="100-1450", reference=(3.484419822692871, 534.3060913085938), start=(400.0, 475.0),
    ),
    _task(
        "Drone", "Run", 200,
        file="140-1990", reference=(10.557029724121094, 682.8330078125), start=(400.0, 450.0),
    ),
    _task(
        "Drone", "Circle", 300,
        file="100-1923", reference=(207.794189453125, 996.38916015625), start=(700.0, 720.0),
    ),
    _task("Ball", "Run", 100, file="80-940", reference=(26.339754104614258, 1327.445556640625)),
    _task("Ball", "Circle", 200, file="80-886", reference=(0.38312244415283203, 881.46337890625)),
    _task("Car", "Run", 200, file="40-651", reference=(204.28726196289062, 574.6533203125)),
)  # fmt: skip
