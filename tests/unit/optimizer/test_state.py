"""State: what the events of a run change."""

from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe.optimizer import Problem, Schedule, Stage, Trial
from lifesafe.optimizer.state import State

AXES = np.linspace(0, 500, 6), np.linspace(0, 60, 4)
GRID = np.stack(np.meshgrid(*AXES, indexing="ij"), axis=-1).reshape(-1, 2)


def state(seeds: tuple[int, ...] = (8,), **changes: Any) -> State:
    made = Problem(candidates=GRID, seeds=seeds, limits=(20.0,))
    return State(made, Schedule(**{"reach": 0.8, **changes}))


def ask(run: State, index: int, stage: Stage = Stage.EXPLORE, risk: float = 0.01) -> Trial:
    trial = Trial(run.asked + 1, run.problem.target(index), index, stage, 20, risk)
    run.ask(trial)
    return trial


def tell(run: State, trial: Trial, cost: float, episodes: int = 40) -> None:
    run.tell(trial.number, np.tile([200.0, cost], (episodes, 1)))


def lumps(mean: float, episodes: int = 20) -> Float[np.ndarray, "m 2"]:
    """Return episodes of which one half costs nothing."""
    return np.tile([[200.0, 0.0], [200.0, 2 * mean]], (episodes // 2, 1))


def test_first_visits_are_charged_and_later_ones_and_seeds_are_not() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    for index, spent in ((9, 0.01), (9, 0.01), (10, 0.02), (8, 0.02)):
        tell(run, ask(run, index), 1.0)
        assert run.spent == spent


def test_seeds_that_are_not_certified_are_charged_once_they_are_tried_as_targets() -> None:
    run = state(seeds=(8, 9, 10, 11))
    run.tell(ask(run, 9, Stage.SEED).number, lumps(mean=16.0))
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    assert (run.certified, run.spent) == ({8}, 0.0)
    for index, spent in ((8, 0.0), (10, 0.01), (9, 0.02), (10, 0.02)):
        ask(run, index)
        assert run.spent == spent


def test_asserted_seeds_are_not_charged() -> None:
    run = state(seeds=(8, 9), certification="asserted")
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    ask(run, 9)
    assert run.spent == 0.0


def test_what_was_certified_stays_paid_for_under_higher_limits_and_other_seeds() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    run.change(run.problem.with_limits(30.0, seeds=(9,)))
    ask(run, 8)
    assert run.spent == 0.0


def test_a_certified_seed_starts_the_exploration() -> None:
    run = state()
    assert run.stage is Stage.SEED
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    assert run.stage is Stage.EXPLORE
    assert run.certified == {8}


def test_a_seed_that_costs_too_much_gives_way_to_the_next() -> None:
    run = state(seeds=(8, 4))
    tell(run, ask(run, 8, Stage.SEED), 90.0)
    assert (run.stage, run.seed, run.failed) == (Stage.SEED, 4, {8})
    tell(run, ask(run, 4, Stage.SEED), 90.0)
    assert run.seed is None


def test_a_seed_that_is_not_certified_in_time_gives_way_to_the_next() -> None:
    run = state(seeds=(8, 4), seed_trials=3)
    run.tell(ask(run, 4, Stage.SEED).number, lumps(mean=18.0))
    for _ in range(3):
        assert run.seed == 8
        run.tell(ask(run, 8, Stage.SEED).number, lumps(mean=16.0))
    assert run.seed == 4


def test_a_seed_fails_once_all_its_trials_together_show_that_it_costs_too_much() -> None:
    run = state()
    while 8 not in run.failed:
        run.tell(ask(run, 8, Stage.SEED).number, lumps(mean=28.0))
        assert not run.results[-1].violated
    assert 1 < len(run.results) < run.schedule.seed_trials


def test_a_seed_too_near_its_limit_to_be_certified_is_given_up_unless_it_is_asserted() -> None:
    near = lumps(mean=19.0, episodes=400)
    run = state()
    run.tell(ask(run, 8, Stage.SEED).number, near)
    assert (run.stage, run.failed) == (Stage.SEED, {8})
    asserted = state(certification="asserted")
    asserted.tell(ask(asserted, 8, Stage.SEED).number, near)
    assert (asserted.certified, asserted.failed) == ({8}, set())


def test_a_violation_closes_its_neighbourhood_and_nothing_else() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    trial = ask(run, 13)
    tell(run, trial, 200.0)
    assert run.results[-1].violated
    assert run.closed[13]
    far = np.abs(run.problem.scaled - run.problem.scaled[:, [13]]).max(axis=0) > run.schedule.reach
    assert not run.closed[far].any()


def test_distances_are_those_to_the_nearest_tried_target() -> None:
    run = state()
    assert np.isinf(run.distance).all()
    tell(run, ask(run, 8), 1.0)
    tell(run, ask(run, 23), 1.0)
    X = run.problem.scaled
    expected = np.minimum(*(np.abs(X - X[:, [i]]).max(axis=0) for i in (8, 23)))
    np.testing.assert_allclose(run.distance, expected)


def test_surprises_are_counted_and_forgiven_when_confirmed() -> None:
    run = state(surprises=2)
    for _ in range(4):
        tell(run, ask(run, 8), 1.0, 200)
    assert run.surprises == 0
    tell(run, ask(run, 8), 50.0)
    assert (run.surprises, run.frozen) == (1, False)
    tell(run, ask(run, 8), 900.0)
    assert run.frozen
    run.confirm()
    assert not run.frozen


def test_the_first_trial_is_no_surprise_whatever_it_costs() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1e6)
    assert run.surprises == 0


def test_higher_limits_keep_what_is_charged_and_start_a_new_ledger() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    tell(run, ask(run, 9), 1.0)
    run.change(run.problem.with_limits(30.0))
    assert run.spent == 0.0
    assert run.stage is Stage.EXPLORE  # the seed's old episodes certify it
    tell(run, ask(run, 9), 1.0)
    assert run.spent == 0.0
    assert run.trial == 2


def test_lower_limits_charge_every_target_anew() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    tell(run, ask(run, 9), 1.0)
    run.change(run.problem.with_limits(15.0, seeds=(8,)))
    tell(run, ask(run, 9), 1.0)
    assert run.spent == 0.01


def test_what_violates_the_new_limits_is_closed_at_once() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    tell(run, ask(run, 13), 15.0, 400)
    assert not run.closed.any()
    run.change(run.problem.with_limits(5.0, seeds=(8,)))
    assert run.closed[13]


def test_open_trials_spread_the_choice_and_leave_the_beliefs_alone() -> None:
    run = state()
    tell(run, ask(run, 8, Stage.SEED), 1.0)
    assert run.pretended() is run.posterior
    before = run.posterior.reward.var.copy()
    ask(run, 9)
    assert run.pretended().reward.var[9] < before[9]
    np.testing.assert_array_equal(run.posterior.reward.var, before)
