"""An episode is one trajectory, all its arrays of one length."""

import numpy as np
import pytest

from lifesafe.data import Episode
from lifesafe.errors import DatasetError
from logs import episode


def test_the_returns_are_the_sums_of_the_steps() -> None:
    made = episode(np.random.default_rng(0), steps=5, costs=2)
    assert len(made) == 5
    assert made.returns.reward == pytest.approx(made.rewards.sum())
    assert made.returns.costs == pytest.approx(made.costs.sum(axis=0))


def test_returns_are_summed_in_double_precision() -> None:
    ones = np.ones((2**24 + 10, 1), dtype=np.float32)  # a float32 cannot count that far
    made = Episode(ones, ones, ones[:, 0], ones, ones, False)
    assert made.returns.reward == 2**24 + 10


@pytest.mark.wrong_shapes
def test_arrays_of_different_lengths_are_refused() -> None:
    rows = np.zeros((3, 1), dtype=np.float32)
    with pytest.raises(DatasetError, match="'actions': 2"):
        Episode(rows, rows[:2], rows[:, 0], rows, rows, False)


def test_an_episode_has_at_least_one_step() -> None:
    none = np.zeros((0, 1), dtype=np.float32)
    with pytest.raises(DatasetError, match="at least one"):
        Episode(none, none, none[:, 0], none, none, False)
