"""Behavior cloning: whom it imitates."""

import numpy as np
import pytest

from lifesafe.errors import ConfigError, DatasetError
from lifesafe.lab.baselines.bc import BCConfig, near_best
from small_data import small_dataset


def test_safe_episodes_keep_every_limit() -> None:
    dataset = small_dataset(2, episodes=100)
    chosen = BCConfig(episodes="safe", limits=(4.0, 2.0)).chosen(dataset)
    assert 0 < len(chosen) < len(dataset)
    assert (chosen.returns[:, 1:] <= (4.0, 2.0)).all()
    assert len(chosen) == (dataset.returns[:, 1:] <= (4.0, 2.0)).all(axis=1).sum()


def test_the_frontier_earned_the_most_at_its_cost() -> None:
    returns = np.array([[5.0, 1.0], [4.9, 1.0], [3.0, 1.0], [9.0, 3.0], [10.0, 2.0], [0.0, 0.0]])
    assert near_best(returns, slack=0.0).tolist() == [0, 4, 5]
    assert near_best(returns, slack=0.02).tolist() == [0, 1, 4, 5]
    assert near_best(returns, slack=1.0).tolist() == list(range(6))


def test_all_means_all() -> None:
    dataset = small_dataset()
    assert BCConfig().chosen(dataset) is dataset


def test_limits_that_nobody_kept_are_refused_with_the_least_costs() -> None:
    dataset = small_dataset(episodes=100)
    dataset = dataset.select(np.flatnonzero(dataset.returns[:, 1] > 2))
    with pytest.raises(DatasetError, match=r"0 of \d+ episodes keep the limits \(1.0,\), the least costs are \[4.0\]"):
        BCConfig(episodes="safe", limits=(1.0,)).chosen(dataset)


def test_a_frontier_of_one_episode_is_refused() -> None:
    dataset = small_dataset(episodes=100)
    best = np.argmax(dataset.returns[:, 0] - 1000 * dataset.returns[:, 1])
    worse = np.flatnonzero(dataset.returns[:, 0] < dataset.returns[best, 0] - 1)
    dataset = dataset.select(np.append(worse, best))
    with pytest.raises(DatasetError, match=r"1 of \d+ episodes earned nearly the most.* Give more slack than 0.0"):
        BCConfig(episodes="frontier", slack=0.0).chosen(dataset)


def test_one_limit_per_cost_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="2 costs"):
        BCConfig(episodes="safe", limits=(1.0,)).chosen(small_dataset(2))
