"""Tasks from any Gymnasium environment."""

import pickle
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from acting import feedback
from lifesafe.data.recorder import Recorder
from lifesafe.errors import ConfigError, EpisodeError
from lifesafe.returns import Returns
from lifesafe.systems import check_costs, evaluate, open_vector, task_from_id
from lifesafe.systems.vector import costs_in


def swing(observation: Any, action: Any, next_observation: Any, info: Any) -> float:
    return float(abs(next_observation[2]) > 1.0)


def swing_and_torque(observation: Any, action: Any, next_observation: Any, info: Any) -> tuple[float, float]:
    return swing(observation, action, next_observation, info), abs(float(action[0]))


def broken(observation: Any, action: Any, next_observation: Any, info: Any) -> float:
    return float(info["nothing"])


def way(observation: Any, action: Any, next_observation: Any, info: Any) -> float:
    return float(abs(next_observation[0] - observation[0]))


class Remembering:
    """A cost function that compares with what it was shown before, and spoils all that it is shown."""

    def __init__(self) -> None:
        self.shown: list[np.ndarray] = []

    def __call__(self, observation: Any, action: Any, next_observation: Any, info: Any) -> float:
        self.shown += [observation, next_observation]
        cost = way(observation, action, next_observation, info)
        observation[:] = next_observation[:] = 99.0
        return cost


class InPlace(gymnasium.Env):
    """Goes as it is told, and writes all that it shows into one array."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.place = np.zeros(1, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.place[:] = 0.0
        return self.place, {}

    def step(self, action: np.ndarray) -> Any:
        self.place += action
        return self.place, 0.0, False, False, {}


class Strict(gymnasium.Env):
    """Takes no action out of its bounds."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, low: float, high: float, dtype: Any) -> None:
        self.action_space = Box(low, high, (1,), dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: np.ndarray) -> Any:
        assert self.action_space.contains(action)
        return np.zeros(1, dtype=np.float32), float(action[0]), False, False, {"cost": 0.0}


