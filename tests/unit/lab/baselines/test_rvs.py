import math
from typing import Any

import numpy as np
import pytest
import torch

from lifesafe.errors import ConfigError
from lifesafe.lab.baselines import RvSConfig
from lifesafe.lab.baselines.rvs import RvSLearner
from lifesafe.returns import Returns
from small_data import HORIZON, small_dataset

SMALL = RvSConfig(steps=50, batch=64, width=16)


@pytest.mark.parametrize(
    ("name", "value"),
    [("depth", 0), ("learning_rate", 0.0), ("learning_rate", math.nan), ("weight_decay", -1.0), ("dropout", 1.0)],
)
def test_an_impossible_setting_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        RvSConfig(**{name: value})


@pytest.mark.parametrize("costs", [1, 2])
def test_the_loss_moves_every_parameter(costs: int) -> None:
    learner = RvSConfig(width=16, dropout=0.0, batch=256).build(small_dataset(costs), seed=0)
    learner.update(0)
    gradients = {name: parameter.grad for name, parameter in learner._network.named_parameters()}
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in gradients.values()), gradients
    first = gradients["layers.0.weight"]
    assert first is not None
    assert (first.abs().sum(dim=0) > 0).all()  # every observation, every return and the time are looked at


def test_the_loss_is_the_negative_log_likelihood_per_entry_of_an_action() -> None:
    learner = RvSConfig(width=4, dropout=0.0).build(small_dataset(), seed=0)
    inputs, actions = (column[:20] for column in learner._columns)
    normal = torch.distributions.Normal(learner._network(inputs), learner._network.log_stds.exp())
    torch.testing.assert_close(learner._losses(torch.arange(20))[0], -normal.log_prob(actions).mean(-1))


def test_the_network_sees_what_the_rest_of_the_episode_brought() -> None:
    dataset = small_dataset(2)
    learner = SMALL.build(dataset, seed=0)
    inputs = learner._inputs
    episode, begin = dataset[3], dataset.offsets[3]
    for step in (0, 4, len(episode) - 1):
        rest = np.array([[episode.rewards[step:].sum(), *episode.costs[step:].sum(axis=0)]], dtype=np.float64)
        seen = torch.from_numpy(episode.observations[step : step + 1])
        expected = inputs(seen, torch.from_numpy(rest), torch.tensor([step]))
        torch.testing.assert_close(learner._columns[0][begin + step][None], expected, rtol=1e-5, atol=1e-5)
        assert expected[0, -1] == pytest.approx(step / HORIZON)


def test_asking_for_more_than_was_seen_means_asking_for_the_most() -> None:
    policy, most = SMALL.build(small_dataset(), seed=0).policy(), small_dataset().returns.max(axis=0)
    seen = np.zeros((2, 3), dtype=np.float32)
    actions = policy.actor([Returns(*most), Returns(*(10 * most))]).act(seen)
    np.testing.assert_array_equal(actions[0], actions[1])


def test_a_trained_policy_does_what_the_target_says() -> None:
    config = RvSConfig(steps=600, batch=128, width=64, learning_rate=3e-3)
    learner = config.build(small_dataset(episodes=200), seed=0)
    for step in range(config.steps):
        learner.update(step)
    # In the data, daring is an episode's own, and shows in its reward: see small_data.
    actions = learner.policy().actor([Returns(1.0, 0.0), Returns(12.0, 9.0)]).act(np.zeros((2, 3), dtype=np.float32))
    assert actions[0].mean() < 0.2
    assert actions[1].mean() > 0.35


def test_held_out_episodes_are_not_trained_on() -> None:
    learner = RvSConfig(width=8, held_out=0.25).build(small_dataset(), seed=0)
    rows, held_out = set(learner._rows.tolist()), set(learner._held_out.tolist())
    assert not rows & held_out
    assert rows | held_out == set(range(small_dataset().transitions))


def test_held_out_metrics_are_means_over_transitions_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = RvSConfig(width=8, held_out=0.5).build(small_dataset(), seed=0)
    whole = learner.validate()
    monkeypatch.setattr("lifesafe.lab.baselines.rvs._CHUNK", 17)
    assert learner.validate() == pytest.approx(whole, rel=1e-5)


def test_the_spread_stays_within_bounds() -> None:
    dataset = small_dataset()
    dataset.actions[:] = 0.5
    learner: RvSLearner = RvSConfig(steps=100, width=8, learning_rate=0.5).build(dataset, seed=0)
    for step in range(50):
        learner.update(step)
    assert learner._network.log_stds.min() >= -5
