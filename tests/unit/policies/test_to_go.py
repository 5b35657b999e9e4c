"""The account of what is still to come."""

import numpy as np
import pytest

from lifesafe.errors import TrialError
from lifesafe.policies.to_go import ToGo
from lifesafe.returns import Returns


def test_what_a_step_brought_is_taken_off_in_its_rows_only() -> None:
    to_go = ToGo([Returns(10.0, 5.0), Returns(20.0, 6.0)], costs=1)
    to_go.observe(np.array([1.0]), np.array([[2.0]]), rows=np.array([1]))
    np.testing.assert_array_equal(to_go.returns, [[10.0, 5.0], [19.0, 4.0]])
    assert to_go.times.tolist() == [0, 1]


@pytest.mark.parametrize(("clamped", "left"), [(True, 0.0), (False, -2.0)])
def test_a_spent_budget_stops_at_zero_if_clamped(clamped: bool, left: float) -> None:
    to_go = ToGo([Returns(1.0, 1.0)], costs=1, clamped=clamped)
    to_go.observe(np.array([3.0]), np.array([[3.0]]))
    np.testing.assert_array_equal(to_go.returns, [[-2.0, left]])


def test_a_restarted_row_begins_anew() -> None:
    to_go = ToGo([Returns(1.0, 1.0), Returns(2.0, 2.0)], costs=1)
    to_go.observe(np.ones(2), np.ones((2, 1)))
    to_go.restart([Returns(7.0, 8.0)], np.array([0]))
    np.testing.assert_array_equal(to_go.returns, [[7.0, 8.0], [1.0, 1.0]])
    assert to_go.times.tolist() == [0, 1]


def test_targets_must_fit() -> None:
    with pytest.raises(TrialError, match=r"Targets have 2 costs, the policy learned from data with 1"):
        ToGo([Returns(1.0, (1.0, 2.0))], costs=1)
    to_go = ToGo([Returns(1.0, 1.0)], costs=1)
    with pytest.raises(TrialError, match="Got 2 targets for 1 rows"):
        to_go.restart([Returns(1.0, 1.0)] * 2, np.array([0]))
