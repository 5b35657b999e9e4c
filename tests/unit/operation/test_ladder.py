"""The fallback ladder."""

from lifesafe.operation.operation import next_rung, use
from lifesafe.returns import Returns
from lifesafe.safety import Recommendation


def target(reward: float, *expected: float) -> Recommendation:
    returns = Returns(reward, expected)
    return Recommendation(
        point=tuple(returns), target=returns, means=tuple(returns), episodes=40, risk=0.0, expected=expected,
        modeled=reward / 100,
    )  # fmt: skip


def test_use_is_the_largest_share_of_a_limit() -> None:
    assert use(target(90.0, 10.0, 3.0), [20.0, 4.0]) == 0.75


def test_the_next_rung_is_the_best_target_that_uses_at_most_half() -> None:
    fit = [target(90.0, 18.0), target(80.0, 12.0), target(70.0, 9.0), target(60.0, 2.0)]
    assert next_rung(fit, alarmed=0.95, limits=[20.0]) == fit[2]


def test_where_none_uses_half_the_least_costly_is_taken() -> None:
    fit = [target(90.0, 18.0), target(80.0, 11.0), target(70.0, 12.0)]
    assert next_rung(fit, alarmed=0.95, limits=[20.0]) == fit[1]


def test_every_cost_counts() -> None:
    fit = [target(90.0, 2.0, 3.0), target(80.0, 9.0, 1.0)]
    assert next_rung(fit, alarmed=0.95, limits=[20.0, 4.0]) == fit[1]


def test_a_target_as_costly_as_the_one_that_raised_the_alarm_is_no_fallback() -> None:
    assert next_rung([target(90.0, 19.0)], alarmed=0.95, limits=[20.0]) is None
    assert next_rung([], alarmed=0.95, limits=[20.0]) is None
