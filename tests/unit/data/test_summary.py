"""A summary says what a dataset holds."""

import numpy as np
import pytest
from hypothesis import given

from lifesafe.data import Dataset
from lifesafe.data.summary import LEVELS
from lifesafe.returns import Returns
from logs import dataset, datasets, plane


@given(datasets())
def test_the_figures_are_those_of_the_episodes(made: Dataset) -> None:
    summary = made.summary()
    assert summary.episodes == len(made)
    assert summary.transitions == made.transitions
    assert summary.terminated == np.mean([episode.terminated for episode in made])
    rewards = [episode.returns.reward for episode in made]
    assert (summary.rewards[0], summary.rewards[-1]) == pytest.approx((min(rewards), max(rewards)))
    assert summary.lengths == tuple(np.quantile([len(episode) for episode in made], LEVELS))
    assert len(summary.costs) == made.costs.shape[1]


def test_limits_tell_safe_episodes_from_others() -> None:
    summary = plane([(8.0, 0.0), (16.0, 4.0), (12.0, 20.0), (40.0, 24.0)]).summary(limits=20.0)
    assert summary.limits == (20.0,)
    assert summary.under == (0.75,)
    assert summary.safe_episodes == 3
    assert summary.best == Returns(16.0, 4.0)


def test_an_episode_is_safe_if_it_keeps_every_limit() -> None:
    made = dataset(200, costs=2)
    first, second = made.returns[:, 1] <= 3, made.returns[:, 2] <= 2
    summary = made.summary(limits=(3.0, 2.0))
    assert summary.under == (first.mean(), second.mean())
    assert summary.safe_episodes == (first & second).sum() < min(first.sum(), second.sum())
    assert summary.best is not None
    assert summary.best.reward == made.returns[first & second, 0].max()


def test_it_says_so_if_no_episode_is_safe() -> None:
    summary = plane([(8.0, 4.0)]).summary(limits=1.0)
    assert summary.safe_episodes == 0
    assert summary.best is None
    assert str(summary).endswith("no episode keeps every limit")


def test_it_prints_as_a_table() -> None:
    made = plane([(800.0, 0.0), (1600.5, 12.0), (1200.0, 20.0), (4000.0, 24.0)])
    assert str(made.summary(limits=20)) == (
        "4 episodes, 16 transitions; 0.0% of the episodes ended by themselves\n"
        "\n"
        "            least      5 %     25 %   median     75 %     95 %     most\n"
        "reward      800.0    860.0  1,100.0  1,400.2  2,200.4  3,640.1  4,000.0\n"
        "cost         0.00     1.80     9.00    16.00    21.00    23.40    24.00\n"
        "steps           4        4        4        4        4        4        4\n"
        "\n"
        "cost <= 20: 75.0% of the episodes\n"
        "best of the 3 safe episodes: reward 1,600, cost 12"
    )
