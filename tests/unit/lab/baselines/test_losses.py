"""An update moves all that learns, each part by a loss of its own, and target networks follow."""

import pytest
import torch

from lifesafe.lab.baselines.offline import OfflineLearner
from small_data import small_dataset
from small_methods import CONDITIONED, METHODS


def learner_of(method: str) -> OfflineLearner:
    learner: OfflineLearner = METHODS[method].build(small_dataset(episodes=100), seed=0)
    return learner


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
