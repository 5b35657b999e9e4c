"""The account: what it holds, what it affords, and how long saving takes."""

import numpy as np
import pytest

from lifesafe.safety.account import Account

ONE = Account.begin((20.0,), (41.0,))


def test_an_account_begins_empty_and_saves_what_episodes_leave_of_the_limit() -> None:
    assert (ONE.holds, ONE.affords, ONE.prices, ONE.capacity) == ((0.0,), 0, (21.0,), (42.0,))
    saved = ONE.after(np.array([[5.0], [12.0]]))
    assert saved.holds == (23.0,)
    assert saved.affords == 1
    assert ONE.holds == (0.0,)  # a value


def test_savings_are_capped_after_every_episode_and_not_after_the_last() -> None:
    free, worst = np.zeros((10, 1)), np.array([[41.0]])
    assert ONE.after(free).holds == (42.0,)
    assert ONE.after(np.concatenate([free, worst])).holds == (21.0,)
    assert ONE.after(free).affords == 2


def test_every_account_must_be_able_to_pay() -> None:
    two = Account.begin((20.0, 10.0), (41.0, 60.0)).after(np.zeros((4, 2)))
    assert two.holds == (42.0, 40.0)
    assert two.affords == 0  # the second needs 50
    assert two.after(np.zeros((1, 2))).affords == 1


def test_a_cost_that_keeps_its_limit_for_sure_asks_for_nothing() -> None:
    mixed = Account.begin((20.0, 60.0), (41.0, 60.0)).after(np.array([[0.0, 60.0]] * 2))
    assert mixed.prices == (21.0, 0.0)
    assert mixed.affords == 1
    assert Account.begin((60.0,), (60.0,)).affords > 1000


def test_a_debt_affords_nothing() -> None:
    assert ONE.after(np.array([[41.0]])).holds == (-21.0,)
    assert ONE.after(np.array([[41.0]])).affords == 0


@pytest.mark.parametrize(("saving", "episodes"), [((7.0,), 3.0), ((21.0,), 1.0), ((2.1,), 10.0)])
def test_the_wait_for_a_newcomer_is_what_is_missing_over_what_is_saved(saving: tuple[float], episodes: float) -> None:
    assert ONE.missing(saving) == pytest.approx(episodes)


def test_the_wait_is_that_of_the_slowest_account_and_none_where_enough_is_held() -> None:
    two = Account.begin((20.0, 10.0), (41.0, 60.0))
    assert two.missing((21.0, 5.0)) == pytest.approx(10.0)
    assert two.after(np.zeros((5, 2))).missing((1.0, 1.0)) == 0.0
    assert two.missing((0.0, -1.0)) > 1e6  # what saves nothing never gets there
