"""Every loss moves all that it should, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lifesafe.lab.baselines.estimates import squared_errors
from lifesafe.lab.baselines.offline import OfflineLearner
from small_data import small_dataset
from small_methods import CONDITIONED, METHODS

Loss = Callable[[Any, Any], torch.Tensor]


def _cost_critics_of_cpq(learner: Any, batch: Any) -> torch.Tensor:
    return squared_errors(learner.model.cost_critics(batch.pairs), learner.targets(batch)[1])


def _reward_critics_of_cpq(learner: Any, batch: Any) -> torch.Tensor:
    return squared_errors(learner.model.reward_critics(batch.pairs), learner.targets(batch)[0])


def _values_of_coptidice(learner: Any, batch: Any) -> torch.Tensor:
    return torch.as_tensor(learner.value_loss(batch, learner.starts(batch), learner.model.multipliers().detach())[0])


TERMS: dict[tuple[str, str], Loss] = {
    ("bcq-lag", "vae"): lambda learner, batch: learner.vae_loss(batch),
    ("bcq-lag", "critics"): lambda learner, batch: learner.critic_loss(batch),
    ("bcq-lag", "actor"): lambda learner, batch: learner.actor_loss(batch, 0)[0],
    ("bear-lag", "vae"): lambda learner, batch: learner.vae_loss(batch),
    ("bear-lag", "critics"): lambda learner, batch: learner.critic_loss(batch),
    ("bear-lag", "actor"): lambda learner, batch: learner.actor_loss(batch, 0)[0],  # its discrepancy alone
    ("cpq", "vae"): lambda learner, batch: learner.vae_loss(batch),
    ("cpq", "reward_critics"): _reward_critics_of_cpq,
    ("cpq", "cost_critics"): _cost_critics_of_cpq,
    ("cpq", "actor"): lambda learner, batch: learner.actor_loss(batch)[0],
    ("coptidice", "values"): _values_of_coptidice,
    ("coptidice", "actor"): lambda learner, batch: learner.actor_loss(batch, torch.ones(len(batch.actions))),
    ("ccac", "vae"): lambda learner, batch: learner.generator_losses(batch)[0],
    ("ccac", "classifier"): lambda learner, batch: learner.generator_losses(batch)[1],
    ("bc", "actor"): lambda learner, batch: learner.losses(batch).mean(),
}


def learner_of(method: str) -> OfflineLearner:
    learner: OfflineLearner = METHODS[method].build(small_dataset(episodes=100), seed=0)
    return learner


@pytest.mark.parametrize(("method", "part"), TERMS, ids=" ".join)
def test_a_loss_reaches_every_parameter_of_its_part(method: str, part: str) -> None:
    learner = learner_of(method)
    loss = TERMS[method, part](learner, learner.draw())
    named = dict(learner.model.get_submodule(part).named_parameters())
    for name, gradient in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
        assert gradient.abs().max() > 0, name


def moving(method: str) -> set[str]:
    learner = learner_of(method)
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    steps = range(learner.config.steps - 3, learner.config.steps)  # past any warm-up
    for step in steps:
        learner.update(step)
    return {name for name, value in learner.model.state_dict().items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("method", [name for name in METHODS if name not in CONDITIONED])
def test_an_update_moves_every_parameter(method: str) -> None:
    learned = {name for name, _ in learner_of(method).model.named_parameters()}
    assert learned <= moving(method)


@pytest.mark.parametrize("method", ["bcq-lag", "bear-lag", "cpq", "ccac"])
def test_target_networks_follow_slowly(method: str) -> None:
    learner = learner_of(method)
    before = {name: value.clone() for name, value in learner.slow.state_dict().items()}
    assert before
    learner.update(learner.config.steps - 1)
    for name, value in learner.slow.state_dict().items():
        part, _, rest = name.partition(".")
        now = learner.model.get_submodule(part).state_dict()[rest]
        expected = before[name] + learner.config.follow_rate * (now - before[name])
        torch.testing.assert_close(value, expected)
