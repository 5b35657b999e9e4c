"""The fallback ladder."""

from lifesafe.operation.ladder import level, next_rung
from lifesafe.optimizer import Recommendation
from lifesafe.returns import Returns


def target(index: int, *uppers: float) -> Recommendation:
    returns = Returns(100.0 - index, uppers)
    return Recommendation(
        target=returns, index=index, risk=0.0, reward_lower=100.0 - index, means=returns, cost_upper=uppers, episodes=40
    )


def test_the_level_is_the_largest_share_of_a_limit() -> None:
    assert level(target(0, 10.0, 3.0), [20.0, 4.0]) == 0.75


def test_the_next_rung_is_the_best_target_that_costs_at_most_half() -> None:
    fit = [target(0, 18.0), target(1, 12.0), target(2, 9.0), target(3, 2.0)]
    chosen = next_rung(fit, alarmed=0.95, limits=[20.0])
    assert chosen is not None
    assert chosen.index == 2


def test_where_none_costs_half_the_cheapest_is_taken() -> None:
    fit = [target(0, 18.0), target(1, 12.0), target(2, 11.0)]
    chosen = next_rung(fit, alarmed=0.95, limits=[20.0])
    assert chosen is not None
    assert chosen.index == 2


def test_a_target_as_costly_as_the_one_that_raised_the_alarm_is_no_fallback() -> None:
    assert next_rung([target(0, 19.0)], alarmed=0.95, limits=[20.0]) is None
    assert next_rung([], alarmed=0.95, limits=[20.0]) is None