class Odd(gymnasium.Env):
    """Spaces are given; nothing else works."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space


class Grid(gymnasium.Env):
    """Sees a table, and is steered by one."""

    observation_space = Box(0.0, 1.0, (2, 3), np.float64)
    action_space = Box(np.array([[0.0], [-4.0]], dtype=np.float32), np.array([[1.0], [4.0]], dtype=np.float32))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.full((2, 3), 0.5), {}

    def step(self, action: np.ndarray) -> Any:
        assert action.shape == (2, 1)
        return np.full((2, 3), 0.5), float(action[0, 0]), False, False, {"cost": float(action[1, 0])}


NUMBERS = Box(-1.0, 1.0, (2,), np.float32)
gymnasium.register("Odd-v0", entry_point=Odd, max_episode_steps=5)
gymnasium.register("Grid-v0", entry_point=Grid)
gymnasium.register("InPlace-v0", entry_point=InPlace, max_episode_steps=4)
gymnasium.register("Strict-v0", entry_point=Strict, max_episode_steps=4)


def test_sizes_and_horizon_are_those_of_the_environment() -> None:
    task = task_from_id("Pendulum-v1", cost=swing, limits=20.0)
    assert (task.name, task.observations, task.actions, task.horizon) == ("Pendulum-v1", 3, 1, 200)
    assert (task.limits, task.largest_costs) == ((20.0,), (1.0,))
    assert task_from_id("Pendulum-v1", cost=swing, limits=20.0, horizon=50, name="Short").horizon == 50
    assert task_from_id("Pendulum-v1", cost=swing, limits=20.0, horizon=500).horizon == 200
    assert task_from_id("Pendulum-v1", cost=swing, limits=[1, 2.0]).largest_costs == (1.0, 1.0)
    assert task_from_id("Pendulum-v1", limits=1.0, g=3.0).environment().unwrapped.g == 3.0
    assert pickle.loads(pickle.dumps(task)) == task


def test_actions_are_scaled_to_the_bounds() -> None:
    environment = task_from_id("Pendulum-v1", cost=swing_and_torque, limits=(20.0, 50.0), largest_costs=(1.0, 2.0))
    inside = environment.environment()
    inside.reset(seed=0)
    for action, torque in ((1.0, 2.0), (-0.5, 1.0), (9.0, 2.0)):
        assert inside.step(np.array([action]))[4]["cost"][1] == torque
    inside.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("low", "high"), [(-0.2, 0.1), (-0.05, 0.3), (-0.7, 0.3), (0.01, 0.99), (-2.0, 2.0)])
def test_no_rounding_takes_an_action_out_of_the_bounds(low: float, high: float, dtype: Any) -> None:
    environment = task_from_id("Strict-v0", limits=1.0, low=low, high=high, dtype=dtype).environment()
    environment.reset(seed=0)
    assert environment.step(np.array([-1.0], dtype=np.float32))[1] == pytest.approx(low)
    assert environment.step(np.array([1.0], dtype=np.float32))[1] == pytest.approx(high)
    environment.close()


def test_a_cost_function_never_sees_an_array_twice_and_spoils_none() -> None:
    cost = Remembering()
    environment = task_from_id("InPlace-v0", cost=cost, limits=1.0).environment()
    kept = [environment.reset(seed=0)[0]]
    costs = []
    for action in (0.5, -1.0, 0.25):
        observation, *_, info = environment.step(np.array([action], dtype=np.float32))
        kept.append(observation)
        costs.append(info["cost"])
    assert costs == [0.5, 1.0, 0.25]
    assert len({id(array) for array in cost.shown}) == 6
    assert [float(observation[0]) for observation in kept] == [0.0, 0.5, -0.5, -0.25], "each is an array of its own"


def test_recorded_costs_are_those_of_the_search() -> None:
    recorder = Recorder(task_from_id("InPlace-v0", cost=way, limits=1.0).environment())
    recorder.reset(seed=0)
    for action in (0.5, -1.0, 0.25, 0.0):
        recorder.step(np.array([action], dtype=np.float32))
    (episode,) = recorder.episodes
    assert episode.costs.ravel().tolist() == [0.5, 1.0, 0.25, 0.0]
    assert episode.observations.ravel().tolist() == [0.0, 0.5, -0.5, -0.25]


def test_tables_are_flattened_and_their_bounds_respected() -> None:
    task = task_from_id("Grid-v0", limits=1.0, horizon=3)
    vector = open_vector(task, 1)
    assert vector.reset(np.array([0]), [0]).tolist() == [[0.5] * 6]
    step = vector.step(np.array([0]), np.array([[-1.0, 0.5]]))
    assert (step.rewards.tolist(), step.costs.tolist()) == ([0.0], [[2.0]])
    vector.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_cost_function_that_fails_is_named_with_its_line(workers: int) -> None:
    task = task_from_id("Pendulum-v1", cost=broken, limits=20.0)
    with pytest.raises(EpisodeError, match=r"failed in .*test_any_environment.py, line \d+: KeyError: 'nothing'"):
        evaluate(feedback(task), task, Returns(0.0, 0.0), episodes=1, workers=workers)


@pytest.mark.parametrize("cost", [None, "much", float("nan"), [1.0, [2.0]]])
def test_a_cost_that_is_no_number_is_refused(cost: Any) -> None:
    with pytest.raises(ConfigError, match=r"A step of task 'Pendulum-v1' cost .*; every cost must be a finite number"):
        costs_in({"cost": cost}, task_from_id("Pendulum-v1", limits=20.0))


def test_one_step_shows_what_is_wrong_with_the_costs() -> None:
    check_costs(task_from_id("Pendulum-v1", cost=swing_and_torque, limits=(20.0, 50.0)))
    with pytest.raises(ConfigError, match=r'puts no "cost" into info.*--cost module:function'):
        check_costs(task_from_id("Pendulum-v1", limits=20.0))
    with pytest.raises(EpisodeError, match="The cost function failed"):
        check_costs(task_from_id("Pendulum-v1", cost=broken, limits=20.0))


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("CartPole-v1", {}, "'CartPole-v1' has actions in a Discrete space; only a Box of real numbers"),
        ("Odd-v0", {"observation_space": Dict({"a": NUMBERS}), "action_space": NUMBERS}, "in a Dict space.*Flatten"),
        (
            "Odd-v0",
            {"observation_space": NUMBERS, "action_space": Box(-np.inf, 1.0, (2,))},
            "needs a lower and an upper",
        ),
        ("Odd-v0", {"observation_space": NUMBERS, "action_space": Box(0, 9, (2,), np.int64)}, "needs a lower and an"),
        ("Pendulun-v1", {}, "Gymnasium cannot make 'Pendulun-v1'.*Pendulum"),
        ("nowhere:Pendulum-v1", {}, "Gymnasium cannot make 'nowhere:Pendulum-v1'.*No module named 'nowhere'"),
        (
            "Odd-v0",
            {"observation_space": Box(0, 255, (96, 96, 3), np.uint8), "action_space": NUMBERS},
            r"gives images of shape \(96, 96, 3\), .* Put an encoder before it.*ObservationWrapper",
        ),
        ("Odd-v0", {"observation_space": Box(0, 255, (8, 8), np.uint8), "action_space": NUMBERS}, "gives images of"),
        ("Grid-v0", {}, "does not say how long an episode is; give horizon"),
    ],
)
def test_what_cannot_be_a_task_is_refused(id: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        task_from_id(id, limits=1.0, **options)


@pytest.mark.wrong_shapes
def test_a_wrong_size_is_found_at_the_first_reset() -> None:
    task = replace(task_from_id("Pendulum-v1", cost=swing, limits=1.0), observations=5)
    with pytest.raises(ConfigError, match=r"says observations = 5, but its environment gives shape \(3,\)"):
        open_vector(task, 1).reset(np.array([0]), [0])
