"""The Constrained Decision Transformer: its settings, its network, its loss, its learner, and how it acts.

The contracts of learners and policies (tests/contracts) cover what it has in common with other methods.
"""

from typing import Any

import numpy as np
import pytest
import torch

from lifesafe.data.relabel import AugmentationConfig
from lifesafe.errors import ConfigError
from lifesafe.policies.cdt.learner import CDT, CDTConfig, CDTLearner, _losses, episode_weights, learning_rate
from lifesafe.policies.cdt.network import Dropout, Steps, attend, window_mask
from lifesafe.policies.scaling import typical_costs
from lifesafe.returns import Returns
from logs import plane
from small_cdt import random_dataset, small_config

TARGETS = [Returns(3.0, 2.0), Returns(5.0, 0.0), Returns(-1.0, 9.0)]


def test_every_parameter_learns() -> None:
    learner = shaken(small_config())
    batch = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 8))
    _losses(learner._network(batch.steps), batch)["nll"].backward()
    for name, parameter in learner._network.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.any(), name


def test_the_loss_is_the_negative_log_likelihood_per_real_step_and_entry() -> None:
    learner = small_config().build(random_dataset(), seed=0)
    batch = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 32))
    gaussian = learner._network(batch.steps)
    normal = torch.distributions.Normal(gaussian.mean, gaussian.log_std.exp())
    real = batch.real.bool()
    assert not real.all()
    parts = _losses(gaussian, batch)
    torch.testing.assert_close(parts["nll"], -normal.log_prob(batch.actions)[real].mean())
    torch.testing.assert_close(parts["entropy"], normal.entropy()[real].mean())


def test_padding_does_not_matter() -> None:
    learner = small_config().build(random_dataset(), seed=0)
    batch = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 64))
    padding = ~batch.real.bool()
    assert padding.any()
    noise = [torch.where(padding[..., None], 100.0, part) for part in batch.steps[:3]]
    disturbed = batch._replace(
        steps=Steps(*noise, batch.steps.times), actions=torch.where(padding[..., None], 100.0, batch.actions)
    )
    changed = _losses(learner._network(disturbed.steps), disturbed)
    for name, value in _losses(learner._network(batch.steps), batch).items():
        torch.testing.assert_close(changed[name], value, msg=name)


def test_deviations_stay_within_their_bounds() -> None:
    network = small_config(log_std_bounds=(-2.0, 0.5)).build(random_dataset(), seed=0)._network
    features = 1e3 * torch.randn(50, 1, 16, generator=torch.Generator().manual_seed(0))
    log_std = network.gaussian(features).log_std
    assert log_std.min() >= -2.0
    assert log_std.max() <= 0.5


def test_an_untrained_network_says_what_actions_are_like_on_the_whole() -> None:
    data = random_dataset()
    network = small_config().build(data, seed=0)._network
    gaussian = network.gaussian(torch.zeros(1, 1, 16))
    np.testing.assert_allclose(gaussian.mean[0, 0].detach(), data.actions.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(gaussian.log_std[0, 0].exp().detach(), data.actions.std(axis=0), rtol=1e-5)


def test_a_step_sees_its_own_situation_and_the_action_before() -> None:
    learner = small_config().build(random_dataset(), seed=0)
    network = learner._network.eval()
    steps = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 4)).steps
    mean = network(steps).mean
    for part in ("coming", "observations", "before"):
        value = getattr(steps, part).clone()
        value[:, 3] += 1.0
        changed = network(steps._replace(**{part: value})).mean
        assert not torch.equal(changed[:, 3], mean[:, 3])
        torch.testing.assert_close(changed[:, :3], mean[:, :3])  # and nothing after itself


def test_steps_carry_the_action_before_and_nothing_at_the_start() -> None:
    data = random_dataset()
    learner = small_config().build(data, seed=0)
    rows, shifts = learner._sampler.draw(np.random.default_rng(0), 64)
    batch = learner._table.gather(rows, shifts)
    for index in range(64):
        for step in range(7):
            if rows.times[index, step] == 0:
                assert not batch.steps.before[index, step].any()
            elif rows.real[index, step]:
                expected = data.actions[rows.rows[index, step] - 1]
                np.testing.assert_array_equal(batch.steps.before[index, step].numpy(), expected)


