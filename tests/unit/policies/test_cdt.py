"""The Constrained Decision Transformer: its settings, its loss and its learner."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lifesafe._config import from_plain, to_plain
from lifesafe.data.relabel import AugmentationConfig
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.policies.cdt.learner import CDTConfig, CDTLearner, episode_weights, learning_rate
from lifesafe.policies.cdt.network import Gaussian, Steps
from lifesafe.policies.scaling import typical_costs
from logs import plane
from small_cdt import random_dataset, small_config, small_osrl

CONFIGS = {
    "one token": small_config(),
    "two tokens": small_config(tokens=2),
    "four tokens": small_config(tokens=4),
    "predicted costs": small_config(cost_weight=0.1, cost_model="share"),
    "predicted costs, two tokens": small_config(tokens=2, cost_weight=0.1, cost_model="share"),
    "relabeled": small_config(augmentation=AugmentationConfig(fraction=0.5)),
    "averaged": small_config(average=0.3),
    "osrl": small_osrl(),
}


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> CDTConfig:
    return CONFIGS[request.param]


def losses(learner: CDTLearner) -> dict[str, torch.Tensor]:
    """The parts of the loss on a batch, without dropout, ready to be differentiated."""
    drawn = learner._sampler.draw(np.random.default_rng(0), 8)
    return learner.losses(learner._table.gather(*drawn))


def moved(learner: CDTLearner, loss: torch.Tensor) -> set[str]:
    """Names of the parameters on which a loss depends."""
    learner._network.zero_grad(set_to_none=True)
    loss.backward(retain_graph=True)
    return {name for name, p in learner._network.named_parameters() if p.grad is not None and bool((p.grad != 0).any())}


def test_every_parameter_learns_from_the_loss_it_serves_and_from_no_other(config: CDTConfig) -> None:
    learner = config.build(random_dataset(), seed=0)
    with torch.no_grad():
        for parameter in learner._network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    parts = losses(learner)
    every = {name for name, _ in learner._network.named_parameters()}
    cost_head = {"cost_head.weight", "cost_head.bias"} & every
    assert moved(learner, parts["nll"]) == every - cost_head
    assert moved(learner, parts["entropy"]) <= every - cost_head
    half = learner._network.sizes.actions
    entropy_gradient = learner._network.action_head.weight.grad
    assert entropy_gradient is not None
    assert not entropy_gradient[:half].any()  # the entropy says nothing about means
    assert entropy_gradient[half:].any()
    if cost_head:
        moved_by_costs = moved(learner, parts["cost_loss"])
        assert cost_head <= moved_by_costs
        assert not moved_by_costs & {"action_head.weight", "action_head.bias"}
        assert moved_by_costs == every - {"action_head.weight", "action_head.bias"}


def test_the_temperature_moves_only_if_there_is_one() -> None:
    for config, moves in ((small_osrl(), True), (small_config(), False)):
        learner = config.build(random_dataset(), seed=0)
        before = learner._log_temperature.item()
        learner.update(0)
        assert (learner._log_temperature.item() != before) is moves


def test_the_loss_is_the_negative_log_likelihood_per_real_step_and_entry() -> None:
    learner = small_config().build(random_dataset(), seed=0)
    batch = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 32))
    gaussian, _ = learner._network(batch.steps)
    normal = torch.distributions.Normal(gaussian.mean, gaussian.log_std.exp())
    real = batch.real.bool()
    assert not real.all()
    parts = learner.losses(batch)
    torch.testing.assert_close(parts["nll"], -normal.log_prob(batch.actions)[real].mean())
    torch.testing.assert_close(parts["entropy"], normal.entropy()[real].mean())


def test_padding_does_not_matter(config: CDTConfig) -> None:
    learner = config.build(random_dataset(), seed=0)
    batch = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 64))
    padding = ~batch.real.bool()
    assert padding.any()
    noise = [torch.where(padding[..., None], 100.0, part) for part in batch.steps[:3]]
    disturbed = batch._replace(
        steps=Steps(*noise, batch.steps.times),
        actions=torch.where(padding[..., None], 100.0, batch.actions),
        costs=torch.where(padding[..., None], 1.0, batch.costs),
    )
    for name, value in learner.losses(batch).items():
        torch.testing.assert_close(learner.losses(disturbed)[name], value, msg=name)


def test_deviations_stay_within_their_bounds() -> None:
    network = small_config(log_std_bounds=(-2.0, 0.5)).build(random_dataset(), seed=0)._network
    features = 1e3 * torch.randn(50, 1, 16, generator=torch.Generator().manual_seed(0))
    log_std = network.gaussian(features).log_std
    assert log_std.min() >= -2.0
    assert log_std.max() <= 0.5
    free = small_config(log_std_bounds="free").build(random_dataset(), seed=0)._network
    assert free.gaussian(features).log_std.abs().max() > 2.0


def test_an_untrained_network_says_what_actions_are_like_on_the_whole() -> None:
    data = random_dataset()
    network = small_config().build(data, seed=0)._network
    gaussian = network.gaussian(torch.zeros(1, 1, 16))
    np.testing.assert_allclose(gaussian.mean[0, 0].detach(), data.actions.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(gaussian.log_std[0, 0].exp().detach(), data.actions.std(axis=0), rtol=1e-5)


def test_the_gaussian_agrees_with_pytorchs() -> None:
    mean, log_std, value = torch.randn(3, 2, 4, 3, generator=torch.Generator().manual_seed(0)).unbind(0)
    normal, ours = torch.distributions.Normal(mean, log_std.exp()), Gaussian(mean, log_std)
    torch.testing.assert_close(ours.log_prob(value), normal.log_prob(value))
    torch.testing.assert_close(ours.entropy(), normal.entropy())


@pytest.mark.parametrize("costs", [1, 3])
def test_fractional_and_large_costs_of_any_number_are_learned(costs: int) -> None:
    data = random_dataset(costs=costs, fractional=True)
    assert data.costs.max() > 2
    learner = small_config(cost_weight=1.0, cost_model="share", steps=60, learning_rate=3e-3).build(data, seed=0)
    history = [learner.update(step) for step in range(60)]
    for name in ("cost_loss", "nll"):
        losses = [float(parts[name]) for parts in history]
        assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.01


def test_a_step_sees_its_own_situation_and_earlier_actions_but_not_its_own_action(config: CDTConfig) -> None:
    learner = config.build(random_dataset(), seed=0)
    network, length = learner._network.eval(), config.segment
    batch = learner._table.gather(*learner._sampler.draw(np.random.default_rng(0), 4))
    mean = network(batch.steps)[0].mean
    at = length - 1
    # With one token the action of step `at` is not among the inputs at all; with more it is there and hidden.
    changed = batch.steps.actions.clone()
    own = at + 1 if config.tokens == 1 else at
    if own < length:
        changed[:, own] += 1.0
        torch.testing.assert_close(network(batch.steps._replace(actions=changed))[0].mean[:, at], mean[:, at])
    changed = batch.steps.actions.clone()
    changed[:, own - 1] += 1.0
    assert not torch.equal(network(batch.steps._replace(actions=changed))[0].mean[:, at], mean[:, at])
    for part in ("coming", "observations"):
        value = getattr(batch.steps, part).clone()
        value[:, at] += 1.0
        assert not torch.equal(network(batch.steps._replace(**{part: value}))[0].mean[:, at], mean[:, at])


def test_one_token_steps_carry_the_action_before_and_nothing_at_the_start() -> None:
    data = random_dataset()
    learner = small_config().build(data, seed=0)
    rows, shifts = learner._sampler.draw(np.random.default_rng(0), 64)
    batch = learner._table.gather(rows, shifts)
    for index in range(64):
        for step in range(7):
            if rows.times[index, step] == 0:
                assert not batch.steps.actions[index, step].any()
            elif rows.real[index, step]:
                expected = data.actions[rows.rows[index, step] - 1]
                np.testing.assert_array_equal(batch.steps.actions[index, step].numpy(), expected)


def test_every_episode_may_be_drawn_and_costly_ones_are_drawn_more_rarely() -> None:
    typical = typical_costs(random_dataset())
    costs, lengths = np.array([[0.0], [20.0], [1e6]]), np.array([10, 10, 10])
    weights = episode_weights(small_config(), lengths, costs, typical)
    assert (weights > 0).all()
    assert (np.diff(weights) < 0).all()
    osrl = episode_weights(small_osrl(), lengths, costs, typical)
    np.testing.assert_array_equal(osrl, [70.0, 50.0, 0.0])


@pytest.mark.parametrize("config", [small_config(), small_osrl(sampling="mild", cost_weight=0.0, cost_model="none")])
def test_a_typical_cost_is_that_of_the_data_whatever_the_scaling(config: CDTConfig) -> None:
    data = plane([(100.0, 0.0)] * 50 + [(200.0, 200.0)] * 50, steps=20)  # costs-to-go of 10, 20, ..., 200: median 105
    plain = replace(config, augmentation=AugmentationConfig(), held_out=0.0)
    drawn = plain.build(data, seed=0)._sampler.draw(np.random.default_rng(0), 20_000)[0].episodes
    costly = 1 / (1 + 200 / 105)
    assert (drawn >= 50).mean() == pytest.approx(costly / (1 + costly), abs=0.01)


def test_relabelled_episodes_ask_for_their_targets() -> None:
    data = random_dataset()
    config = small_config(augmentation=AugmentationConfig(fraction=1.0), held_out=0.0, batch=512, scaling="osrl")
    learner = config.build(data, seed=0)
    rows, shifts = learner._sampler.draw(np.random.default_rng(0), 512)
    assert shifts is not None
    batch = learner._table.gather(rows, shifts)
    first = rows.times[:, 0] == 0
    asked = np.column_stack([batch.steps.coming[:, 0, 0] * 10, 50 - batch.steps.coming[:, 0, 1]])[first]
    real = {tuple(np.round(row, 2)) for row in data.returns}
    beyond = [row for row in asked if tuple(np.round(row, 2).astype(float)) not in real]
    assert beyond  # some segments are relabeled ...
    assert len(beyond) < len(asked)  # ... and some are not
    assert max(row[0] for row in beyond) > data.returns[:, 0].max()


def test_the_learning_rate_rises_then_falls() -> None:
    config = small_config(steps=100, warmup=10, learning_rate=1.0, final_learning_rate=0.1)
    rates = [learning_rate(config, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)
    assert np.argmax(rates) == 9
    assert rates[-1] == pytest.approx(0.1)
    osrl = CDTConfig.osrl()
    assert [learning_rate(osrl, step) for step in (0, 249, 499, 10_000)] == pytest.approx([2e-7, 5e-5, 1e-4, 1e-4])


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


def test_learning_lowers_the_held_out_loss(config: CDTConfig) -> None:
    learner = replace(config, learning_rate=3e-3, steps=60, held_out=0.2).build(random_dataset(episodes=60), seed=0)
    before = learner.validate()["nll"]
    for step in range(60):
        learner.update(step)
    assert learner.validate()["nll"] < before - 0.1


def test_the_presets_survive_a_file() -> None:
    for config in (CDTConfig(), CDTConfig.osrl(), CONFIGS["relabeled"]):
        assert from_plain(CDTConfig, to_plain(config)) == config


@pytest.mark.parametrize(
    "change",
    [
        {"width": 10, "heads": 3},
        {"batch": 0},
        {"dropout": 1.0},
        {"learning_rate": 0.0},
        {"sliding": False, "segment": 20},
        {"cost_weight": 0.1},
        {"cost_model": "share"},
        {"cost_model": "classes", "cost_weight": 0.1, "tokens": 1},
        {"log_std_bounds": (1.0, 1.0)},
        {"temperature": -1.0},
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        CDTConfig(**change)


def test_osrls_preset_refuses_data_it_would_get_wrong() -> None:
    with pytest.raises(DatasetError, match='"share"'):
        small_osrl().build(random_dataset(fractional=True), seed=0)
    costly = random_dataset(episodes=10)
    costly.costs[:] = 1.0
    config = small_osrl(cost_weight=0.0, cost_model="none", augmentation=AugmentationConfig())
    costly.costs[:] = 100.0
    with pytest.raises(DatasetError, match="70 or more"):
        config.build(costly, seed=0)


def test_the_same_seed_gives_the_same_learner_and_another_seed_another(config: CDTConfig) -> None:
    data = random_dataset()
    ends = []
    for seed in (1, 1, 2):
        learner = config.build(data, seed=seed)
        for step in range(3):
            learner.update(step)
        ends.append(torch.cat([p.detach().flatten() for p in learner._network.parameters()]))
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_resuming_goes_on_bit_for_bit(config: CDTConfig) -> None:
    data = random_dataset()
    learner = config.build(data, seed=0)
    for step in range(2):
        learner.update(step)
    tensors, plain = learner.state()
    expected = [float(learner.update(step)["loss"]) for step in (2, 3)]
    again = config.build(data, seed=0)
    again.load_state(tensors, plain)
    assert [float(again.update(step)["loss"]) for step in (2, 3)] == expected
    for ours, theirs in zip(again.policy().tensors().values(), learner.policy().tensors().values(), strict=True):
        assert torch.equal(ours, theirs)


def test_building_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    learner = small_config().build(random_dataset(), seed=0)
    learner.update(0)
    learner.policy()
    assert torch.equal(torch.get_rng_state(), before)
