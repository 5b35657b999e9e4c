"""The parts that baselines are made of, against what they should compute by definition."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import relu

from lifesafe.lab.baselines.bear_lag import mean_discrepancy
from lifesafe.lab.baselines.coptidice import chosen_weight, soft_chi
from lifesafe.lab.baselines.estimates import (
    PIDMultipliers,
    best_of,
    careful,
    critic_limits,
    lagrangian_loss,
    mixed,
    signs,
    squared_errors,
)
from lifesafe.lab.baselines.networks import ActionVAE, Critics, divergence, follow, gaussian_log_density, target_of
from lifesafe.lab.baselines.transitions import Transitions
from small_data import HORIZON, small_dataset


def test_critics_side_by_side_are_perceptrons_of_their_own() -> None:
    torch.manual_seed(0)
    critics = Critics(5, width=7, depth=2, returns=2, critics=3)
    inputs = torch.randn(4, 5)
    values = critics(inputs)
    assert values.shape == (2, 3, 4)
    for member in range(6):
        rows = slice(7 * member, 7 * (member + 1))
        hidden = relu(inputs @ critics.first.weight[rows].T + critics.first.bias[rows])
        hidden = relu(hidden @ critics.weights[0][member] + critics.biases[0][member])
        expected = (hidden @ critics.weights[1][member] + critics.biases[1][member]).squeeze(1)
        torch.testing.assert_close(values[member // 3, member % 3], expected)


def test_critics_begin_as_linear_layers_do() -> None:
    torch.manual_seed(0)
    critics = Critics(50, width=64, depth=2, returns=1, critics=40)
    for weights, inputs in ((critics.first.weight, 50), (critics.weights[0], 64), (critics.weights[1], 64)):
        assert weights.abs().max() <= 1 / math.sqrt(inputs)
        assert weights.std().item() == pytest.approx(1 / math.sqrt(3 * inputs), rel=0.05)


def test_the_careful_estimate_is_low_for_rewards_and_high_for_costs() -> None:
    values = torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]]])
    torch.testing.assert_close(careful(values, signs(1, optimistic=False)), torch.tensor([[1.0], [5.0]]))
    torch.testing.assert_close(careful(values, signs(1, optimistic=True)), torch.tensor([[1.0], [3.0]]))


def test_a_mixture_leans_to_the_careful_side() -> None:
    values = torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]]])
    torch.testing.assert_close(mixed(values, signs(1, optimistic=False), 0.75), torch.tensor([[1.25], [4.5]]))
    torch.testing.assert_close(mixed(values, signs(1, optimistic=True), 0.75), torch.tensor([[1.25], [3.5]]))


def test_with_four_critics_each_half_counts_by_its_lesser() -> None:
    values = torch.tensor([[[4.0], [1.0], [3.0], [2.0]]])
    torch.testing.assert_close(mixed(values, signs(0, optimistic=True), 0.75), torch.tensor([[0.75 * 1 + 0.25 * 2]]))


def test_the_best_choice_weighs_reward_and_costs() -> None:
    estimates = torch.tensor([[[3.0, 2.0, 1.0]], [[4.0, 1.0, 0.0]]])  # one row, three choices
    torch.testing.assert_close(best_of(estimates, torch.tensor([0.0])), torch.tensor([[3.0], [4.0]]))
    torch.testing.assert_close(best_of(estimates, torch.tensor([0.5])), torch.tensor([[2.0], [1.0]]))
    torch.testing.assert_close(best_of(estimates, torch.tensor([9.0])), torch.tensor([[1.0], [0.0]]))


def test_errors_are_summed_over_critics_and_averaged_over_rows() -> None:
    values, targets = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[1.0, 1.0]])
    assert squared_errors(values, targets).item() == pytest.approx((0 + 1) / 2 + (4 + 9) / 2)


@pytest.mark.parametrize(("one_sided", "values"), [(False, [0.53, 0.865, 0.0]), (True, [0.53, 0.865, 0.1])])
def test_multipliers_follow_the_pid_rule(one_sided: bool, values: list[float]) -> None:
    multipliers = PIDMultipliers((10.0,), (0.1, 0.1, 0.065), one_sided=one_sided)
    for cost, value in zip((12.0, 13.0, 6.0), values, strict=True):
        multipliers.update(torch.tensor([cost]))
        assert multipliers.values.item() == pytest.approx(value, abs=1e-6)
    assert multipliers.integrals.item() == pytest.approx(1.0)


def test_the_actor_pays_for_excess_costs() -> None:
    multipliers = PIDMultipliers((10.0, 1.0), (1.0, 0.0, 0.0))
    multipliers.update(torch.tensor([12.0, 4.0]))
    expected = torch.tensor([[5.0, 7.0], [11.0, 13.0], [2.0, 2.0]])
    loss = 2 * (12 - 10) + 3 * (2 - 1) - 6
    assert lagrangian_loss(expected, multipliers, rescaled=False).item() == pytest.approx(loss)
    assert lagrangian_loss(expected, multipliers, rescaled=True).item() == pytest.approx(loss / 6)


def test_critic_limits_are_discounted_sums_of_even_costs() -> None:
    for horizon, finite in ((200, 8.660), (300, 6.340), (500, 3.974), (1000, 2.000)):  # facts.md, C0
        assert critic_limits([20], horizon=horizon, discount=0.99, finite=True)[0] == pytest.approx(finite, abs=1e-3)
        summed = sum(0.99**step * 20 / horizon for step in range(20_000))
        assert critic_limits([20], horizon=horizon, discount=0.99, finite=False)[0] == pytest.approx(summed)


def test_divergence_and_density_agree_with_torch() -> None:
    torch.manual_seed(0)
    means, stds, values = torch.randn(5, 3), torch.rand(5, 3) + 0.1, torch.randn(5, 3)
    expected = kl_divergence(Normal(means, stds), Normal(torch.zeros(()), torch.ones(()))).mean(-1)
    torch.testing.assert_close(divergence(means, stds), expected)
    torch.testing.assert_close(gaussian_log_density(values, means, stds), Normal(means, stds).log_prob(values).sum(-1))


def test_the_discrepancy_of_a_sample_with_itself_is_nothing_and_grows_with_distance() -> None:
    torch.manual_seed(0)
    sample = torch.randn(6, 10, 2)
    distances = [mean_discrepancy(sample, sample + shift, 50.0).mean().item() for shift in (0.0, 0.5, 1.0, 2.0)]
    assert distances[0] == pytest.approx(1e-3, abs=1e-4)  # the root of what keeps it differentiable
    assert distances == sorted(distances)


def test_the_soft_chi_square_and_its_weights_belong_together() -> None:
    advantages = torch.linspace(-3, 3, 25, dtype=torch.float64)
    weights = chosen_weight(advantages).requires_grad_()
    (slopes,) = torch.autograd.grad(soft_chi(weights).sum(), weights)
    torch.testing.assert_close(slopes, advantages, rtol=0, atol=1e-6)
    assert soft_chi(torch.ones(1)).item() == pytest.approx(0, abs=1e-6)


def test_a_vae_learns_to_imitate() -> None:
    torch.manual_seed(0)
    vae = ActionVAE(2, 1, 32, latent=2)
    optimizer = torch.optim.Adam(vae.parameters(), lr=3e-3)
    for _ in range(300):
        observations = torch.randn(64, 2)
        actions = torch.tanh(observations[:, :1])
        loss = vae.loss(torch.cat([observations, actions], dim=1), actions, torch.randn(64, 2), 0.5)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    observations = torch.randn(200, 2)
    errors = vae.decode(observations, torch.zeros(200, 2)) - torch.tanh(observations[:, :1])
    assert errors.square().mean() < 0.02


def test_targets_follow_and_no_gradient_reaches_them() -> None:
    network = torch.nn.Linear(2, 1)
    target = target_of(network)
    with torch.no_grad():
        network.weight += 1.0
    follow(target, network, 0.25)
    torch.testing.assert_close(target.weight, network.weight - 0.75)
    assert not any(parameter.requires_grad for parameter in target.parameters())


@pytest.mark.parametrize(("ends", "count"), [("terminals", 8), ("episodes", 40), ("never", 0)])
def test_transitions_know_where_critics_stop(ends: str, count: int) -> None:
    dataset = small_dataset(2, episodes=40)
    transitions = Transitions.from_dataset(
        dataset,
        torch.device("cpu"),
        reward_scale=0.1,
        reward_ends="never",
        cost_ends=ends,  # type: ignore[arg-type]
    )
    batch = transitions.batch(torch.arange(len(transitions)))
    assert (batch.goes_on[:, 0] == 1).all()
    assert int((1 - batch.goes_on[:, 1:]).sum()) == 2 * count
    assert int(batch.initial.sum()) == 40


def test_a_batch_is_the_logged_transitions() -> None:
    dataset = small_dataset(2)
    extra = np.arange(dataset.transitions, dtype=np.float32)[:, None]
    transitions = Transitions.from_dataset(
        dataset, torch.device("cpu"), reward_scale=0.1, reward_ends="terminals", cost_ends="never", extra=extra
    )
    rows = torch.tensor([3, 0, HORIZON])
    batch = transitions.batch(rows)
    np.testing.assert_array_equal(batch.observations, dataset.observations[rows])
    np.testing.assert_array_equal(batch.actions, dataset.actions[rows])
    np.testing.assert_array_equal(batch.pairs, np.hstack([dataset.observations[rows], dataset.actions[rows]]))
    np.testing.assert_array_equal(batch.next_observations, dataset.next_observations[rows])
    np.testing.assert_allclose(batch.returns[:, 0], 0.1 * dataset.rewards[rows], rtol=1e-6)
    np.testing.assert_array_equal(batch.returns[:, 1:], dataset.costs[rows])
    np.testing.assert_array_equal(batch.initial, [0, 1, 1])
    np.testing.assert_array_equal(batch.extra[:, 0], rows)
