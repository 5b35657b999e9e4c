"""What every learner promises, whatever the method."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lifesafe._config import from_plain, to_plain
from lifesafe.data import Dataset
from lifesafe.policies import Learner, StoredPolicy
from lifesafe.policies.checkpoint import tensor_bytes
from small_data import HORIZON, small_dataset
from small_methods import METHODS, SUPERVISED, case_name, cases, for_costs


@pytest.fixture
def config(case: tuple[str, int]) -> Any:
    method, costs = case
    return for_costs(METHODS[method], costs)


@pytest.fixture
def dataset(costs: int) -> Dataset:
    return small_dataset(costs)


def run(learner: Learner, begin: int, end: int) -> list[dict[str, float]]:
    """Take some steps; dropout may draw from torch's global generator, which `train` would look after."""
    torch.manual_seed(begin)
    return [{name: float(value) for name, value in learner.update(step).items()} for step in range(begin, end)]


def built(config: Any, dataset: Dataset, seed: int = 3) -> Learner:
    return config.build(dataset, seed=seed)  # type: ignore[no-any-return]


def weights(policy: StoredPolicy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.tensors().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("case", cases(SUPERVISED), ids=case_name)
def test_learning_lowers_the_loss_and_raises_the_likelihood_of_held_out_episodes(config: Any, costs: int) -> None:
    learner = built(replace(config, steps=200, learning_rate=1e-3), small_dataset(costs, episodes=200))
    before = learner.validate()["nll"]
    losses = [metrics["loss"] for metrics in run(learner, 0, 120)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.1
    assert learner.validate()["nll"] < before - 0.1


def test_metrics_are_detached_and_have_no_dimensions(config: Any, dataset: Dataset) -> None:
    learner = built(config, dataset)
    metrics = learner.update(0)
    before = {name: float(value) for name, value in metrics.items()}
    assert "loss" in metrics
    for value in metrics.values():
        assert value.shape == ()
        assert not value.requires_grad
    learner.update(1)
    assert {name: float(value) for name, value in metrics.items()} == before  # the next step overwrites nothing


def test_the_same_seed_gives_the_same_weights(config: Any, dataset: Dataset) -> None:
    first = built(config, dataset)
    torch.manual_seed(99)  # matters to nobody
    again = built(config, dataset)
    assert same(weights(first.policy()), weights(again.policy()))
    losses = run(first, 0, 10)
    assert run(again, 0, 10) == losses
    assert same(weights(first.policy()), weights(again.policy()))


def test_another_seed_gives_other_weights_and_batches(config: Any, dataset: Dataset) -> None:
    first, other = built(config, dataset, seed=3), built(config, dataset, seed=4)
    assert not same(weights(first.policy()), weights(other.policy()))
    assert run(first, 0, 3) != run(other, 0, 3)


def test_a_restored_learner_goes_on_bit_by_bit(config: Any, dataset: Dataset) -> None:
    learner = built(config, dataset)
    run(learner, 0, 7)
    tensors, plain = learner.state()
    held = tensor_bytes(tensors)
    expected = run(learner, 7, 15)
    assert tensor_bytes(tensors) == held  # the state is a copy

    other = built(config, dataset)
    run(other, 0, 3)
    other.load_state(tensors, plain)
    assert run(other, 7, 15) == expected
    assert same(weights(other.policy()), weights(learner.policy()))
    assert tensor_bytes(other.state()[0]) == tensor_bytes(learner.state()[0])
    assert other.state()[1] == learner.state()[1]


def test_validation_changes_nothing(config: Any, dataset: Dataset) -> None:
    learner, other = built(config, dataset), built(config, dataset)
    run(learner, 0, 3)
    run(other, 0, 3)
    before = torch.get_rng_state()
    first = learner.validate()
    assert learner.validate() == first
    assert torch.equal(torch.get_rng_state(), before)
    assert tensor_bytes(learner.state()[0]) == tensor_bytes(other.state()[0])
    expected = run(learner, 3, 8)
    assert run(other, 3, 8) == expected


def test_a_policy_is_a_snapshot(config: Any, dataset: Dataset) -> None:
    learner = built(config, dataset)
    policy = learner.policy()
    before = weights(policy)
    run(learner, 0, 3)
    assert same(weights(policy), before)
    assert not same(weights(learner.policy()), before)


def test_taking_a_policy_draws_nothing(config: Any, dataset: Dataset) -> None:
    learner = built(config, dataset)
    run(learner, 0, 2)
    tensors, before = learner.state()[0], torch.get_rng_state()
    assert learner.policy().config == config
    assert torch.equal(torch.get_rng_state(), before)
    assert tensor_bytes(learner.state()[0]) == tensor_bytes(tensors)


def test_episodes_of_a_single_step_can_be_learned_from(config: Any, costs: int) -> None:
    dataset = small_dataset(costs, episodes=20)
    rows = np.arange(dataset.transitions)
    singles = Dataset.from_arrays(
        observations=dataset.observations,
        actions=dataset.actions,
        rewards=dataset.rewards,
        costs=dataset.costs,
        terminals=rows % HORIZON < 3,
        timeouts=rows == rows[-1],
    )
    assert np.isfinite([metrics["loss"] for metrics in run(built(config, singles), 0, 3)]).all()


def test_columns_that_never_change_do_no_harm(config: Any, dataset: Dataset) -> None:
    flat = replace(
        dataset,
        observations=np.ones_like(dataset.observations),
        next_observations=np.ones_like(dataset.observations),
        costs=np.zeros_like(dataset.costs),
        rewards=np.zeros_like(dataset.rewards),
    )
    learner = built(config, flat)
    assert np.isfinite([metrics["loss"] for metrics in run(learner, 0, 3)]).all()
    assert np.isfinite(list(learner.validate().values())).all()


def test_read_only_data_can_be_learned_from(config: Any, dataset: Dataset) -> None:
    for name in ("observations", "actions", "rewards", "costs"):
        getattr(dataset, name).setflags(write=False)
    run(built(config, dataset), 0, 2)


def test_a_config_comes_back_from_plain_values(config: Any) -> None:
    assert from_plain(type(config), to_plain(config)) == config
