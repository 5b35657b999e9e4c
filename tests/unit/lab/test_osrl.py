"""OSRL's CDT, beyond what the reference test and the contracts cover: its rules, and the data that it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.data import Dataset
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.lab.methods import method_config
from lifesafe.lab.osrl import OSRLCDTConfig, pareto_front, relabel_front, scaled, thin
from small_cdt import random_dataset

SMALL = OSRLCDTConfig(batch=8, width=16, layers=2, heads=2, context=3)


def test_settings_are_those_of_the_task() -> None:
    hopper, other = (method_config("cdt-osrl", limits=(), task=task) for task in ("HopperVelocity", "Mine"))
    assert hopper == OSRLCDTConfig(degree=1, largest_reward=2000.0, largest_drop=300.0)
    assert other == OSRLCDTConfig()


def test_the_network_sees_osrls_scales() -> None:
    shown = scaled(torch.tensor([[300.0, 20.0], [0.0, 60.0]]))
    np.testing.assert_allclose(shown, [[30.0, 30.0], [0.0, -10.0]])


def costing(costs: list[int]) -> Dataset:
    """Episodes of 100 steps that cost so much each."""
    rows = np.arange(100 * len(costs))
    return Dataset.from_arrays(
        observations=np.random.default_rng(0).normal(size=(len(rows), 4)),
        actions=np.zeros((len(rows), 2)),
        rewards=np.ones(len(rows)),
        costs=(rows % 100 < np.repeat(costs, 100)).astype(float),
        terminals=np.zeros(len(rows)),
        timeouts=rows % 100 == 99,
    )


def test_episodes_that_cost_70_or_more_are_never_drawn() -> None:
    plain = replace(SMALL, relabeled=0.0, held_out=0.0)
    learner = plain.build(costing([0, 69, 70, 100]), seed=0)
    drawn = learner._segments.draw(np.random.default_rng(0), 10_000).episodes
    assert set(drawn.tolist()) == {0, 1}
    assert (drawn == 1).mean() == pytest.approx(1 / 71, abs=0.005)
    with pytest.raises(DatasetError, match="70 or more"):
        plain.build(costing([70, 80]), seed=0)


def test_data_that_osrl_would_get_wrong_are_refused() -> None:
    for data in (random_dataset(fractional=True), random_dataset(costs=2)):
        with pytest.raises(DatasetError, match="one cost that is 0 or 1"):
            SMALL.build(data, seed=0)


@pytest.mark.parametrize("change", [{"batch": 0}, {"temperature": 0.0}, {"relabeled": -0.1}, {"dropout": 1.0}])
def test_impossible_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        OSRLCDTConfig(**change)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=30))
def test_the_front_holds_exactly_the_episodes_that_none_beats(points: list[tuple[int, int]]) -> None:
    returns = np.array(points, dtype=float)
    rewards, costs = returns.T
    beaten = (
        (rewards[None] >= rewards[:, None])
        & (costs[None] <= costs[:, None])
        & ((rewards[None] > rewards[:, None]) | (costs[None] < costs[:, None]))
    ).any(axis=1)
    front = pareto_front(rewards, costs)
    assert sorted(front) == sorted(np.flatnonzero(~beaten))
    assert (np.diff(costs[front]) >= 0).all()


def test_osrls_rule_by_hand() -> None:
    # Three cells of three episodes each, so that nothing is thinned out; the front is the line R = 100 + C.
    returns = np.array([[100.0 + c, c] for c in (0.0, 50.0, 100.0) for _ in range(3)])
    config = OSRLCDTConfig(relabeled=0.5, degree=1, largest_reward=400.0)
    made = relabel_front(returns, config, np.random.default_rng(0))
    np.testing.assert_allclose(made.targets[:, 1], [0, 100 / 3, 200 / 3, 100])
    assert (made.targets[:, 0] >= 101 + made.targets[:, 1] - 1e-6).all()
    assert (made.targets[:, 0] <= 400).all()
    # Nearest in plain distance among those that cost no more: C = 0, 0, 50, 100; the second C = 0 gets a stand-in.
    np.testing.assert_allclose(returns[made.episodes, 1], [0, 0, 50, 100])


def test_thinning_keeps_ten_of_a_full_cell_and_none_of_a_nearly_empty_one() -> None:
    returns = np.array([[0.0, 0.0]] * 30 + [[100.0, 100.0]] * 3 + [[50.0, 50.0]] * 2)
    kept = thin(returns, np.random.default_rng(0))
    assert (kept < 30).sum() == 10
    assert kept[-3:].tolist() == [30, 31, 32]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_odd_data_never_give_nan(points: list[tuple[int, int]]) -> None:
    returns = np.array(points * 3, dtype=float)
    made = relabel_front(returns, replace(SMALL, relabeled=0.5, largest_reward=10.0), np.random.default_rng(0))
    assert np.isfinite(made.targets).all()
    assert (returns[made.episodes, 1] <= made.targets[:, 1] + 1e-9).all()
