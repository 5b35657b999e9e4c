"""Scaling of observations and returns-to-go."""

import numpy as np
import pytest
import torch

from lifesafe.data import Dataset
from lifesafe.data.segments import Segments, returns_to_go
from lifesafe.policies.cdt.batches import TransitionTable
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
        seen = scaling(torch.from_numpy(data.observations), torch.from_numpy(returns_to_go(data)))
        if data is plain:
            expected = seen
    for one, two in zip(seen, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


def test_scaled_values_are_of_ordinary_size() -> None:
    data = scaled_dataset(1e5, 300, 1e3, 50)
    scaling = Scaling.from_dataset(data)
    seen, coming = scaling(torch.from_numpy(data.observations), torch.from_numpy(returns_to_go(data)))
    assert coming.abs().max() < 5
    assert np.ptp(np.quantile(coming[:, 0], [0.05, 0.95])) == pytest.approx(2, rel=1e-3)
    assert seen.std() == pytest.approx(1, rel=1e-3)


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
    seen, coming = scaling(torch.from_numpy(constant.observations[:1]), torch.tensor([[5.0, 3.0, 0.0]]))
    assert not seen.any()
    assert coming.isfinite().all()


def test_a_higher_cost_is_shown_as_higher_and_low_costs_are_told_apart() -> None:
    scaling = Scaling(mean=np.zeros(1), deviation=np.ones(1), center=np.zeros(2), scale=np.array([1.0, 30.0]))
    costs = np.array([-10.0, 0.0, 10.0, 20.0, 40.0, 300.0])
    shown = scaling.coming(torch.from_numpy(np.column_stack([costs, costs]))).numpy()[:, 1]
    assert (np.diff(shown) > 0).all()
    assert shown[1] == 0
    assert shown[0] == -shown[2]
    assert (shown[3] - shown[2]) / (shown[5] - shown[1]) > 0.08


def test_training_sees_returns_to_go_as_acting_does() -> None:
    data = random_dataset()
    scaling = Scaling.from_dataset(data)
    table = TransitionTable(data, scaling, torch.device("cpu"))
    rows = Segments(data.offsets[:-1], data.lengths, np.ones(len(data)), length=5).cover(10**6)
    batch = table.gather(rows)
    real = batch.real.bool()
    expected = scaling.coming(torch.from_numpy(returns_to_go(data)))[rows.rows[real.numpy()]]
    torch.testing.assert_close(batch.steps.coming[real], expected, rtol=1e-5, atol=1e-5)
    assert len(expected) == data.transitions


def test_large_returns_lose_no_digit_while_acting() -> None:
    scaling = Scaling(mean=np.zeros(1), deviation=np.ones(1), center=np.array([1e9, 0.0]), scale=np.ones(2))
    assert scaling.coming(torch.tensor([[1e9 + 0.5, 0.0]], dtype=torch.float64))[0, 0] == 0.5
