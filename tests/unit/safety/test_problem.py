"""The problem: what it refuses and why, the box from logs, and that it comes back from plain values."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError, DatasetError, TrialError
from lifesafe.returns import Returns
from lifesafe.safety import Axis, Problem, SafeOptimizer
from unit.safety.machines import LIMIT, START, listed, problem

KNOBS = {"speed": (0.0, 2.0, "m/s"), "gain": (0.0, 1.0)}
AXES = {"reward": (0, 400), "cost": (0, 60)}


def knobs(**settings: Any) -> Problem:
    return Problem(
        **{"axes": KNOBS, "starts": [{"speed": 0.5, "gain": 0.1}], "limits": 20.0, "rewards": (0, 9)} | settings
    )


REFUSED = {
    "axes that have no names": ({"axes": [(0, 1)]}, r"Axes are given by name, as .*; got \[\(0, 1\)\]"),
    "an axis that is no range": ({"axes": {"reward": 3}}, r"Axis 'reward' is given as \(low, high\) or .*; got 3"),
    "an axis that is empty": (
        {"axes": AXES | {"cost": (5, 5)}},
        "'cost' must run from a number to a larger one; got 5",
    ),
    "an axis without end": ({"axes": AXES | {"cost": (0, math.inf)}}, "'cost' must run .*; got 0 to inf"),
    "no axes": ({"axes": {}, "rewards": (0, 1)}, "Got 0 axes; a search moves along one to 6"),
    "seven axes": (
        {"axes": {f"x{i}": (0, 1) for i in range(7)}, "rewards": (0, 1)},
        "Got 7 axes; a search moves along one to 6. With more, 150 episodes are too few .* fix those that matter least",
    ),
    "no starts": ({"starts": []}, "Got no starts; name at least one target that you know to be safe"),
    "a start that is no target": ({"starts": ["fast"]}, "'fast' is no target"),
    "starts that are no list": ({"starts": 3}, "Targets are given as a list; got 3"),
    "a start outside the box": (
        {"starts": [Returns(500, 0)]},
        r"Returns\(reward=500.0, .*\): reward = 500 lies outside its axis, 0 to 400",
    ),
    "a start that is not finite": ({"starts": [(math.nan, 0.0)]}, "reward = nan lies outside its axis"),
    "a start with two costs": ({"starts": [Returns(100, (0, 0))]}, "is no target of the axes reward, cost"),
    "a start with other names": ({"starts": [{"reward": 1, "price": 1}]}, "is no target of the axes reward, cost"),
    "a limit of zero": ({"limits": 0.0}, r"Limits must be positive numbers; got \(0.0,\)"),
    "a limit without end": ({"limits": math.inf}, "Limits must be positive numbers"),
    "a limit that is a word": ({"limits": "2O"}, "Got '2O'; give a number, or a list of numbers"),
    "no limits": ({"limits": []}, "Got 0 limits; a search keeps one to 4 costs, with one limit for each"),
    "five limits": ({"limits": [1] * 5}, "Got 5 limits; a search keeps one to 4 costs"),
    "a delta of zero": ({"delta": 0}, "delta must lie between 0 and 1; got 0.0"),
    "a delta of one": ({"delta": 1.0}, "delta must lie between 0 and 1; got 1.0"),
    "a delta of words": ({"delta": "low"}, "delta must be a number; got 'low'"),
    "another promise": ({"promise": "none"}, "promise must be 'trial' or 'total'; got 'none'"),
    "no episodes": ({"episodes": 0}, "episodes must be a whole number of at least 1; got 0"),
    "half an episode": ({"episodes": 1.5}, "episodes must be a whole number of at least 1; got 1.5"),
    "episodes that are a yes": ({"episodes": True}, "episodes must be a whole number of at least 1; got True"),
    "a negative seed": ({"seed": -1}, "A seed is a whole number that is not negative; got -1"),
    "a stop of zero": ({"stop_at": 0.0}, "stop_at must be positive; got 0.0"),
    "two stops for one cost": ({"stop_at": (1, 2)}, "Got 2 numbers as stop_at for 1 cost; give one per cost"),
    "a stop that is a word": ({"stop_at": "high"}, "stop_at must be a number, or one per cost; got 'high'"),
    "a stop and an incident": ({"stop_at": 40, "incident": 30}, "Give stop_at or incident, not both"),
    "a horizon without largest": ({"incident": "horizon"}, 'incident = "horizon" needs largest'),
    "total without a stop": ({"promise": "total"}, "'total' needs stop_at: .* Give stop_at, .* or promise = 'trial'"),
    "a stop that is never reached": (
        {"stop_at": 40, "largest": 30},
        "stop_at = 40 is never reached: no episode can cost more than 30",
    ),
    "one target": ({"targets": [START, START]}, "Got fewer than two targets to choose from"),
    "targets that are one": (
        {"targets": [START, Returns(100, 1e-9)]},
        "All targets lie within 1e-09 of every axis; there is nothing to search",
    ),
    "a limit that is a yes": ({"limits": [20, True]}, r"Got \[20, True\]; give a number, or a list of numbers"),
    "a start that is not listed": (
        {"targets": [Returns(0, 0), Returns(50, 0)]},
        r"The start Returns\(reward=100.0, costs=\(0.0,\)\) is none of the targets; add it to them",
    ),
    "rewards of three": ({"rewards": (0, 1, 2)}, r"rewards are given as \(low, high\); got \(0, 1, 2\)"),
    "rewards that are one": (
        {"axes": KNOBS, "starts": [(1, 1)], "rewards": (1, 1)},
        "Rewards must range from a number to a larger one; got 1 to 1",
    ),
    "rewards without end": (
        {"axes": KNOBS, "starts": [(1, 1)], "rewards": (0, math.inf)},
        "Rewards must range .* to a larger one; got 0 to inf",
    ),
    "rewards of nobody": ({"axes": KNOBS, "starts": [(1, 1)]}, r"No axis is named 'reward', .*; give rewards = "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_problem_that_cannot_be_is_refused_with_the_value_the_rule_and_the_way_out(name: str) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        problem(**changes)


def test_a_target_is_the_same_however_it_is_given() -> None:
    boxed, turned = problem(), knobs()
    assert (
        boxed.point(Returns(100, 5)) == boxed.point((100, 5)) == boxed.point({"cost": 5, "reward": 100}) == (100.0, 5.0)
    )
    assert boxed.target((100.0, 5.0)) == Returns(100, 5)
    assert turned.point({"gain": 0.1, "speed": 0.5}) == turned.point([0.5, 0.1]) == (0.5, 0.1)
    assert turned.target((0.5, 0.1)) == {"speed": 0.5, "gain": 0.1}
    assert (boxed.asks_for_returns, turned.asks_for_returns) == (True, False)
    assert turned.axes["speed"] == Axis(0.0, 2.0, "m/s")


@given(share=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_scaled_and_raw_are_inverse(share: tuple[float, float]) -> None:
    turned = Problem(axes={"a": (-3, 5), "b": (10, 11)}, starts=[(0, 10)], limits=1.0, rewards=(0, 1))
    (point,) = turned.raw(np.array([share]))
    np.testing.assert_allclose(turned.scaled([point])[0], share, atol=1e-12)
    assert -3 <= point[0] <= 5 + 1e-12
    assert 10 <= point[1] <= 11 + 1e-12
    assert turned.point(point) == point


def test_one_number_stands_for_every_cost() -> None:
    axes = {"reward": (0, 400), "cost 1": (0, 60), "cost 2": (0, 60)}
    two = Problem(axes=axes, starts=[Returns(1, (0, 0))], limits=(20, 10), stop_at=30, largest_step=(2, 5))
    assert (two.stop_at, two.bounds, two.lumps) == ((30.0, 30.0), (32.0, 35.0), (32.0, 35.0))
    assert two.sure == (False, False)


@pytest.mark.parametrize(
    ("settings", "lumps", "bounds", "sure"),
    [
        ({}, 60.0, None, False),  # three limits, unless told
        ({"incident": 30}, 30.0, None, False),
        ({"incident": 30, "largest": 25}, 25.0, 25.0, False),
        ({"incident": 30, "largest": 200}, 30.0, 200.0, False),
        ({"incident": "horizon", "largest": 200}, 200.0, 200.0, False),
        ({"largest": 20}, 20.0, 20.0, True),
        ({"stop_at": 40}, 41.0, 41.0, False),
        ({"stop_at": 40, "largest_step": 5}, 45.0, 45.0, False),
        ({"stop_at": 19}, 20.0, 20.0, True),
        ({"stop_at": 19, "largest_step": 1.1}, 20.1, 20.1, False),
    ],
)
def test_how_much_can_come_at_once_and_in_an_episode_follows_from_what_is_said(
    settings: dict[str, Any], lumps: float, bounds: float | None, sure: bool
) -> None:
    found = problem(**settings)
    assert found.lumps == (lumps,)
    assert found.bounds == (None if bounds is None else (bounds,))
    assert found.sure == (sure,)


PROBLEMS = {
    "a box": problem(),
    "a list": listed(delta=0.05, seed=7),
    "knobs": knobs(stop_at=30, promise="total", episodes=40),
    "horizon": problem(incident="horizon", largest=500),
    "two costs": Problem(
        axes={"reward": (0, 1), "cost 1": (0, 2, "J"), "cost 2": (0, 3)},
        starts=[(0.5, 0, 0), (0.1, 0, 0)],
        limits=(1, 2),
        stop_at=(3, 4),
        largest_step=(0.5, 1),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_comes_back_from_plain_values(name: str) -> None:
    given_problem = PROBLEMS[name]
    again = Problem.from_plain(json.loads(json.dumps(given_problem.to_plain(), allow_nan=False)))
    assert again.to_plain() == given_problem.to_plain()
    assert again.fingerprint == given_problem.fingerprint
    assert (again.axes, again.starts, again.targets) == (
        given_problem.axes,
        given_problem.starts,
        given_problem.targets,
    )
    assert SafeOptimizer(again).ask() == SafeOptimizer(given_problem).ask()


CHANGES: list[dict[str, Any]] = [
    {"axes": AXES | {"cost": (0, 61)}},
    {"starts": [Returns(99, 0)]},
    {"limits": 21},
    {"delta": 0.05},
    {"stop_at": 40},
    {"stop_at": 40, "promise": "total"},
    {"stop_at": 40, "largest_step": 2},
    {"incident": 30},
    {"largest": 1000},
    {"axes": KNOBS, "starts": [(1, 1)], "rewards": (0, 300)},
    {"axes": KNOBS, "starts": [(1, 1)], "rewards": (0, 301)},
    {"targets": [START, Returns(0, 0)]},
    {"episodes": 151},
    {"seed": 1},
]


def test_everything_that_decides_what_is_asked_changes_the_fingerprint() -> None:
    prints = [problem(**changes).fingerprint for changes in ({}, *CHANGES)]
    assert len(set(prints)) == len(prints)
    assert problem().fingerprint == problem().fingerprint


def test_other_limits_leave_everything_else_as_it_was() -> None:
    before = problem(stop_at=50, seed=3)
    after = before.with_limits(30)
    assert after.limits == (30.0,)
    assert {**after.to_plain(), "limits": [20.0]} == before.to_plain()
    assert before.with_limits(30, [Returns(50, 1)]).starts == ((50.0, 1.0),)
    assert problem().with_limits(40).incident == (60.0,)  # an assumption about the machine, not about the limit


def test_starts_named_twice_are_one() -> None:
    assert problem(starts=[START, (100, 0), Returns(50, 0)]).starts == ((100.0, 0.0), (50.0, 0.0))
    assert problem(starts=START).starts == ((100.0, 0.0),)


def returns(costs: list[float], seed: int = 0) -> list[Returns]:
    rewards = np.random.default_rng(seed).uniform(0, 400, len(costs))
    return [Returns(float(reward), cost) for reward, cost in zip(rewards, costs, strict=True)]


def test_the_box_of_logs_spans_their_rewards_and_three_limits() -> None:
    logged = returns([float(cost) for cost in range(40)])
    found = Problem.from_returns(logged, limits=LIMIT, delta=0.05, episodes=60)
    rewards = [each.reward for each in logged]
    assert found.axes["reward"] == Axis(min(rewards), max(rewards))
    assert found.axes["cost"] == Axis(0.0, 60.0)
    assert (found.limits, found.delta, found.episodes) == ((20.0,), 0.05, 60)


def test_starts_from_logs_ask_for_no_cost_and_the_rewards_of_calm_episodes_a_middling_one_first() -> None:
    logged = [Returns(100.0 + i, 1.0) for i in range(11)] + [Returns(400.0, 100.0)] * 30
    starts = Problem.from_returns(logged, limits=LIMIT).starts
    assert starts == ((106.0, 0.0), (104.0, 0.0), (108.0, 0.0), (102.0, 0.0), (109.0, 0.0))


@pytest.mark.parametrize("costs", [[5.0] * 20, [19.0] * 20, [25.0] * 19 + [19.5], [float(c) for c in range(1, 40)]])
def test_no_start_from_logs_rests_on_an_episode_above_a_limit(costs: list[float]) -> None:
    logged = returns(costs)
    calm = [each.reward for each in logged if each.costs[0] <= LIMIT]
    for start in Problem.from_returns(logged, limits=LIMIT).starts:
        assert min(calm) <= start[0] <= max(calm)


def test_logs_may_be_an_array_and_settings_go_before_what_they_say() -> None:
    logged = returns([1.0] * 20)
    array = np.array([tuple(each) for each in logged])
    assert (
        Problem.from_returns(array, limits=LIMIT).fingerprint == Problem.from_returns(logged, limits=LIMIT).fingerprint
    )
    changed = Problem.from_returns(array, limits=LIMIT, starts=[START], axes=AXES)
    assert (changed.starts, changed.axes["cost"].high) == (((100.0, 0.0),), 60.0)


@pytest.mark.parametrize(
    ("logged", "limits", "message"),
    [
        ([], LIMIT, "Got the returns of no episodes; give at least 10"),
        (returns([1.0] * 9), LIMIT, "Got the returns of 9 episodes; give at least 10"),
        ([Returns(5, 1)] * 10, LIMIT, "All 10 episodes have reward 5; there is nothing to choose"),
        (returns([1.0] * 9 + [-2.0]), LIMIT, "A logged episode costs -2; costs are never negative. Mend the logs"),
        (returns([30.0] * 9 + [25.0]), LIMIT, r"No logged episode keeps the limits .*: the cheapest costs \(25.0,\)"),
        (np.full((12, 2), np.nan), LIMIT, r"Logged returns must be finite, .* got an array of \(12, 2\)"),
    ],
)
def test_logs_that_nothing_can_be_begun_with_are_refused(logged: Any, limits: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        Problem.from_returns(logged, limits=limits)


def test_logs_need_one_limit_for_each_cost() -> None:
    with pytest.raises(ConfigError, match="Got 2 limits for 1 costs; give one limit per cost"):
        Problem.from_returns(returns([1.0] * 12), limits=[20, 20])
    with pytest.raises(ConfigError, match="Limits must be positive numbers"):
        Problem.from_returns(returns([1.0] * 12), limits=-1.0)


@pytest.mark.wrong_shapes
def test_logs_of_something_else_are_refused() -> None:
    with pytest.raises(TrialError, match="Episodes are given as Returns"):
        Problem.from_returns([None] * 12, limits=LIMIT)


def test_the_axis_that_asks_for_rewards_is_their_range() -> None:
    settings: dict[str, Any] = {
        "axes": {"reward": (0, 400), "cost": (0, 60)},
        "starts": [Returns(100, 0)],
        "limits": 20,
    }
    assert Problem(**settings).rewards == Problem(**settings, rewards=(0, 400)).rewards == (0.0, 400.0)
    with pytest.raises(ConfigError, match="rewards from 0 to 400, which is their range; leave out rewards"):
        Problem(**settings, rewards=(0, 800))