def test_every_episode_may_be_drawn_and_costly_ones_are_drawn_more_rarely() -> None:
    typical = typical_costs(random_dataset())
    costs, lengths = np.array([[0.0], [20.0], [1e6]]), np.array([10, 10, 10])
    weights = episode_weights(small_config(), lengths, costs, typical)
    assert (weights > 0).all()
    assert (np.diff(weights) < 0).all()


def test_a_typical_cost_is_that_of_the_data() -> None:
    data = plane([(100.0, 0.0)] * 50 + [(200.0, 200.0)] * 50, steps=20)  # costs-to-go of 10, 20, ..., 200: median 105
    plain = small_config(augmentation=AugmentationConfig(), held_out=0.0)
    drawn = plain.build(data, seed=0)._sampler.draw(np.random.default_rng(0), 20_000)[0].episodes
    costly = 1 / (1 + 200 / 105)
    assert (drawn >= 50).mean() == pytest.approx(costly / (1 + costly), abs=0.01)


def test_relabeled_episodes_ask_for_their_targets() -> None:
    data = random_dataset()
    config = small_config(augmentation=AugmentationConfig(fraction=1.0), held_out=0.0)
    learner = config.build(data, seed=0)
    rows, shifts = learner._sampler.draw(np.random.default_rng(0), 512)
    assert shifts is not None
    first = rows.times[:, 0] == 0
    shown = learner._table.gather(rows, shifts).steps.coming[:, 0].double()
    scaling = learner._scaling
    costs = shown[:, 1].sign() * shown[:, 1].abs().expm1()  # what `Scaling` does, undone
    unscaled = torch.stack([shown[:, 0], costs], dim=1) * scaling.scale + scaling.center
    asked = unscaled[torch.from_numpy(first)].numpy().round(2)
    real = {tuple(np.round(row.astype(float), 2)) for row in data.returns}
    beyond = [row for row in asked if tuple(row) not in real]
    assert beyond  # some segments are relabeled ...
    assert len(beyond) < len(asked)  # ... and some are not
    assert max(row[0] for row in beyond) > data.returns[:, 0].max()


def test_the_learning_rate_rises_then_falls() -> None:
    config = small_config(steps=100, warmup=10, learning_rate=1.0, final_learning_rate=0.1)
    rates = [learning_rate(config, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)
    assert np.argmax(rates) == 9
    assert rates[-1] == pytest.approx(0.1)


def test_an_averaged_policy_has_the_weights_that_were_averaged() -> None:
    learner = small_config(steps=8, average=0.5, held_out=0.2).build(random_dataset(), seed=0)
    plain = small_config(steps=8, average=0.0, held_out=0.2).build(random_dataset(), seed=0)
    expected: dict[str, torch.Tensor] = {}
    for step in range(8):
        learner.update(step)
        plain.update(step)
        now = {name: weights.detach().clone() for name, weights in plain._network.named_parameters()}
        expected = {name: weights + 0.75 * (expected.get(name, weights) - weights) for name, weights in now.items()}
    policy = learner.policy()
    for name, weights in expected.items():
        torch.testing.assert_close(policy.tensors()[name], weights)
    averaged = learner.validate()
    assert averaged != plain.validate()
    plain._network.load_state_dict(policy.tensors())
    assert averaged == plain.validate()


def test_validation_uses_held_out_episodes_only() -> None:
    data = random_dataset()
    learner = small_config(held_out=0.2).build(data, seed=0)
    trained = {int(e) for e in np.unique(learner._sampler.draw(np.random.default_rng(0), 3000)[0].rows)}
    assert learner._held_out is not None
    held_out = set(np.unique(learner._held_out.rows).tolist())
    assert held_out
    assert not trained & held_out
    assert len(trained | held_out) == data.transitions
    assert small_config(held_out=0.0).build(data, seed=0).validate() == {}


@pytest.mark.parametrize(
    "change",
    [
        {"width": 10, "heads": 3},
        {"batch": 0},
        {"dropout": 1.0},
        {"learning_rate": 0.0},
        {"warmup": -1},
        {"log_std_bounds": (1.0, 1.0)},
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        CDTConfig(**change)


def test_attention_agrees_with_pytorch() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 3, 8, 2, 5)  # 3 sequences of 8 tokens, 2 heads
    mask = window_mask(8, 3)
    parts = (part.transpose(1, 2) for part in (queries, keys, values))
    theirs = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
    torch.testing.assert_close(attend(queries, keys, values, mask), theirs.transpose(1, 2).flatten(2))


def test_dropout_keeps_the_mean_and_drops_the_given_share() -> None:
    dropout = Dropout(0.1, np.random.default_rng(0))
    dropped = dropout(torch.ones(400_001))
    assert abs((dropped == 0).float().mean().item() - 0.1) < 0.002
    assert abs(dropped.mean().item() - 1) < 0.002
    assert len(dropped.unique()) == 2
    added = Dropout(0.1, np.random.default_rng(0)).add(torch.ones(400_001), torch.ones(400_001))
    torch.testing.assert_close(added, dropped + 1)


def test_neighbouring_entries_are_dropped_independently() -> None:
    dropped = Dropout(0.5, np.random.default_rng(0))(torch.ones(200_000)).view(-1, 4) == 0
    together = (dropped.float().T @ dropped.float()) / len(dropped)
    torch.testing.assert_close(together, torch.full((4, 4), 0.25) + 0.25 * torch.eye(4), rtol=0, atol=0.01)


def test_actions_depend_on_what_the_windows_of_all_layers_reach_and_no_more() -> None:
    learner = shaken(small_config(segment=7, context=3, layers=2))  # a step sees 2 layers x 2 steps back
    network = learner._network.eval()
    steps = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 4)).steps
    changed = steps._replace(observations=steps.observations.clone())
    changed.observations[:, :2] += 1.0
    before, after = network(steps).mean, network(changed).mean
    torch.testing.assert_close(after[:, 6], before[:, 6])
    assert not torch.allclose(after[:, 5], before[:, 5])


