"""The account of what is still to come."""

import numpy as np
import pytest

from lifesafe.errors import TrialError
from lifesafe.policies.to_go import ToGoActor
from lifesafe.returns import Returns


def test_what_a_step_brought_is_taken_off_in_its_rows_only() -> None:
    actor = ToGoActor([Returns(10.0, 5.0), Returns(20.0, 6.0)], costs=1)
    actor.observe(np.array([1.0]), np.array([[2.0]]), rows=np.array([1]))
    np.testing.assert_array_equal(actor.to_go, [[10.0, 5.0], [19.0, 4.0]])
    assert actor.times.tolist() == [0, 1]


@pytest.mark.parametrize(("clamped", "left"), [(True, 0.0), (False, -2.0)])
def test_a_spent_budget_stops_at_zero_if_clamped(clamped: bool, left: float) -> None:
    actor = ToGoActor([Returns(1.0, 1.0)], costs=1, clamped=clamped)
    actor.observe(np.array([3.0]), np.array([[3.0]]))
    np.testing.assert_array_equal(actor.to_go, [[-2.0, left]])


def test_a_restarted_row_begins_anew() -> None:
    actor = ToGoActor([Returns(1.0, 1.0), Returns(2.0, 2.0)], costs=1)
    actor.observe(np.ones(2), np.ones((2, 1)))
    actor.restart([Returns(7.0, 8.0)], np.array([0]))
    np.testing.assert_array_equal(actor.to_go, [[7.0, 8.0], [1.0, 1.0]])
    assert actor.times.tolist() == [0, 1]


def test_targets_must_fit() -> None:
    with pytest.raises(TrialError, match=r"Targets have 2 costs, the policy learned from data with 1"):
        ToGoActor([Returns(1.0, (1.0, 2.0))], costs=1)
    actor = ToGoActor([Returns(1.0, 1.0)], costs=1)
    with pytest.raises(TrialError, match="Got 2 targets for 1 rows"):
        actor.restart([Returns(1.0, 1.0)] * 2, np.array([0]))
