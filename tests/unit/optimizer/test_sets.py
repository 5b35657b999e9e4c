"""Safe set, frontier and expanders on hand-made numbers; whole runs are compared in tests/reference."""

from typing import Any

import numpy as np
import pytest

from lifesafe.optimizer import Observation, Prior, Priors, Problem, Schedule, sets
from lifesafe.optimizer.confidence import Confidence, confidence
from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.sets import expander, frontier, lipschitz_safe_set, safe_set, value


def known(**changes: Any) -> Confidence:
    """Five targets in a row, the reward rising, the cost too."""
    rising = np.linspace(0, 1, 5)
    return Confidence(
        **{
            "risk": np.array([0.0, 0.01, 0.02, 0.3, 0.9]),
            "allowance": 0.02,
            "multiplier": 2.0,
            "reward_mean": rising,
            "reward_sd": np.full(5, 0.05),
            "cost_means": rising[None, :],
            "cost_sds": np.full((1, 5), 0.1),
            "limits": np.ones(1),
            **changes,
        }
    )


def test_safe_is_what_fits_the_allowance_within_reach() -> None:
    near = np.zeros(5)
    assert safe_set(known(), near, 0.1).tolist() == [True, True, True, False, False]
    assert safe_set(known(), np.array([0, 0.1, 0.2, 0, 0]), 0.1).tolist() == [True, True, False, False, False]
    assert not safe_set(known(risk=np.full(5, np.nan)), near, 0.1).any()


def test_a_step_of_just_the_reach_is_allowed_in_spite_of_rounding() -> None:
    distance = np.array([0.1 + 1e-12, 0.1 + 1e-6, 0, 0, 0])
    assert safe_set(known(), distance, 0.1).tolist()[:2] == [True, False]


def test_the_frontier_holds_what_may_be_safe_better_and_within_two_steps() -> None:
    safe, none = np.array([True, True, False, False, False]), np.zeros(5, dtype=bool)
    near, X = np.zeros(5), np.linspace(0, 1, 5)[None, :]
    assert set(frontier(known(), X, safe, near, 0.1, none)) == {2, 3, 4}
    far = np.array([0, 0, 0, 0, 0.21])
    assert set(frontier(known(), X, safe, far, 0.1, none)) == {2, 3}
    closed = np.array([False, False, False, True, False])
    assert set(frontier(known(), X, safe, near, 0.1, closed)) == {2, 4}
    costly = known(cost_means=np.array([[0, 0, 0, 1.1, 1.3]]))
    assert set(frontier(costly, X, safe, near, 0.1, none)) == {2, 3}
    poor = known(reward_mean=np.array([0.9, 0.1, 0.2, 0.3, 0.95]))
    assert set(frontier(poor, X, safe, near, 0.1, none)) == {4}


def test_the_frontier_has_the_most_valuable_target_first() -> None:
    safe, none = np.array([True, False, False, False, False]), np.zeros(5, dtype=bool)
    front = frontier(known(), np.linspace(0, 1, 5)[None, :], safe, np.zeros(5), 0.1, none)
    hoped = value(known())[front]
    assert (np.diff(hoped) <= 0).all()


def test_one_target_per_cell_is_looked_at_the_most_valuable_the_lower_index_if_equal() -> None:
    X = np.array([[0.0, 0.01, 0.34, 0.35, 0.98, 1.0]])
    key = np.array([1.0, 3.0, 2.0, 2.0, 3.0, 0.0])
    assert sets._best_of_cells(key, np.arange(6), X, 0.1).tolist() == [1, 4, 2, 5]
    assert sets._best_of_cells(key, np.arange(6), X, 1e-3).tolist() == [1, 4, 2, 3, 0, 5]
    assert sets._best_of_cells(key, np.array([0, 3, 5]), X, 5.0).tolist() == [3]
    assert sets._best_of_cells(key, np.array([], dtype=np.int64), X, 0.1).tolist() == []


def test_cells_of_different_axes_are_not_mixed_up() -> None:
    X = np.stack(np.meshgrid(np.linspace(0, 1, 7), np.linspace(0, 1, 7), indexing="ij")).reshape(2, -1)
    every = sets._best_of_cells(np.arange(49.0), np.arange(49), X, 0.1)
    assert sorted(every) == list(range(49))