def shaken(config: CDTConfig, costs: int = 1) -> CDTLearner:
    """A learner whose weights are far from their start, so that everything it sees matters."""
    learner = config.build(random_dataset(costs=costs), seed=0)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in learner._network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=random)
        learner._network.action_head.weight *= 0.3
    return learner


def trained(costs: int = 1) -> CDT:
    return shaken(small_config(average=0.0), costs).policy()


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


def test_acting_is_what_the_whole_sequence_in_training_gives() -> None:
    policy, world = trained(), episode(25)  # longer than all windows, and than the time table
    actions = run(policy, world, TARGETS)
    coming = np.empty((25, 3, 2))
    left = np.array([tuple(target) for target in TARGETS])
    for step in range(25):
        coming[step] = left
        left = left - np.column_stack([world["rewards"][step], world["costs"][step]])
        left[:, 1] = np.maximum(left[:, 1], 0.0)
    seen, shown = policy._scaling(torch.from_numpy(world["observations"]), torch.from_numpy(coming))
    before = torch.from_numpy(np.concatenate([np.zeros_like(actions[:1]), actions[:-1]]))
    steps = Steps(shown, seen, before, torch.arange(25)[:, None].expand(25, 3))
    with torch.no_grad():
        expected = policy._network(Steps(*(part.transpose(0, 1) for part in steps))).mean.clamp(-1, 1)
    np.testing.assert_allclose(actions, expected.transpose(0, 1), atol=1e-5)
    assert np.ptp(actions) > 0


def test_a_spent_budget_means_no_more_cost() -> None:
    policy = trained()
    world = episode(6, rows=2)
    world["observations"][:, 1], world["rewards"][:, 1] = world["observations"][:, 0], world["rewards"][:, 0]
    world["costs"][0, :, 0] = [1.0, 4.0]  # after the first step both budgets of 1 are spent, one of them by far
    world["costs"][1:] = 0.0
    actions = run(policy, world, [Returns(3.0, 1.0)] * 2)
    np.testing.assert_array_equal(actions[:, 0], actions[:, 1])


def test_several_costs_each_have_a_say() -> None:
    policy = trained(costs=2)
    world = episode(4, rows=3, costs=2)
    same = {name: value[:, [0, 0, 0]] for name, value in world.items()}
    actions = run(policy, same, [Returns(3.0, (2.0, 2.0)), Returns(3.0, (2.0, 8.0)), Returns(3.0, (8.0, 2.0))])
    assert not np.array_equal(actions[:, 0], actions[:, 1])
    assert not np.array_equal(actions[:, 1], actions[:, 2])
