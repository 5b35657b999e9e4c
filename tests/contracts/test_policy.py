"""What every policy promises, whatever the method."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import TrialError
from lifesafe.interfaces import Actor
from lifesafe.policies import StoredPolicy, load, save, train
from lifesafe.returns import Returns
from small_data import ACTIONS, HORIZON, OBSERVATIONS, small_dataset, small_targets
from small_methods import CONDITIONED, METHODS, ONE_COST, case_name, cases, for_costs

ROWS = 4
CLOSE = {"rtol": 0, "atol": 2e-6}  # sums of float32 in another order


@cache
def trained(method: str, costs: int) -> StoredPolicy:
    return train(for_costs(METHODS[method], costs), small_dataset(costs))


@pytest.fixture
def policy(case: tuple[str, int]) -> StoredPolicy:
    return trained(*case)


class World:
    """What rows see, earn and pay, drawn beforehand: the same for whoever acts in it."""

    def __init__(self, costs: int, rows: int = ROWS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.observations = rng.normal(size=(2 * HORIZON, rows, OBSERVATIONS)).astype(np.float32)
        self.rewards = rng.normal(size=(2 * HORIZON, rows)).astype(np.float32)
        self.costs = rng.integers(0, 2, size=(2 * HORIZON, rows, costs)).astype(np.float32)

    def run(self, actor: Actor, rows: np.ndarray, begin: int = 0, steps: int = HORIZON) -> np.ndarray:
        """Return the actions of rows, (steps, rows, actions); rows are named by their own index."""
        return np.array([self.step(actor, rows, rows, time) for time in range(begin, begin + steps)])

    def step(self, actor: Actor, lives: np.ndarray, rows: np.ndarray | None, time: int) -> np.ndarray:
        """Let the actor's rows see step `time` of some lives of this world."""
        actions = actor.act(self.observations[time, lives], rows)
        actor.observe(self.rewards[time, lives], self.costs[time, lives], rows)
        return actions


def alone(policy: StoredPolicy, world: World, target: Returns, life: int, steps: int = HORIZON) -> np.ndarray:
    """Return what an actor with a single row does in one life."""
    actor = policy.actor([target])
    return np.array([world.step(actor, np.array([life]), None, time)[0] for time in range(steps)])


def test_actions_have_the_right_shape_and_type_and_lie_in_bounds(policy: StoredPolicy, costs: int) -> None:
    actions = World(costs).run(policy.actor(small_targets(costs, ROWS)), np.arange(ROWS), steps=HORIZON + 3)
    assert actions.shape == (HORIZON + 3, ROWS, ACTIONS)
    assert actions.dtype == np.float32
    assert np.abs(actions).max() <= 1


def test_absurd_targets_and_observations_give_actions_in_bounds(policy: StoredPolicy, costs: int) -> None:
    actor = policy.actor([Returns(1e6, [1e6] * costs), Returns(-1e6, [-1e6] * costs)])
    actions = actor.act(np.array([[1e6] * OBSERVATIONS, [-1e6] * OBSERVATIONS], dtype=np.float32))
    assert np.isfinite(actions).all()
    assert np.abs(actions).max() <= 1


def test_all_rows_may_go_unnamed(policy: StoredPolicy, costs: int) -> None:
    world, targets = World(costs), small_targets(costs, ROWS)
    named, unnamed = policy.actor(targets), policy.actor(targets)
    for time in range(5):
        expected = world.step(named, np.arange(ROWS), np.arange(ROWS), time)
        np.testing.assert_array_equal(world.step(unnamed, np.arange(ROWS), None, time), expected)


def test_a_row_does_not_depend_on_the_others(policy: StoredPolicy, costs: int) -> None:
    world, targets = World(costs), small_targets(costs, ROWS)
    together = world.run(policy.actor(targets), np.arange(ROWS))
    for row in range(ROWS):
        np.testing.assert_allclose(together[:, row], alone(policy, world, targets[row], row), **CLOSE)


def test_rows_may_be_named_in_any_order(policy: StoredPolicy, costs: int) -> None:
    world, targets = World(costs), small_targets(costs, ROWS)
    order = np.array([2, 0, 3, 1])
    shuffled = world.run(policy.actor(targets), order)
    np.testing.assert_allclose(shuffled, world.run(policy.actor(targets), np.arange(ROWS))[:, order], **CLOSE)


