"""Scaling of observations and returns-to-go."""

import json

import numpy as np
import pytest
import torch

from lifesafe.data import Dataset
from lifesafe.data.segments import Segments, returns_to_go
from lifesafe.policies.cdt.batches import Table
from lifesafe.policies.scaling import Scaling
from small_cdt import random_dataset


def scaled_dataset(rewards: float, costs: float, observations: float, shift: float) -> Dataset:
    data = random_dataset()
    return Dataset(
        observations=data.observations * np.float32(observations) + np.float32(shift),
        actions=data.actions,
        rewards=data.rewards * np.float32(rewards),
        costs=data.costs * np.float32(costs),
        next_observations=data.next_observations,
        terminated=data.terminated,
        offsets=data.offsets,
    )


@pytest.mark.parametrize("factors", [(1e-3, 1e3, 10.0, 5.0), (1e4, 0.01, 0.1, -3.0)])
def test_the_units_of_the_data_do_not_matter(factors: tuple[float, float, float, float]) -> None:
    plain, other = scaled_dataset(1, 1, 1, 0), scaled_dataset(*factors)
    for data in (plain, other):
        scaling = Scaling.from_dataset(data)
        seen = scaling.observations(data.observations), scaling.coming(returns_to_go(data))
        if data is plain:
            expected = seen
    for one, two in zip(seen, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


def test_scaled_values_are_of_ordinary_size() -> None:
    data = scaled_dataset(1e5, 300, 1e3, 50)
    scaling = Scaling.from_dataset(data)
    coming = scaling.coming(returns_to_go(data))
    assert np.abs(coming).max() < 5
    assert np.ptp(np.quantile(coming[:, 0], [0.05, 0.95])) == pytest.approx(2, rel=1e-3)
    assert scaling.observations(data.observations).std() == pytest.approx(1, rel=1e-3)


def test_columns_that_never_vary_give_no_infinities() -> None:
    constant = Dataset.from_arrays(
        observations=np.full((6, 2), 7.0),
        actions=np.zeros((6, 1)),
        rewards=np.zeros(6),
        costs=np.zeros((6, 2)),
        terminals=np.zeros(6),
        timeouts=np.arange(6) == 5,
    )
    scaling = Scaling.from_dataset(constant)
    assert not scaling.observations(constant.observations).any()
    assert np.isfinite(scaling.coming(np.array([[5.0, 3.0, 0.0]]))).all()


def test_a_higher_cost_is_shown_as_higher_and_low_costs_are_told_apart() -> None:
    scaling = Scaling(
        mean=np.zeros(1), deviation=np.ones(1), center=np.zeros(2), scale=np.array([1.0, 30.0]), logarithmic=True
    )
    costs = np.array([-10.0, 0.0, 10.0, 20.0, 40.0, 300.0])
    shown = scaling.coming(np.column_stack([costs, costs]))[:, 1]
    assert (np.diff(shown) > 0).all()
    assert shown[1] == 0
    assert shown[0] == -shown[2]
    assert (shown[3] - shown[2]) / (shown[5] - shown[1]) > 0.08


def test_osrls_constants() -> None:
    shown = Scaling.osrl(2, 1).coming(np.array([[300.0, 20.0], [0.0, 60.0]]))
    np.testing.assert_allclose(shown, [[30.0, 30.0], [0.0, -10.0]])


def test_plain_values_come_back() -> None:
    for scaling in (Scaling.from_dataset(random_dataset(costs=2)), Scaling.osrl(4, 1)):
        again = Scaling.from_plain(json.loads(json.dumps(scaling.plain())))
        assert again.plain() == scaling.plain()
        values = np.random.default_rng(0).normal(size=(5, len(scaling.center))) * 10
        np.testing.assert_array_equal(again.coming(values), scaling.coming(values))


@pytest.mark.parametrize("osrl", [False, True])
def test_training_sees_returns_to_go_as_acting_does(osrl: bool) -> None:
    data = random_dataset()
    scaling = Scaling.osrl(4, 1) if osrl else Scaling.from_dataset(data)
    table = Table(data, scaling, np.ones(1), previous_actions=False, device=torch.device("cpu"))
    rows = Segments(data.offsets[:-1], data.lengths, np.ones(len(data)), length=5).cover(10**6)
    batch = table.gather(rows)
    real = batch.real.bool()
    expected = scaling.coming(returns_to_go(data))[rows.rows[real.numpy()]]
    np.testing.assert_allclose(batch.steps.coming[real].numpy(), expected, rtol=1e-5, atol=1e-5)
    assert len(expected) == data.transitions
