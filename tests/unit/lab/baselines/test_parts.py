"""The parts that baselines are made of, against what they should compute by definition."""

import math

import numpy as np
import pytest
import torch

from lifesafe.lab.baselines.coptidice import chosen_weight, soft_chi
from lifesafe.lab.baselines.estimates import (
    PIDMultipliers,
    best_of,
    careful,
    critic_limits,
    lagrangian_loss,
    mixed,
    signs,
)
from lifesafe.lab.baselines.networks import Critics
from lifesafe.lab.baselines.transitions import Transitions
from small_data import HORIZON, small_dataset


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


def test_the_best_choice_weighs_reward_and_costs() -> None:
    estimates = torch.tensor([[[3.0, 2.0, 1.0]], [[4.0, 1.0, 0.0]]])  # one row, three choices
    torch.testing.assert_close(best_of(estimates, torch.tensor([0.0])), torch.tensor([[3.0], [4.0]]))
    torch.testing.assert_close(best_of(estimates, torch.tensor([0.5])), torch.tensor([[2.0], [1.0]]))
    torch.testing.assert_close(best_of(estimates, torch.tensor([9.0])), torch.tensor([[1.0], [0.0]]))


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


def test_the_soft_chi_square_and_its_weights_belong_together() -> None:
    advantages = torch.linspace(-3, 3, 25, dtype=torch.float64)
    weights = chosen_weight(advantages).requires_grad_()
    (slopes,) = torch.autograd.grad(soft_chi(weights).sum(), weights)
    torch.testing.assert_close(slopes, advantages, rtol=0, atol=1e-6)
    assert soft_chi(torch.ones(1)).item() == pytest.approx(0, abs=1e-6)


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
