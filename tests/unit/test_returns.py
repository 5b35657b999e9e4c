"""Returns: one reward and one cost per limit, always finite."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import TrialError
from lifesafe.returns import Returns, mean_returns, return_names, returns_array

finite = st.floats(allow_nan=False, allow_infinity=False)


def test_returns_are_values() -> None:
    returns = Returns(1.0, 2.0)
    assert hash(returns) == hash(Returns(1, 2))
    assert {returns: "seen"}[Returns(1, 2)] == "seen"
    with pytest.raises(dataclasses.FrozenInstanceError):
        returns.reward = 2.0  # type: ignore[misc]


@given(finite, st.lists(finite, min_size=1, max_size=4))
def test_iteration_gives_the_reward_then_the_costs(reward: float, costs: list[float]) -> None:
    returns = Returns(reward, costs)
    assert list(returns) == [reward, *costs]
    assert len(returns.names) == 1 + len(costs)


def test_names_count_costs_only_when_there_are_several() -> None:
    assert return_names(1) == ("reward", "cost")
    assert return_names(2) == ("reward", "cost 1", "cost 2")
    assert Returns(1.0, (2.0, 3.0)).names == ("reward", "cost 1", "cost 2")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_returns_that_are_not_finite_are_refused_by_name(bad: float) -> None:
    with pytest.raises(TrialError, match="got reward = "):
        Returns(bad, 1.0)
    with pytest.raises(TrialError, match="got cost 2 = "):
        Returns(1.0, (1.0, bad))


@pytest.mark.parametrize("costs", [(), []])
def test_returns_without_a_cost_are_refused(costs: Any) -> None:
    with pytest.raises(TrialError, match="at least one cost"):
        Returns(1.0, costs)


def test_an_array_has_one_row_per_episode() -> None:
    array = returns_array([Returns(1, (2, 3)), Returns(4, (5, 6))])
    assert array.dtype == np.float64
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_mean_is_taken_of_the_reward_and_of_every_cost() -> None:
    assert mean_returns([Returns(1, (2, 3)), Returns(4, (5, 7))]) == Returns(2.5, (3.5, 5.0))


@pytest.mark.parametrize("function", [returns_array, mean_returns])
def test_an_array_and_a_mean_need_episodes_of_one_kind(function: Any) -> None:
    with pytest.raises(TrialError, match="no episodes"):
        function([])
    with pytest.raises(TrialError, match=r"\[1, 2\] costs"):
        function([Returns(1, 2), Returns(1, (2, 3))])
