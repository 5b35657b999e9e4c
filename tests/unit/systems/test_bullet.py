"""The Bullet tasks: their costs as defined, their steps as in the original, and seeded."""

import importlib.util
import subprocess
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


def push(environment: Any, random: np.random.Generator) -> None:
    """Move the robot somewhere, so that a short test sees all that may happen."""
    agent, client = environment.unwrapped.agent, environment.unwrapped.bc
    position, orientation = client.getBasePositionAndOrientation(agent.body_id)
    moved = [*random.uniform(-8, 8, 2), position[2]]
    client.resetBasePositionAndOrientation(agent.body_id, moved, orientation)
    client.resetBaseVelocity(agent.body_id, [*random.uniform(-3, 3, 2), 0.0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", NAMES)
def test_costs_follow_their_definition(name: str) -> None:
    robot, kind = split(name)
    environment, random = task(name).environment(), np.random.default_rng(0)
    environment.reset(seed=0)
    costs = []
    for t in range(60):
        if t % 10 == 9:
            push(environment, random)
        action = random.uniform(-1, 1, task(name).actions).astype(np.float32)
        observation, _, terminated, _, info = environment.step(action)
        position, velocity = state(environment)
        if kind == "Run":
            cost = abs(position[1]) > 2 or np.linalg.norm(velocity[:2]) > SPEEDS[robot]
        else:
            cost = abs(position[0]) > 6
            assert observation[-1] == pytest.approx((np.linalg.norm(position[:2]) - 7) / 10)
        assert info["cost"] == float(cost)
        costs.append(info["cost"])
        if terminated:
            environment.reset(seed=t)
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


def test_making_one_prints_nothing_not_even_the_first_nor_without_real_streams(
    capfd: pytest.CaptureFixture[str],
) -> None:
    task("CarCircle").environment().close()
    script = """
import io, sys
from lifesafe.systems import task
sys.stdout, sys.stderr = io.StringIO(), io.StringIO()  # as in a notebook
task("BallRun").environment().close()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
    assert capfd.readouterr() == ("", "")


def test_a_missing_simulator_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bullet_safety_gym" else real(name))
    with pytest.raises(DependencyError, match=r"Task 'CarCircle' needs Bullet-Safety-Gym: pip install .*--no-deps"):
        task("CarCircle").environment()
