"""The velocity tasks: their costs as defined."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import DependencyError
from lifesafe.systems import task
from lifesafe.systems.simulators.velocity import TASKS

SPEEDS = {"Ant": 2.6222, "HalfCheetah": 3.2096, "Hopper": 0.7402, "Walker2d": 2.3415, "Swimmer": 0.2282}
SECONDS = {"Ant": 0.05, "HalfCheetah": 0.05, "Hopper": 0.008, "Walker2d": 0.008, "Swimmer": 0.04}


def place(robot: str, environment: Any) -> np.ndarray:
    """Return where the simulator has the robot, in the plane."""
    data = environment.unwrapped.data
    return (data.body("torso").xpos if robot == "Ant" else data.qpos)[:2].copy()


@pytest.mark.parametrize("robot", SPEEDS)
def test_costs_follow_their_definition(robot: str) -> None:
    environment = task(f"{robot}Velocity").environment()
    random = np.random.default_rng(0)
    costs = []
    environment.reset(seed=0)
    # What is needed to see both kinds of steps: a push from outside, since random actions go nowhere.
    for _ in range(150):
        environment.unwrapped.data.qvel[0] += random.uniform(-0.5, 1.5) * SPEEDS[robot] * 0.5
        before = place(robot, environment)
        action = random.uniform(-1, 1, environment.action_space.shape).astype(np.float32)
        _, _, terminated, _, info = environment.step(action)
        velocity = (place(robot, environment) - before) / SECONDS[robot]
        speed = np.linalg.norm(velocity) if robot == "Ant" else velocity[0]
        assert info["cost"] == float(speed > SPEEDS[robot])
        costs.append(info["cost"])
        if terminated:
            environment.reset(seed=len(costs))
    assert set(costs) == {0.0, 1.0}
    environment.close()


def test_the_speed_is_signed_along_x_but_for_the_ant_in_the_plane() -> None:
    hopper, ant = (task(f"{robot}Velocity").make for robot in ("Hopper", "Ant"))
    assert hopper.too_fast({"x_velocity": np.array([-5.0, 0.7402, 0.7403])}).tolist() == [False, False, True]
    sideways = {"x_velocity": np.array([-2.0, -1.0]), "y_velocity": np.array([2.0, 2.0])}
    assert ant.too_fast(sideways).tolist() == [True, False]


def test_making_one_prints_nothing_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in TASKS:
        each.environment().close()
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_missing_simulator_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(
        DependencyError, match=r"""Task 'HopperVelocity' needs MuJoCo: pip install "lifesafe\[mujoco\]"""
    ):
        task("HopperVelocity").environment()
