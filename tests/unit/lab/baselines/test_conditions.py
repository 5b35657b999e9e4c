"""CCAC: what it is told about the cost to come, and what it refuses."""

import numpy as np
import pytest
import torch

from lifesafe.data.segments import returns_to_go
from lifesafe.errors import DatasetError
from lifesafe.lab.baselines.ccac import CCACConfig, Conditions
from lifesafe.returns import Returns
from small_data import HORIZON, small_dataset
from small_methods import METHODS


def test_the_condition_is_the_cost_that_came() -> None:
    dataset = small_dataset()
    columns = Conditions.from_dataset(dataset, CCACConfig.osrl()).columns(dataset)
    coming = returns_to_go(dataset)[:, 1]
    np.testing.assert_allclose(columns[:, 0], coming)
    last = dataset.offsets[1:] - 1
    following = np.append(coming[1:], 0.0)
    following[last] = 0.0
    np.testing.assert_allclose(columns[:, 1], following)
    np.testing.assert_allclose(columns[:, 2], coming)  # the authors compare it as it is


def test_what_critics_are_compared_with_is_discounted_over_the_steps_left() -> None:
    dataset, config = small_dataset(), CCACConfig(discount=0.9)
    columns = Conditions.from_dataset(dataset, config).columns(dataset)
    coming = returns_to_go(dataset)[:, 1]
    for step in (0, 5, HORIZON - 1):  # of the first episode, which is a whole one
        left = HORIZON - step
        even = sum(0.9**later * coming[step] / left for later in range(left))
        assert columns[step, 2] == pytest.approx(even)


def test_networks_see_shares_of_the_largest_cost() -> None:
    dataset = small_dataset()
    columns = Conditions.from_dataset(dataset, CCACConfig()).columns(dataset)
    assert columns[:, 0].max() == pytest.approx(1)
    assert columns[:, :2].min() >= 0


def test_acting_counts_down_the_cost_that_is_left() -> None:
    policy = METHODS["ccac"].build(small_dataset(), seed=0).policy()
    actor = policy.actor([Returns(0.0, 4.0), Returns(0.0, 3.0)])
    seen = np.zeros((2, 3), dtype=np.float32)
    first = actor.act(seen)
    assert not np.allclose(first[0], first[1])
    actor.observe(np.zeros(2), np.array([[1.0], [0.0]]))
    again = actor.act(seen)
    np.testing.assert_array_equal(again[0], again[1])  # both have 3 left
    actor.observe(np.zeros(2), np.array([[9.0], [3.0]]))
    spent = actor.act(seen)
    np.testing.assert_array_equal(spent[0], spent[1])  # nothing left, and no debt


def test_several_costs_are_refused() -> None:
    with pytest.raises(DatasetError, match="one cost"):
        CCACConfig().build(small_dataset(2), seed=0)


def test_generated_pairs_stay_within_the_data() -> None:
    learner = METHODS["ccac"].build(small_dataset(), seed=0)
    pairs, shares = learner.unknown(learner.draw())
    observations = learner.transitions.rows[:, :3]
    assert (pairs[:, :3] >= observations.amin(0) - 1e-6).all()
    assert (pairs[:, :3] <= observations.amax(0) + 1e-6).all()
    assert shares.sum().item() == pytest.approx(1, abs=1e-5) or torch.equal(shares, torch.zeros_like(shares))
