"""Problem: its candidates and seeds, what it refuses, and problems made from offline returns."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError, DatasetError
from lifesafe.optimizer import Prior, Priors, Problem
from lifesafe.optimizer.problem import inside, nearest
from lifesafe.returns import Returns

AXES = [np.linspace(0, 500, 6), np.linspace(0, 60, 4)]
GRID = np.stack(np.meshgrid(*AXES, indexing="ij"), axis=-1).reshape(-1, 2)


def problem(**changes: Any) -> Problem:
    return Problem(**{"candidates": GRID, "seeds": (0,), "limits": (20.0,), **changes})


def test_a_grid_has_every_combination_and_seeds_move_to_the_nearest_point() -> None:
    made = Problem.on_grid(AXES, seeds=[Returns(195, 3), Returns(500, 60)], limits=20.0)
    np.testing.assert_array_equal(made.candidates, GRID)
    assert [made.target(i) for i in made.seeds] == [Returns(200, 0), Returns(500, 60)]


def test_axes_are_scaled_to_one_whatever_their_units() -> None:
    made = problem(candidates=GRID * [2.0, 3.0] - [100.0, 7.0])
    assert made.extents == pytest.approx((1000.0, 180.0))
    np.testing.assert_allclose(made.scaled.min(axis=1), 0)
    np.testing.assert_allclose(made.scaled.max(axis=1), 1)


def test_seeds_named_twice_count_once_and_keep_their_order() -> None:
    assert problem(seeds=(5, 2, 5, 2, 7)).seeds == (5, 2, 7)


def test_candidates_cannot_be_changed_from_outside() -> None:
    mine = GRID.copy()
    made = problem(candidates=mine)
    mine[0] = 99.0
    assert made.candidates[0].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        made.candidates[0] = 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limits": ()}, "Got no limits; give one per cost"),
        ({"limits": (20.0, 30.0)}, r"shape \(24, 2\) for 2 limits; give at least two rows with one column"),
        ({"candidates": GRID[:1]}, r"shape \(1, 2\) for 1 limits; give at least two rows"),
        ({"candidates": GRID[:, 0]}, r"shape \(24,\) for 1 limits"),
        ({"candidates": np.where(GRID == 500, np.nan, GRID)}, "must be finite; row 20 is"),
        ({"candidates": GRID * [1, 0]}, "ask for the same cost; every axis needs at least two values"),
        ({"candidates": GRID * [0, 1]}, "ask for the same reward"),
        ({"limits": (0.0,)}, r"Limits must be positive numbers; got \(0.0,\)"),
        ({"limits": (math.nan,)}, r"Limits must be positive numbers; got \(nan,\)"),
        ({"limits": (math.inf,)}, "Limits must be positive"),
        ({"delta": 0.0}, "delta must lie between 0 and 1; got 0.0"),
        ({"delta": math.nan}, "delta must lie between 0 and 1; got nan"),
        ({"seeds": ()}, "Got no seeds; name at least one"),
        ({"seeds": (3, 24)}, r"Seeds \[24\] are not rows of the 24 candidates"),
        ({"seeds": (-1,)}, r"Seeds \[-1\] are not rows"),
        ({"dispersions": (1.0, 2.0)}, "Got 2 dispersions for 1 costs; give one per cost"),
        ({"dispersions": (0.0,)}, r"dispersions must be positive numbers; got \(0.0,\)"),
        ({"lipschitz": (-3.0,)}, r"lipschitz must be positive numbers; got \(-3.0,\)"),
        ({"cost_bounds": (20.0,)}, r"Cost bounds \(20.0,\) must exceed the limits \(20.0,\)"),
        (
            {"priors": Priors(cost=Prior(mean="limit", kernel="rbf", lengthscales=(1, 1, 1), sd=1.0))},
            "Got 3 length-scales for 2 axes; give one, or one per axis",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.wrong_shapes
def test_impossible_problems_are_refused_with_the_value_and_the_rule(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        problem(**change)


def test_targets_outside_the_candidates_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"lies outside the candidates, which run from \[0. 0.\] to \[500. +60.\]"):
        nearest(GRID, Returns(501, 3))
    with pytest.raises(ConfigError, match="has 2 costs, the candidates have 1"):
        nearest(GRID, Returns(1, (2, 3)))


def test_a_seed_box_is_the_candidates_inside_it() -> None:
    rows = inside(GRID, Returns(100, 0), Returns(200, 20))
    assert [tuple(GRID[i]) for i in rows] == [(100, 0), (100, 20), (200, 0), (200, 20)]


@given(
    limit=st.floats(1, 50),
    delta=st.floats(0.01, 0.99),
    trust=st.booleans(),
    seeds=st.sets(st.integers(0, 23), min_size=1),
)
def test_a_problem_survives_json(limit: float, delta: float, trust: bool, seeds: set[int]) -> None:
    made = problem(limits=(limit,), delta=delta, trust_prior=trust, seeds=tuple(seeds), cost_bounds=(99.0,))
    again = Problem.from_plain(json.loads(json.dumps(made.to_plain())))
    assert again.fingerprint == made.fingerprint
    assert again.candidates.tobytes() == made.candidates.tobytes()
    assert (again.seeds, again.limits, again.delta) == (made.seeds, made.limits, made.delta)


@pytest.mark.parametrize(
    "change",
    [{"limits": (21.0,)}, {"seeds": (1,)}, {"delta": 0.2}, {"trust_prior": True}, {"candidates": GRID + 1e-9},
     {"dispersions": (3.0,)}, {"cost_bounds": (90.0,)}, {"lipschitz": (1.0,)}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_everything_that_decides_what_is_asked_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert problem(**change).fingerprint != problem().fingerprint
    assert problem().fingerprint == problem().fingerprint


def test_other_limits_keep_the_units_of_the_prior() -> None:
    made = problem().with_limits(30.0)
    assert (made.limits, made.reference, made.seeds) == ((30.0,), (20.0,), (0,))
    assert made.dispersions == problem().dispersions


def test_lower_limits_need_seeds() -> None:
    with pytest.raises(ConfigError, match=r"\(10.0,\) are lower than \(20.0,\).*name seeds that are safe"):
        problem().with_limits(10.0)
    assert problem().with_limits(10.0, seeds=[3]).seeds == (3,)


# From offline returns.


def offline(rng: np.random.Generator, episodes: int = 400, costs: int = 1) -> list[Returns]:
    rewards = rng.uniform(50, 450, episodes)
    columns = [rng.gamma(2.0, rewards / 40.0) for _ in range(costs)]
    return [Returns(*row) for row in zip(rewards, zip(*columns, strict=True), strict=True)]


@pytest.mark.parametrize("costs", [1, 2])
def test_offline_returns_give_a_grid_and_a_calm_seed(costs: int) -> None:
    returns = offline(np.random.default_rng(0), costs=costs)
    made = Problem.from_returns(returns, limits=[20.0] * costs, delta=0.2)
    rewards = [episode.reward for episode in returns]
    assert made.delta == 0.2
    assert made.candidates[:, 0].min() >= min(rewards)
    assert made.candidates[:, 0].max() <= max(rewards)
    assert made.candidates[:, 1:].min() == 0.0
    assert (made.candidates[:, 1:].max(axis=0) > 20.0).all()  # targets above the limit may be safe
    seed = made.target(made.seeds[0])
    assert all(cost <= 20.0 for cost in seed.costs)
    assert min(rewards) < seed.reward < max(rewards)


def test_the_seed_asks_for_no_more_than_the_limit_even_if_few_episodes_keep_it() -> None:
    many = [Returns(i, 40) for i in range(200)]
    made = Problem.from_returns(many + [Returns(40 + i, 18) for i in range(12)], limits=20.0)
    assert made.target(made.seeds[0]).costs[0] <= 20.0
    with pytest.raises(DatasetError, match="hardly any target within the limits"):
        Problem.from_returns([*many, Returns(40, 1)], limits=20.0)


def test_offline_returns_take_further_settings() -> None:
    made = Problem.from_returns(offline(np.random.default_rng(0)), limits=20.0, cost_bounds=(1000.0,))
    assert made.cost_bounds == (1000.0,)


def test_logs_that_cost_little_have_as_fine_a_grid_as_others() -> None:
    rng = np.random.default_rng(0)
    returns = [Returns(r, c) for r, c in zip(rng.uniform(50, 450, 400), rng.uniform(0, 5, 400), strict=True)]
    made = Problem.from_returns(returns, limits=20.0)
    costs = np.unique(made.candidates[:, 1])
    assert costs.max() < 20.0  # and nothing further from the logs than before
    assert len(costs) == 60
    wide = Problem.from_returns([*returns, *[Returns(200 + i, 60) for i in range(12)]], limits=20.0)
    costs = np.unique(wide.candidates[:, 1])
    assert costs.max() == 60.0
    assert np.diff(costs).min() == pytest.approx(60 / 59)  # of the whole axis, whatever is left out between


@pytest.mark.parametrize(
    ("returns", "limits", "error", "message"),
    [
        ([Returns(i, 1) for i in range(9)], 20.0, DatasetError, "9 episodes; give at least 10"),
        ([Returns(i, 1) for i in range(12)], (20.0, 3.0), ConfigError, "Got 2 limits for 1 costs"),
        ([Returns(5, i) for i in range(12)], 20.0, DatasetError, "have reward 5; there is nothing to choose"),
        ([Returns(i, 50 + i) for i in range(12)], 20.0, DatasetError, "No offline episode keeps the limits.*Raise"),
        ([Returns(i, 6 * i) for i in range(10)], 20.0, DatasetError, "10 episodes are too few or too scattered"),
    ],
    ids=["too few", "limits", "one reward", "unsafe", "scattered"],
)
def test_offline_returns_that_will_not_do_are_refused(
    returns: list[Returns], limits: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Problem.from_returns(returns, limits=limits)
