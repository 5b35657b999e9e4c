"""Acting with a Constrained Decision Transformer."""

import json

import numpy as np
import pytest
import torch

from lifesafe.errors import TrialError
from lifesafe.policies.cdt.learner import CDT, CDTConfig
from lifesafe.policies.cdt.network import Steps
from lifesafe.returns import Returns
from small_cdt import random_dataset, small_config, small_osrl

CONFIGS = {
    "one token": small_config(),
    "two tokens": small_config(tokens=2),
    "four tokens": small_config(tokens=4),
    "osrl": small_osrl(),
    "one token without windows": small_config(sliding=False, segment=3),
}
TARGETS = [Returns(3.0, 2.0), Returns(5.0, 0.0), Returns(-1.0, 9.0)]


@pytest.fixture(params=CONFIGS)
def policy(request: pytest.FixtureRequest) -> CDT:
    return trained(CONFIGS[request.param])


def trained(config: CDTConfig, costs: int = 1) -> CDT:
    """A policy whose weights are far from their start, so that everything it sees matters."""
    learner = config.build(random_dataset(costs=costs), seed=0)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in learner._network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=random)
        learner._network.action_head.weight *= 0.3
    return learner.policy()


def episode(steps: int, rows: int = 3, costs: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "observations": random.normal(size=(steps, rows, 4)).astype(np.float32),
        "rewards": random.normal(size=(steps, rows)),
        "costs": random.integers(0, 2, size=(steps, rows, costs)).astype(float),
    }


def run(policy: CDT, world: dict[str, np.ndarray], targets: list[Returns]) -> np.ndarray:
    actor, actions = policy.actor(targets), []
    for step in range(len(world["rewards"])):
        actions.append(actor.act(world["observations"][step]))
        actor.observe(world["rewards"][step], world["costs"][step])
    return np.array(actions)


def whole_sequence(
    policy: CDT, world: dict[str, np.ndarray], targets: list[Returns], actions: np.ndarray
) -> np.ndarray:
    """The same actions from one forward pass over the whole episode, as in training."""
    steps, rows = world["rewards"].shape
    coming = np.zeros((steps, rows, 2))
    coming[0] = [tuple(target) for target in targets]
    for step in range(1, steps):
        coming[step, :, 0] = coming[step - 1, :, 0] - world["rewards"][step - 1]
        coming[step, :, 1] = np.maximum(coming[step - 1, :, 1] - world["costs"][step - 1, :, 0], 0)
    shown = policy._scaling.coming(coming.reshape(-1, 2)).reshape(coming.shape)
    observations = policy._scaling.observations(world["observations"].reshape(-1, 4)).reshape(steps, rows, 4)
    done = actions
    if policy.config.tokens == 1:
        done = np.concatenate([np.zeros_like(actions[:1]), actions[:-1]])
    times = np.broadcast_to(np.arange(steps)[:, None], (steps, rows)).copy()
    parts = [torch.from_numpy(np.ascontiguousarray(part.swapaxes(0, 1))) for part in (shown, observations, done, times)]
    with torch.no_grad():
        return policy._network(Steps(*parts))[0].mean.clamp(-1, 1).numpy().swapaxes(0, 1)


@pytest.mark.parametrize("name", ["one token", "two tokens", "four tokens"])
def test_streaming_acts_exactly_as_the_whole_sequence_would(name: str) -> None:
    policy, world = trained(CONFIGS[name]), episode(25)  # longer than all windows, and than the time table
    actions = run(policy, world, TARGETS)
    expected = whole_sequence(policy, world, TARGETS, actions)
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    assert np.ptp(actions) > 0


def test_rows_do_not_disturb_each_other(policy: CDT) -> None:
    world = episode(8)
    together = run(policy, world, TARGETS)
    for row in range(3):
        alone = run(policy, {name: value[:, [row]] for name, value in world.items()}, TARGETS[row : row + 1])
        np.testing.assert_allclose(together[:, [row]], alone, atol=1e-5)


def test_a_restarted_row_acts_as_a_new_one_while_the_others_go_on(policy: CDT) -> None:
    world, fresh = episode(9), episode(9, seed=1)
    expected = run(policy, world, TARGETS)
    other = run(policy, fresh, [Returns(1.0, 4.0)] * 3)
    actor = policy.actor(TARGETS)
    for step in range(9):
        if step == 4:
            actor.restart([Returns(1.0, 4.0)], np.array([1]))
        observations = world["observations"][step].copy()
        if step >= 4:
            observations[1] = fresh["observations"][step - 4][1]
        actions = actor.act(observations)
        np.testing.assert_allclose(actions[[0, 2]], expected[step][[0, 2]], atol=1e-5)
        np.testing.assert_allclose(actions[1], expected[step][1] if step < 4 else other[step - 4][1], atol=1e-5)
        rewards, costs = world["rewards"][step].copy(), world["costs"][step].copy()
        if step >= 4:
            rewards[1], costs[1] = fresh["rewards"][step - 4][1], fresh["costs"][step - 4][1]
        actor.observe(rewards, costs)


