"""Scripted behaviors: logs that fill the plane, white noise, and the best that is known."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lifesafe.data.dataset import Dataset
from lifesafe.errors import ConfigError
from lifesafe.returns import Returns
from lifesafe.systems.simulators.behaviors import Behavior, Driver, collect, draw, drive
from lifesafe.systems.simulators.point_circle import HORIZON, TASK, Physics, PointCircle
from unit.systems.best_drivers import BEST, RESULTS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return collect()


def test_the_default_dataset_has_whole_episodes(dataset: Dataset) -> None:
    assert len(dataset) == 1500
    assert (dataset.lengths == HORIZON).all()
    assert not dataset.terminated.any()
    assert dataset.costs.max() == TASK.largest_costs[0]
    assert np.abs(dataset.actions).max() <= 1
    inner = np.delete(np.arange(dataset.transitions), dataset.offsets[1:] - 1)
    np.testing.assert_array_equal(dataset.next_observations[inner], dataset.observations[inner + 1])


def test_the_reference_returns_are_those_of_the_default_dataset(dataset: Dataset) -> None:
    rewards = dataset.returns[:, 0]
    assert TASK.reference == pytest.approx((rewards.min(), rewards.max()), rel=1e-4)


def test_the_seed_decides_the_data_and_a_smaller_dataset_is_the_beginning_of_a_larger_one() -> None:
    assert collect(10, seed=3).fingerprint == collect(30, seed=3).select(range(10)).fingerprint
    assert collect(10, seed=3).fingerprint != collect(10, seed=4).fingerprint
    assert collect(50, physics=Physics(friction=2.0)).rewards.mean() < collect(50).rewards.mean()


def test_replaying_the_logged_actions_gives_the_logged_rewards() -> None:
    """What is logged is what was done: the clipped, rounded action."""
    driven = drive([draw(7)], [11])
    points, row = PointCircle(1), np.arange(1)
    points.reset(row, [11])
    for time in range(HORIZON):
        step = points.step(row, driven.actions[time : time + 1])
        assert np.float32(step.rewards[0]) == driven.rewards[time]
        np.testing.assert_array_equal(step.observations[0], driven.next_observations[time])


def test_the_data_fill_the_plane_of_cost_and_reward(dataset: Dataset) -> None:
    rewards, costs = dataset.returns.T
    edges = [0, 1, 10, 20, 30, 40, 60, 80, 100]
    assert np.histogram(costs, edges)[0].min() >= 30
    assert costs.max() > 5 * TASK.limits[0]
    for low, high in pairwise(edges):
        here = rewards[(costs >= low) & (costs < high)]
        assert np.quantile(here, 0.9) > 1.4 * np.quantile(here, 0.1)
    frontier = [rewards[costs <= cost].max() for cost in (0, 20, 40, 60, 80, 100)]
    assert (np.diff(frontier) > 5).all()
    share = rewards / np.interp(costs, [0, 96], [BEST[0.0][1], BEST[math.inf][1]])
    assert 0.005 < (share > 0.95).mean() < 0.08, "sparse near the best"
    assert ((share > 0.4) & (share < 0.8)).mean() > 0.4, "dense in the middle"


def test_noise_is_white() -> None:
    """Of a driver that stands still (no speed, no gain) all pushes are noise: no step tells of the next."""
    idle = drive([Behavior(speed=0.0, gain=0.0, noise=0.3)] * 50, range(50))
    pushes = idle.actions.reshape(50, HORIZON, 2).astype(float)
    assert pushes.std() == pytest.approx(0.3, rel=0.05)
    for lag in (1, 2, 5):
        correlation = (pushes[:, lag:] * pushes[:, :-lag]).mean() / pushes.var()
        assert abs(correlation) < 4 / math.sqrt(pushes[:, lag:].size)


def test_noise_differs_between_rows_and_episodes() -> None:
    idle, seen = Behavior(speed=0.0, gain=0.0, noise=0.3), np.zeros((2, 5), dtype=np.float32)
    driver = idle.actor([Returns(0, 0)] * 2)
    first = driver.act(seen)
    driver.restart([Returns(0, 0)], np.array([0]))
    again = driver.act(seen[:1], np.array([0]))
    assert not np.isclose(first[0], first[1]).any()
    assert not np.isclose(first[0], again[0]).any()


def test_rows_of_a_driver_do_not_feel_each_other() -> None:
    behaviors, seeds = [draw(seed) for seed in range(4)], [5, 6, 7, 8]
    together, alone = Driver(behaviors, seeds), Driver(behaviors, seeds)
    for seen in np.random.default_rng(0).normal(0, 0.5, (20, 4, 5)).astype(np.float32):
        expected = together.act(seen)
        for row in (2, 0, 3, 1):
            np.testing.assert_array_equal(alone.act(seen[[row]], np.array([row]))[0], expected[row])


def test_boldness_sets_the_mean_cost() -> None:
    costs = [drive([Behavior(boldness=boldness)] * 100, range(100)).returns[:, 1].mean() for boldness in (0, 0.5, 1)]
    assert costs[0] < 5
    assert costs[1] == pytest.approx(costs[2] / 2, rel=0.15)


@pytest.mark.parametrize("limit", BEST)
def test_the_committed_drivers_reach_the_committed_returns(limit: float) -> None:
    driver, reward = BEST[limit]
    rewards, costs = drive([driver] * 400, range(10_000, 10_400)).returns.T
    assert rewards.mean() == pytest.approx(reward, abs=4 * rewards.std() / math.sqrt(400))
    assert costs.mean() <= limit + 4 * costs.std() / math.sqrt(400)


def test_the_page_shows_the_committed_table() -> None:
    table = (RESULTS / "best_safe.md").read_text(encoding="utf-8")
    assert f"<!-- best -->\n\n{table}\n<!-- end -->" in (ROOT / "docs" / "point-circle.md").read_text(encoding="utf-8")


def test_no_episode_of_the_data_is_far_above_the_best_known(dataset: Dataset) -> None:
    """An episode may be lucky, but a behavior drawn at random must not beat the best that is known."""
    rewards, costs = dataset.returns.T
    assert rewards.max() < BEST[math.inf][1] + 4 * 15
    assert rewards[costs == 0].max() < BEST[0.0][1] + 4 * 11


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one episode; got episodes = 0"):
        collect(0)
    with pytest.raises(ConfigError, match="2 behaviors and 1 seeds"):
        Driver([Behavior()] * 2, [0])
