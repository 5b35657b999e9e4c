"""What a target's own episodes prove, and how seeds are certified."""

from typing import Any

import numpy as np
import pytest

from lifesafe.optimizer import Observation, Problem, Schedule
from lifesafe.optimizer.certificates import EPISODES, certified, seed_certified, upper_bounds, violated
from lifesafe.optimizer.posterior import Posterior

GRID = np.stack(np.meshgrid(np.linspace(0, 500, 6), np.linspace(0, 60, 4), indexing="ij"), axis=-1).reshape(-1, 2)


def problem(**changes: Any) -> Problem:
    return Problem(**{"candidates": GRID, "seeds": (8,), "limits": (20.0,), "cost_bounds": (100.0,), **changes})


def measured(made: Problem, *costs: list[float], index: int = 8) -> Posterior:
    posterior = Posterior(made)
    for trial in costs:
        posterior.observe(Observation(index, np.array([[200.0, cost] for cost in trial])))
    return posterior


def test_a_cheap_target_is_certified_and_a_costly_one_is_not() -> None:
    made = problem()
    assert certified(made, measured(made, [2.0] * 40), 8)
    assert not certified(made, measured(made, [19.9] * 40), 8)
    assert not certified(made, measured(made, [25.0] * 40), 8)


def test_a_certificate_needs_enough_episodes_of_the_target_itself() -> None:
    made = problem()
    assert not certified(made, measured(made, [0.0] * (EPISODES - 1)), 8)
    assert not certified(made, measured(made, [0.0] * 100, index=9), 8)
    assert certified(made, measured(made, [0.0] * EPISODES, [0.0] * 20), 8)


def test_every_cost_must_keep_its_limit() -> None:
    Z = np.hstack([GRID, GRID[:, [1]] + np.arange(24)[:, None]])
    made = Problem(candidates=Z, seeds=(8,), limits=(20.0, 5.0))
    posterior = Posterior(made)
    posterior.observe(Observation(8, np.tile([200.0, 1.0, 7.0], (60, 1))))
    assert not certified(made, posterior, 8)
    assert violated(made, posterior, np.tile([200.0, 1.0, 30.0], (60, 1)))
    assert certified(made.with_limits((20.0, 30.0)), posterior, 8)


def test_the_upper_bound_lies_above_the_mean_and_nears_it() -> None:
    made = problem()
    posterior = measured(made, [5.0] * 20)
    few, many = (upper_bounds(posterior, np.tile([1.0, 5.0], (n, 1)))[0] for n in (20, 2000))
    assert 5.0 < many < few
    assert many == pytest.approx(5.0, rel=0.15)


def test_a_violation_must_be_clear() -> None:
    made = problem()
    posterior = measured(made, [5.0] * 20)
    assert violated(made, posterior, np.tile([1.0, 60.0], (20, 1)))
    assert not violated(made, posterior, np.tile([1.0, 20.5], (20, 1)))
    assert not violated(made, posterior, np.tile([1.0, 60.0], (1, 1)))


def test_an_asserted_seed_is_measured_once() -> None:
    made, asserted = problem(), Schedule(certification="asserted")
    assert not seed_certified(made, asserted, Posterior(made), 8)
    assert seed_certified(made, asserted, measured(made, [19.0]), 8)


def test_a_bet_on_bounded_costs_is_won_by_a_cheap_seed_and_never_by_a_costly_one() -> None:
    made, betting = problem(), Schedule(certification="betting")
    assert not seed_certified(made, betting, measured(made, [0.0] * 3), 8)
    assert seed_certified(made, betting, measured(made, [0.0] * 200), 8)
    assert not seed_certified(made, betting, measured(made, [30.0] * 200), 8)


def test_a_cost_beyond_its_bound_by_rounding_counts_as_the_bound() -> None:
    made, schedule = problem(cost_bounds=(200 * 0.1,), limits=(5.0,)), Schedule(certification="betting")
    costliest = sum([0.1] * 200)
    assert costliest > 200 * 0.1
    assert seed_certified(made, schedule, measured(made, [0.0] * 200 + [costliest]), 8)


@pytest.mark.parametrize("strange", [100.5, -1e-9])
def test_a_cost_outside_its_bounds_wins_no_bet(strange: float) -> None:
    made, schedule = problem(), Schedule(certification="betting")
    assert seed_certified(made, schedule, measured(made, [0.0] * 200), 8)
    assert not seed_certified(made, schedule, measured(made, [0.0] * 200 + [strange]), 8)
