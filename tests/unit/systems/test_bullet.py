"""The Bullet tasks, step by step against their definitions, and seeded."""

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

from lifesafe.errors import DependencyError
from lifesafe.systems import task
from lifesafe.systems._wrappers import SeededBullet
from lifesafe.systems.simulators.bullet import TASKS, _silence

pytest.importorskip(
    "bullet_safety_gym", reason="PyBullet has no wheels for Python 3.12 and later", exc_type=ImportError
)

NAMES = [each.name for each in TASKS]
SPEEDS = {"Ant": 1.5, "Ball": 2.5, "Car": 1.5, "Drone": 1.5}


def split(name: str) -> tuple[str, str]:
    kind = "Run" if name.endswith("Run") else "Circle"
    return name.removesuffix(kind), kind


def state(environment: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return position and velocity of the robot, asked of PyBullet itself."""
    agent, client = environment.unwrapped.agent, environment.unwrapped.bc
    if agent.root_link is None or agent.root_link.index == -1:
        position, _ = client.getBasePositionAndOrientation(agent.body_id)
        velocity, _ = client.getBaseVelocity(agent.body_id)
    else:
        link = client.getLinkState(agent.body_id, agent.root_link.index, computeLinkVelocity=1)
        position, velocity = link[0], link[6]
    return np.array(position), np.array(velocity)


def own_reward(robot: str, environment: Any, action: np.ndarray) -> float:
    """Return what the robot itself adds to the reward, asked of PyBullet itself."""
    agent, client = environment.unwrapped.agent, environment.unwrapped.bc
    if robot == "Car":
        return 0.0
    if robot == "Ball":
        return float(-0.5 * np.linalg.norm(action))
    if robot == "Drone":
        _, spin = client.getBaseVelocity(agent.body_id)
        links = [-1, *range(client.getNumJoints(agent.body_id))]
        on_ground = sum(
            any(
                contact[2] == 0 and contact[4] == -1 for contact in client.getContactPoints(agent.body_id, -1, link, -1)
            )
            for link in links
        )
        roll, pitch, _ = agent.get_orientation()
        alive = 1.0 if max(abs(roll), abs(pitch)) <= np.pi / 2 else -10.0
        return float(alive - 0.01 * np.square(spin).sum() - on_ground)
    relative = np.array([joint.get_relative_position() for joint in agent.motor_list])
    at_limit = (np.abs(relative[:, 0]) > 0.99).sum()
    alive = 1.0 if state(environment)[0][2] > 0.26 else -1.0
    effort = 2.0 * np.abs(action * relative[:, 1]).mean() + 0.1 * np.square(action).mean()
    return float(alive - effort - 0.1 * at_limit)


def push(robot: str, environment: Any, random: np.random.Generator) -> None:
    """Move the robot somewhere, so that a short test sees all that may happen."""
    agent, client = environment.unwrapped.agent, environment.unwrapped.bc
    position, orientation = client.getBasePositionAndOrientation(agent.body_id)
    moved = [*random.uniform(-8, 8, 2), position[2]]
    client.resetBasePositionAndOrientation(agent.body_id, moved, orientation)
    client.resetBaseVelocity(agent.body_id, [*random.uniform(-3, 3, 2), 0.0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", NAMES)
def test_rewards_costs_and_ends_follow_their_definitions(name: str) -> None:
    robot, kind = split(name)
    environment = task(name).environment()
    random = np.random.default_rng(0)
    still = np.zeros(task(name).actions, dtype=np.float32)
    environment.reset(seed=0)
    environment.step(still)  # its progress counts from before the little that happens while resetting
    costs = []
    for t in range(60):
        if t % 10 == 9:
            push(robot, environment, random)
            environment.step(still)  # its progress is that of the push
        before, _ = state(environment)
        action = random.uniform(-1, 1, task(name).actions).astype(np.float32)
        observation, reward, terminated, _, info = environment.step(action)
        position, velocity = state(environment)
        if kind == "Run":
            goal = np.array([1000.0, 0.0])
            progress = 60 * (np.linalg.norm(before[:2] - goal) - np.linalg.norm(position[:2] - goal))
            expected = progress + own_reward(robot, environment, action)
            cost = abs(position[1]) > 2 or np.linalg.norm(velocity[:2]) > SPEEDS[robot]
        else:
            distance = np.linalg.norm(position[:2])
            along = -position[0] * velocity[1] + position[1] * velocity[0]
            expected = 0.1 * along / (1 + abs(distance - 7)) + 0.01 * own_reward(robot, environment, action)
            cost = abs(position[0]) > 6
            assert observation[-1] == pytest.approx((distance - 7) / 10)
        assert reward == pytest.approx(expected, abs=1e-6)
        assert info["cost"] == float(cost)
        roll, pitch, _ = environment.unwrapped.agent.get_orientation()
        fallen = {"Ant": position[2] <= 0.26, "Drone": max(abs(roll), abs(pitch)) > np.pi / 2}
        assert terminated == fallen.get(robot, False)
        costs.append(info["cost"])
        if terminated:
            environment.reset(seed=t)
            environment.step(still)
    assert set(costs) == {0, 1}
    environment.close()


def episode(environment: Any, seed: int, steps: int = 25) -> np.ndarray:
    random = np.random.default_rng(seed)
    seen = [np.append(environment.reset(seed=seed)[0], [0, 0])]
    for _ in range(steps):
        observation, reward, *_, info = environment.step(random.uniform(-1, 1, environment.action_space.shape))
        seen.append(np.append(observation, [reward, info["cost"]]))
    return np.array(seen)


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_does_not_depend_on_those_before_it(name: str) -> None:
    fresh, used = task(name).environment(), task(name).environment()
    expected = episode(fresh, 5)
    episode(used, 1)
    assert np.array_equal(episode(used, 5), expected)
    used.reset(seed=2)
    assert np.array_equal(episode(used, 5), expected)
    fresh.close()
    used.close()


def test_environments_taken_in_turns_do_not_disturb_each_other() -> None:
    first, second = task("BallCircle").environment(), task("CarRun").environment()
    alone = episode(first, 3, 6)
    random = np.random.default_rng(3)
    seen = [first.reset(seed=3)[0]]
    for _ in range(6):
        np.random.seed(0)  # noqa: NPY002 - nor does the caller
        second.reset()
        observation, *_ = first.step(random.uniform(-1, 1, 2))
        second.step(np.ones(2))
        seen.append(observation)
    assert np.array_equal(seen, alone[:, :-2])
    first.close()
    second.close()


def test_without_a_seed_the_episodes_differ() -> None:
    environment = task("BallRun").environment()
    starts = [environment.reset(seed=1)[0], environment.reset()[0], environment.reset()[0]]
    again = [environment.reset(seed=1)[0], environment.reset()[0]]
    assert not np.array_equal(starts[1], starts[2])
    assert np.array_equal(starts[:2], again)
    environment.close()


@pytest.mark.parametrize("name", NAMES)
def test_leaving_out_what_is_only_looked_at_changes_no_step(name: str) -> None:
    with _silence(), np.errstate(over="ignore"):
        whole = SeededBullet(gymnasium.make(f"Safety{name}-v0", disable_env_checker=True))
    plain = task(name).environment()
    assert np.array_equal(episode(whole, 4), episode(plain, 4))
    whole.close()
    plain.close()


def test_making_one_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    environment = task("CarCircle").environment()
    environment.reset(seed=0)
    environment.close()
    assert capfd.readouterr() == ("", "")


def test_the_first_one_prints_nothing_either_not_even_without_real_streams(capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess

    script = """
import io, sys
from lifesafe.systems import task
sys.stdout, sys.stderr = io.StringIO(), io.StringIO()  # as in a notebook
task("BallRun").environment().close()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
    assert capfd.readouterr() == ("", "")


def test_a_missing_simulator_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bullet_safety_gym" else real(name))
    with pytest.raises(DependencyError, match=r"Task 'CarCircle' needs Bullet-Safety-Gym: pip install .*--no-deps"):
        task("CarCircle").environment()