def test_rows_that_are_not_named_stand_still(policy: CDT) -> None:
    world = episode(6)
    expected = run(policy, world, TARGETS)
    actor = policy.actor(TARGETS)
    for step in range(6):
        for rows in (np.array([2, 0]), np.array([1])):
            actions = actor.act(world["observations"][step][rows], rows)
            np.testing.assert_allclose(actions, expected[step][rows], atol=1e-5)
            actor.observe(world["rewards"][step][rows], world["costs"][step][rows], rows)


def test_no_rows_no_actions(policy: CDT) -> None:
    actor = policy.actor(TARGETS)
    assert actor.act(np.zeros((0, 4), dtype=np.float32), np.zeros(0, dtype=np.int64)).shape == (0, 2)


def test_targets_change_what_is_done(policy: CDT) -> None:
    world = episode(3, rows=2)
    for other in (Returns(3.0, 9.0), Returns(6.0, 2.0)):
        actions = run(policy, {name: value[:, [0, 0]] for name, value in world.items()}, [Returns(3.0, 2.0), other])
        assert np.abs(actions[:, 0] - actions[:, 1]).max() > 1e-5


def test_a_spent_budget_means_no_more_cost() -> None:
    policy = trained(CONFIGS["one token"])
    world = episode(6, rows=2)
    world["observations"][:, 1], world["rewards"][:, 1] = world["observations"][:, 0], world["rewards"][:, 0]
    world["costs"][0, :, 0] = [1.0, 4.0]  # after the first step both budgets of 1 are spent, one of them by far
    world["costs"][1:] = 0.0
    actions = run(policy, world, [Returns(3.0, 1.0)] * 2)
    np.testing.assert_array_equal(actions[:, 0], actions[:, 1])
    overspent = run(trained(CONFIGS["osrl"]), world, [Returns(3.0, 1.0)] * 2)
    assert not np.array_equal(overspent[:, 0], overspent[:, 1])  # OSRL shows the network a negative budget


def test_actions_are_float32_within_bounds(policy: CDT) -> None:
    with torch.no_grad():
        policy._network.action_head.bias += 5.0
    actions = policy.actor(TARGETS).act(episode(1)["observations"][0])
    assert actions.dtype == np.float32
    assert actions.max() == 1.0


def test_several_costs_each_have_a_say() -> None:
    policy = trained(small_config(), costs=2)
    world = episode(4, rows=3, costs=2)
    same = {name: value[:, [0, 0, 0]] for name, value in world.items()}
    actions = run(policy, same, [Returns(3.0, (2.0, 2.0)), Returns(3.0, (2.0, 8.0)), Returns(3.0, (8.0, 2.0))])
    assert not np.array_equal(actions[:, 0], actions[:, 1])
    assert not np.array_equal(actions[:, 1], actions[:, 2])


def test_targets_with_another_number_of_costs_are_refused(policy: CDT) -> None:
    with pytest.raises(TrialError, match="2 costs, the policy learned from data with 1"):
        policy.actor([Returns(1.0, (1.0, 2.0))])
    actor = policy.actor(TARGETS)
    with pytest.raises(TrialError, match="2 costs"):
        actor.restart([Returns(1.0, (1.0, 2.0))], np.array([0]))
    with pytest.raises(TrialError, match="1 targets for 2 rows"):
        actor.restart(TARGETS[:1], np.array([0, 1]))


def test_a_policy_comes_apart_and_together_again(policy: CDT) -> None:
    plain = json.loads(json.dumps(policy.plain()))
    tensors = {name: tensor.clone() for name, tensor in policy.tensors().items()}
    again = CDT.from_parts(policy.config, tensors, plain)
    world = episode(5)
    np.testing.assert_array_equal(run(again, world, TARGETS), run(policy, world, TARGETS))


def test_training_on_leaves_a_policy_as_it_is() -> None:
    learner = small_config().build(random_dataset(), seed=0)
    policy, world = learner.policy(), episode(4)
    before = run(policy, world, TARGETS)
    learner.update(0)
    np.testing.assert_array_equal(run(policy, world, TARGETS), before)
    learner.update(1)  # and making a policy does not keep the learner from going on
