"""What every registered task promises."""

import pickle

import numpy as np
import pytest

from lifesafe.systems import Task, tasks


@pytest.fixture(params=tasks(), ids=lambda task: task.name)
def task(request: pytest.FixtureRequest) -> Task:
    given: Task = request.param
    if given.summary.startswith("Bullet"):
        pytest.importorskip("bullet_safety_gym", exc_type=ImportError)
    return given


def episode(task: Task, seed: int, steps: int = 15) -> np.ndarray:
    environment = task.environment()
    random = np.random.default_rng(seed)
    seen = [np.append(environment.reset(seed=seed)[0], [0.0, 0.0])]
    for _ in range(steps):
        action = random.uniform(-1, 1, task.actions).astype(np.float32)
        observation, reward, *_, info = environment.step(action)
        seen.append(np.append(observation, [reward, info["cost"]]))
    environment.close()
    return np.array(seen)


def test_it_says_what_it_is_and_can_be_sent_to_another_process(task: Task) -> None:
    environment = task.environment()
    assert environment.observation_space.shape == (task.observations,)
    assert environment.action_space.shape == (task.actions,)
    assert (environment.action_space.low == -1).all()
    assert (environment.action_space.high == 1).all()
    assert task.summary
    assert task.cost
    assert pickle.loads(pickle.dumps(task)) == task
    if environment.spec is not None:
        assert environment.spec.max_episode_steps == task.horizon
    environment.close()


def test_the_same_seed_gives_the_same_episode(task: Task) -> None:
    assert np.array_equal(episode(task, 3), episode(task, 3))
    assert not np.array_equal(episode(task, 3)[0], episode(task, 4)[0])


def test_a_step_costs_at_least_nothing_and_at_most_the_largest_cost(task: Task) -> None:
    costs = episode(task, 0, 40)[:, -1]
    assert (costs >= 0).all()
    assert (costs <= task.largest_costs[0]).all()


def test_an_episode_draws_nothing_from_the_callers_random_numbers(task: Task) -> None:
    before = np.random.get_state()  # noqa: NPY002
    episode(task, 1)
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]


def test_the_reference_returns_and_the_starting_box_belong_together(task: Task) -> None:
    if task.dataset_file is not None:
        assert task.reference is not None
        assert task.dataset_file.startswith(f"Safety{task.name}")
    if task.reference is not None:
        assert task.reference[0] < task.reference[1]
    if task.start is not None:
        assert 0 < task.normalize(task.start.reward[0]) < task.normalize(task.start.reward[1]) < 1
        assert task.start.cost == (0.0, 5.0)
