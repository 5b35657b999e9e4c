"""The recommendation: admitted, seen often enough, within the limits by its own episodes, and the best of those."""

from typing import Any

import jaxtyping
import numpy as np
import pytest

from lifesafe.journal import events as e
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.choice import forecasts
from lifesafe.safety.recommendation import ENOUGH_EPISODES, fit_targets
from unit.safety.machines import free, happened, listed, plain, problem, run, stopped, tell_all, tried

TOTAL: dict[str, Any] = {"promise": "total", "stop_at": 39.0, "episodes": 300}
SEARCHES = {
    "trial": (problem(episodes=130), plain),
    "a list": (listed(episodes=130), plain),
    "total": (problem(**TOTAL), stopped),
    "sure": (problem(stop_at=19.0), lambda target, rng: Returns(target.reward, 0.0)),
}  # fmt: skip


@pytest.fixture(scope="module", params=SEARCHES)
def optimizer(request: pytest.FixtureRequest) -> SafeOptimizer:
    jaxtyping.config.update("jaxtyping_disable", True)  # whole searches: others check the shapes
    given, machine = SEARCHES[request.param]
    return run(SafeOptimizer(given), machine)


def test_only_targets_that_were_admitted_seen_often_and_cheap_enough_are_fit(optimizer: SafeOptimizer) -> None:
    assert optimizer.fit
    beliefs = optimizer.beliefs
    for each in optimizer.fit:
        own = beliefs.own[each.point]
        assert each.point in beliefs.admitted
        assert each.episodes == own.episodes >= ENOUGH_EPISODES == 8
        assert (own.means[1:] <= optimizer.problem.limits).all()
        assert each.means == pytest.approx(own.means)
        assert each.target == optimizer.problem.target(each.point)
        assert each.risk <= (1.0 if optimizer.problem.promise == "total" else optimizer.problem.delta / 5)


def test_nothing_that_is_fit_is_left_out(optimizer: SafeOptimizer) -> None:
    beliefs, fit = optimizer.beliefs, {each.point for each in optimizer.fit}
    for point in beliefs.admitted - fit:
        own = beliefs.own[point]
        (forecast,) = forecasts(beliefs, (point,))
        is_risky = optimizer.problem.promise == "trial" and forecast.risk > optimizer.problem.delta / 5
        assert own.episodes < 8 or (own.means[1:] > optimizer.problem.limits).any() or is_risky


def test_the_best_earns_the_most_for_sure(optimizer: SafeOptimizer) -> None:
    found = optimizer.beliefs.expect([each.point for each in optimizer.fit])
    mean, sd = found.reward, found.reward_sd
    assert (np.diff(mean - sd) <= 1e-12).all()
    assert optimizer.best == optimizer.fit[0]
    assert [each.modeled for each in optimizer.fit] == pytest.approx(mean)


def test_what_is_said_of_a_target_is_what_its_forecast_says(optimizer: SafeOptimizer) -> None:
    for each in optimizer.fit:
        (forecast,) = forecasts(optimizer.beliefs, (each.point,))
        assert each.risk == pytest.approx(forecast.risk)
        assert each.expected == pytest.approx([upper for _, upper in forecast.costs])


def test_before_anything_has_paid_there_is_nothing_to_operate() -> None:
    optimizer = SafeOptimizer(problem())
    assert optimizer.best is None
    tell_all(optimizer, 100, 0)
    assert (optimizer.best, optimizer.fit) == (None, ())  # thirty episodes, and not charged yet
    optimizer.ask()
    assert optimizer.best.point == (100.0, 0.0)


def test_a_target_whose_own_episodes_cost_more_than_the_limit_is_not_operated() -> None:
    optimizer = run(SafeOptimizer(problem(**TOTAL)), free, 1)
    assert optimizer.best is not None
    while optimizer.beliefs.own[(100.0, 0.0)].means[1] <= 20:
        trial = optimizer.ask()
        optimizer.tell(trial, [Returns(100, 39)] * trial.episodes)
    assert (100.0, 0.0) in optimizer.beliefs.certified
    assert all(each.point != (100.0, 0.0) for each in optimizer.fit)


def test_what_has_paid_may_be_operated_in_some_doubt_if_nothing_is_better() -> None:
    optimizer = SafeOptimizer(problem(delta=0.3))
    tell_all(optimizer, 100, 18.0)
    while optimizer.stage == "start":
        tell_all(optimizer, 100, 18.0)
    assert optimizer.ask() is not None
    best = optimizer.best
    assert 0.3 / 5 < best.risk <= 0.3 / 2
    tell_all(optimizer, 100, 23)
    assert all(each.risk <= 0.15 for each in optimizer.fit)


def test_few_episodes_of_a_short_search_are_enough() -> None:
    optimizer = run(SafeOptimizer(problem(episodes=5, stop_at=19.0)), free)
    assert optimizer.best.episodes == 5


def test_of_two_that_earn_about_the_same_the_one_that_is_better_known_is_operated() -> None:
    events: list[e.Event] = []
    for trial, (point, mean, count) in enumerate([((0.1,), 5.0, 100), ((0.9,), 5.3, 8)], 1):
        events += tried(trial, point, [(mean + 3.0 * (-1) ** i, 0.0) for i in range(count)])
    beliefs = happened(
        Problem(axes={"x": (0, 1)}, starts=[(0.1,)], limits=20.0, stop_at=15.0, rewards=(0, 10)), *events
    )
    first, second = fit_targets(beliefs)
    assert first.modeled < second.modeled
    assert (first.point, second.point) == ((0.1,), (0.9,))
