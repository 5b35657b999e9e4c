"""The velocity tasks, step by step against their definitions."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import DependencyError
from lifesafe.systems import Task, task
from lifesafe.systems.simulators.velocity import TASKS

SPEEDS = {"Ant": 2.6222, "HalfCheetah": 3.2096, "Hopper": 0.7402, "Walker2d": 2.3415, "Swimmer": 0.2282}
SECONDS = {"Ant": 0.05, "HalfCheetah": 0.05, "Hopper": 0.008, "Walker2d": 0.008, "Swimmer": 0.04}
ALIVE = {"Ant": 1.0, "HalfCheetah": 0.0, "Hopper": 1.0, "Walker2d": 1.0, "Swimmer": 0.0}
EFFORT = {"Ant": 0.5, "HalfCheetah": 0.1, "Hopper": 1e-3, "Walker2d": 1e-3, "Swimmer": 1e-4}


def place(robot: str, environment: Any) -> np.ndarray:
    """Return where the simulator has the robot, in the plane."""
    data = environment.unwrapped.data
    return (data.body("torso").xpos if robot == "Ant" else data.qpos)[:2].copy()


def healthy(robot: str, environment: Any) -> bool:
    """Return whether the robot is up, by the rules of its version 4."""
    data = environment.unwrapped.data
    if robot == "Ant":
        return bool(np.isfinite(data.qpos).all() and 0.2 <= data.qpos[2] <= 1.0)
    if robot == "Hopper":
        state = np.concatenate([data.qpos[2:], data.qvel])
        return bool(data.qpos[1] > 0.7 and abs(data.qpos[2]) < 0.2 and (np.abs(state) < 100).all())
    if robot == "Walker2d":
        return bool(0.8 < data.qpos[1] < 2.0 and abs(data.qpos[2]) < 1.0)
    return True


@pytest.mark.parametrize("robot", SPEEDS)
def test_rewards_costs_and_ends_follow_their_definitions(robot: str) -> None:
    environment = task(f"{robot}Velocity").environment()
    random = np.random.default_rng(0)
    costs, ends = [], 0
    environment.reset(seed=0)
    # What is needed to see both kinds of steps: a push from outside, since random actions go nowhere.
    for _ in range(150):
        environment.unwrapped.data.qvel[0] += random.uniform(-0.5, 1.5) * SPEEDS[robot] * 0.5
        before = place(robot, environment)
        action = random.uniform(-1, 1, environment.action_space.shape).astype(np.float32)
        _, reward, terminated, _, info = environment.step(action)
        velocity = (place(robot, environment) - before) / SECONDS[robot]
        speed = np.linalg.norm(velocity) if robot == "Ant" else velocity[0]
        effort = EFFORT[robot] * np.square(action.astype(np.float64)).sum()
        # Version 4 pays for being alive in the last step, too.
        assert reward == pytest.approx(velocity[0] + ALIVE[robot] - effort, abs=1e-5)
        assert info["cost"] == float(speed > SPEEDS[robot])
        assert terminated == (not healthy(robot, environment))
        costs.append(info["cost"])
        if terminated:
            ends += 1
            environment.reset(seed=ends)
    assert set(costs) == {0.0, 1.0}
    assert (ends > 0) == (robot in ("Ant", "Hopper", "Walker2d"))
    environment.close()


def test_going_backward_fast_costs_nothing() -> None:
    make: Any = task("HopperVelocity").make
    assert make.too_fast({"x_velocity": np.array([-5.0, 0.7402, 0.7403])}).tolist() == [False, False, True]


def test_an_ant_is_as_fast_as_it_moves_in_the_plane() -> None:
    make: Any = task("AntVelocity").make
    assert make.too_fast({"x_velocity": -2.0, "y_velocity": 2.0}).tolist() is True
    assert make.too_fast({"x_velocity": -1.0, "y_velocity": 2.0}).tolist() is False


def test_making_one_prints_nothing_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in TASKS:
        each.environment().close()
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("each", TASKS, ids=lambda each: each.name)
def test_the_time_limit_is_a_truncation(each: Task) -> None:
    environment = each.environment()
    assert environment.spec.max_episode_steps == 1000
    environment.close()


def test_a_missing_simulator_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(
        DependencyError, match=r"""Task 'HopperVelocity' needs MuJoCo: pip install "lifesafe\[mujoco\]"""
    ):
        task("HopperVelocity").environment()
