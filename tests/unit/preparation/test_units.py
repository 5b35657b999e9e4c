"""A slip of units is noticed, and honest costs are not doubted."""

from __future__ import annotations

import numpy as np
import pytest

from lifesafe.preparation.units import doubt_units
from lifesafe.returns import Returns


def logged(*, whole: bool, episodes: int = 300) -> np.ndarray:
    """Return logged returns whose costs rise with the reward, whole or not."""
    random = np.random.default_rng(0)
    boldness = random.uniform(0.0, 1.0, episodes)
    costs = 40 * boldness * random.gamma(20.0, 0.05, episodes)
    return np.column_stack([300 * boldness + 5 * random.normal(size=episodes), costs.round() if whole else costs])


def told(returns: np.ndarray, target: Returns, *, times: float = 1.0, episodes: int = 8) -> list[Returns]:
    """Return what a policy earns that does as the logs did near the target."""
    near = np.argsort(np.abs(returns[:, 0] - target.reward))[:30]
    chosen = np.random.default_rng(1).choice(near, episodes)
    return [Returns(reward, cost * times) for reward, cost in returns[chosen]]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("target", [Returns(60, 8), Returns(150, 20), Returns(280, 38), Returns(400, 5)])
@pytest.mark.parametrize("times", [1.0, 1 / 3, 3.0])
def test_costs_of_better_and_worse_policies_are_not_doubted(whole: bool, target: Returns, times: float) -> None:
    returns = logged(whole=whole)
    episodes = told(returns, target, times=times)
    if whole:
        episodes = [Returns(each.reward, np.rint(each.costs)) for each in episodes]
    assert doubt_units(target, episodes, returns) is None


@pytest.mark.parametrize("times", [1 / 60, 1 / 1000, 60.0, 3600.0])
def test_a_slip_of_units_is_noticed_by_its_size(times: float) -> None:
    returns, target = logged(whole=False), Returns(150, 20)
    question = doubt_units(target, told(returns, target, times=times), returns)
    assert "times less" in question if times < 1 else "times more" in question
    assert question.endswith("Is it told in the unit of the logs?")


def test_a_slip_is_noticed_at_cheap_targets_too_if_logged_costs_are_whole() -> None:
    returns, target = logged(whole=True), Returns(40, 2)
    question = doubt_units(target, told(returns, target, times=1 / 60), returns)
    assert question is not None
    assert "all logged ones cost whole multiples of 1" in question


def test_of_several_costs_the_odd_one_is_named() -> None:
    returns = np.column_stack([logged(whole=False), logged(whole=False)[:, 1]])
    question = doubt_units(Returns(150, (20, 20)), [Returns(150, (20, 20 / 60))] * 4, returns)
    assert question.startswith(
        "Cost 2 of target Returns(reward=150.0, costs=(20.0, 20.0)): the episodes cost 0.3333 on"
    )
    assert "60 times less" in question or "times less" in question


def test_nothing_is_doubted_where_nothing_can_be_said() -> None:
    returns = logged(whole=False)
    assert doubt_units(Returns(150, 0), [Returns(150, 0)] * 4, returns) is None  # no cost has no unit
    assert doubt_units(Returns(150, 20), [Returns(150, 1 / 3)], returns[:10]) is None  # hardly any logs
    assert doubt_units(Returns(150, 20), [Returns(150, 1 / 3)], returns * [1, 0]) is None  # logs without costs