def test_rows_that_are_not_named_stand_still(policy: StoredPolicy, costs: int) -> None:
    world, targets = World(costs), small_targets(costs, ROWS)
    actor = policy.actor(targets)
    some, others = np.array([0, 2]), np.array([1, 3])
    first = world.run(actor, some, steps=5)
    late = world.run(actor, others, steps=7)
    rest = world.run(actor, some, begin=5, steps=4)
    for place, row in enumerate(some):
        expected = alone(policy, world, targets[row], row, steps=9)
        np.testing.assert_allclose(np.concatenate([first, rest])[:, place], expected, **CLOSE)
    for place, row in enumerate(others):
        np.testing.assert_allclose(late[:, place], alone(policy, world, targets[row], row, steps=7), **CLOSE)


def test_a_restarted_row_acts_as_a_fresh_one_and_leaves_the_others_alone(policy: StoredPolicy, costs: int) -> None:
    world, targets = World(costs), small_targets(costs, ROWS)
    actor, restarted, others = policy.actor(targets), np.array([3, 1]), np.array([0, 2])
    before = world.run(actor, np.arange(ROWS), steps=5)
    actor.restart([targets[0], targets[1]], restarted)
    fresh = world.run(actor, restarted)
    rest = world.run(actor, others, begin=5, steps=4)
    for place, row in enumerate(restarted):
        np.testing.assert_allclose(fresh[:, place], alone(policy, world, targets[place], row), **CLOSE)
    for place, row in enumerate(others):
        went = np.concatenate([before[:, row], rest[:, place]])
        np.testing.assert_allclose(went, alone(policy, world, targets[row], row, steps=9), **CLOSE)


def test_the_caller_may_reuse_its_arrays(policy: StoredPolicy, costs: int) -> None:
    world, target = World(costs), small_targets(costs, 1)
    expected = alone(policy, world, target[0], 0)
    actor, buffer = policy.actor(target), np.zeros((1, OBSERVATIONS), dtype=np.float32)
    actions = []
    for time in range(HORIZON):
        buffer[:] = world.observations[time, :1]
        actions.append(actor.act(buffer)[0])
        buffer[:] = np.nan
        actor.observe(world.rewards[time, :1], world.costs[time, :1])
    np.testing.assert_allclose(actions, expected, **CLOSE)


@pytest.mark.parametrize("case", cases([*CONDITIONED, *ONE_COST]), ids=case_name)
def test_the_target_matters(policy: StoredPolicy, costs: int) -> None:
    low, high = small_targets(costs, 3)[::2]
    world = World(costs)
    assert not np.allclose(alone(policy, world, low, 0), alone(policy, world, high, 0), atol=1e-4)


@pytest.mark.parametrize("case", cases(CONDITIONED), ids=case_name)
def test_what_was_earned_matters(policy: StoredPolicy, costs: int) -> None:
    actor = policy.actor([small_targets(costs)[1]] * 2)
    same = np.zeros((2, OBSERVATIONS), dtype=np.float32)
    actor.act(same)
    actor.observe(np.array([0.0, 2.0], dtype=np.float32), np.zeros((2, costs), dtype=np.float32))
    actions = actor.act(same)
    assert not np.allclose(actions[0], actions[1], atol=1e-5)


def test_targets_with_another_number_of_costs_are_refused(policy: StoredPolicy, costs: int) -> None:
    with pytest.raises(TrialError, match=f"{costs + 1} costs"):
        policy.actor(small_targets(costs + 1))
    actor = policy.actor(small_targets(costs))
    with pytest.raises(TrialError, match=f"{costs + 1} costs"):
        actor.restart(small_targets(costs + 1, 1), np.array([0]))


def test_a_saved_policy_comes_back_as_it_was(policy: StoredPolicy, costs: int, tmp_path: Path) -> None:
    save(policy, tmp_path / "policy")
    loaded = load(tmp_path / "policy")
    assert type(loaded) is type(policy)
    assert loaded.config == policy.config
    world, targets = World(costs), small_targets(costs, ROWS)
    expected = world.run(policy.actor(targets), np.arange(ROWS))
    np.testing.assert_array_equal(world.run(loaded.actor(targets), np.arange(ROWS)), expected)