def line(points: int = 21) -> Problem:
    """Targets on a line, reward and cost rising together."""
    Z = np.stack([np.linspace(0, 500, points), np.linspace(0, 60, points)], axis=1)
    cost = Prior(mean="limit", kernel="matern52", lengthscales=(1.0,), sd=1.0)
    return Problem(candidates=Z, seeds=(4,), limits=(20.0,), priors=Priors(cost=cost))


def measured(problem: Problem, cost: float = 2.0) -> Posterior:
    posterior = Posterior(problem)
    posterior.observe(Observation(4, np.tile([100.0, cost], (100, 1))))
    return posterior


def choose(problem: Problem, posterior: Posterior, schedule: Schedule, slopes: Any = None) -> tuple[Any, Any]:
    seen = confidence(schedule, problem, posterior, 0.02)
    distance = np.abs(problem.scaled - problem.scaled[:, [4]]).max(axis=0)
    safe = safe_set(seen, distance, schedule.reach)
    front = frontier(seen, problem.scaled, safe, distance, schedule.reach, np.zeros(len(safe), dtype=bool))
    return safe, expander(schedule, posterior, seen, problem.scaled, safe, front, distance, slopes)


def test_an_expander_is_safe_and_leads_towards_more_reward() -> None:
    problem = line()
    safe, index = choose(problem, measured(problem), Schedule(reach=0.2))
    assert safe[index]
    assert index > 4


def test_nothing_expands_what_is_known_well_enough() -> None:
    problem = line()
    assert choose(problem, measured(problem), Schedule(reach=0.2, tolerance=50.0))[1] is None


def test_nothing_expands_towards_targets_that_are_proven_unsafe() -> None:
    problem = line()
    posterior = measured(problem)
    for i in range(21):
        if i != 4:
            posterior.observe(Observation(i, np.tile([100.0, 400.0], (100, 1))))
    assert choose(problem, posterior, Schedule(reach=0.2))[1] is None


def test_slope_bounds_reach_as_far_as_the_slack_allows() -> None:
    X = np.linspace(0, 1, 5)[None, :]
    bands = known(cost_means=np.full((1, 5), 0.3), cost_sds=np.full((1, 5), 0.1))  # slack 0.5 everywhere
    before = np.array([True, False, False, False, False])
    assert lipschitz_safe_set(bands, X, before, np.array([2.0])).tolist() == [True, True, False, False, False]
    assert lipschitz_safe_set(bands, X, before, np.array([1.0])).tolist() == [True, True, True, False, False]
    assert not lipschitz_safe_set(bands, X, np.zeros(5, dtype=bool), np.array([1.0])).any()


def test_with_several_costs_the_worst_slope_decides() -> None:
    X = np.linspace(0, 1, 5)[None, :]
    bands = known(cost_means=np.array([[0.3] * 5, [0.3] * 5]), cost_sds=np.full((2, 5), 0.1), limits=np.ones(2))
    before = np.array([True, False, False, False, False])
    safe = lipschitz_safe_set(bands, X, before, np.array([0.5, 2.0]))
    assert safe.tolist() == [True, True, False, False, False]


def test_a_target_that_is_not_safe_for_certain_proves_nothing() -> None:
    X = np.linspace(0, 1, 5)[None, :]
    bands = known(cost_means=np.array([[0.9, 0.3, 0.3, 0.3, 0.3]]), cost_sds=np.full((1, 5), 0.1))
    before = np.array([True, False, False, False, False])
    assert not lipschitz_safe_set(bands, X, before, np.array([0.01])).any()


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_the_choice_of_an_expander_does_not_depend_on_units(scale: float) -> None:
    problem = line()
    other = Problem(
        candidates=problem.candidates * [1.0, scale], seeds=(4,), limits=(20.0 * scale,), priors=problem.priors
    )
    posterior = Posterior(other)
    posterior.observe(Observation(4, np.tile([100.0, 2.0 * scale], (100, 1))))
    plan = Schedule(reach=0.2)
    assert choose(other, posterior, plan)[1] == choose(problem, measured(problem), plan)[1]
