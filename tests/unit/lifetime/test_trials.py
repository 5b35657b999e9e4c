"""How long a target is tried."""

import inspect
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lifesafe.cli.lifetime import run
from lifesafe.environments import task
from lifesafe.errors import ConfigError, GuaranteeWarning
from lifesafe.lifetime.trials import DITHER, default_schedule, run_trial, schedule_for, seed_episodes
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule, Stage
from lifesafe.optimizer.certificates import LEVEL
from lifesafe.optimizer.decision import check_steps
from lifesafe.optimizer.problem import grid_points
from lifesafe.returns import Returns
from lifesafe.theory.betting import safety_test


@pytest.mark.parametrize(("limit", "bound"), [(20.0, 200.0), (20.0, 1000.0), (40.0, 300.0)])
def test_so_many_episodes_certify_a_seed_that_costs_a_quarter_of_its_limit(limit: float, bound: float) -> None:
    count = seed_episodes([limit], [bound], 20)
    assert count % 20 == 0
    free = safety_test(limit, bound, LEVEL).update(np.zeros(count)).rejected_at
    assert free is not None
    assert free <= count / 1.4
    assert safety_test(limit, bound, LEVEL).update(np.full(count, limit / 4)).rejected


def test_the_schedule_of_a_lifetime_certifies_seeds_by_betting() -> None:
    schedule = schedule_for([20.0], [300.0])
    assert schedule == default_schedule(task("CarCircle"), 0.0)
    assert default_schedule(task("CarCircle")) == schedule_for([20.0], [300.0], DITHER)
    assert schedule.certification == "betting"
    assert schedule.seed_episodes == seed_episodes([20.0], [300.0], schedule.episodes)


def test_the_command_dithers_as_every_life() -> None:
    assert inspect.signature(run).parameters["dither"].default == DITHER


def test_with_dither_no_step_is_longer_than_its_deviation() -> None:
    assert schedule_for([20.0], [300.0], 0.05) == replace(schedule_for([20.0], [300.0]), reach=0.05)
    assert schedule_for([20.0], [300.0], 0.2).reach == Schedule().reach
    assert schedule_for([20.0], [], 0.05) == Schedule(on_violation="hold", reach=0.05)


@pytest.mark.parametrize("costs", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dither", [0.0, 0.001, 0.05])
def test_a_step_always_leads_to_another_candidate(costs: int, dither: float) -> None:
    rng = np.random.default_rng(0)
    returns = np.column_stack([rng.uniform(0, 500, 3000), *(rng.gamma(1.0, 5.0, 3000) for _ in range(costs))])
    problem = Problem.from_returns(returns, limits=[20.0] * costs, dither=dither)
    schedule = schedule_for([20.0] * costs, [], dither)
    check_steps(problem, schedule)
    assert schedule.reach >= 1 / (grid_points(costs) - 1)
    with pytest.raises(ConfigError, match="nothing but the seeds could be tried"):
        check_steps(problem, replace(schedule, reach=0.9 / (grid_points(costs) - 1)))


class Machine:
    """Stands for an evaluator: every episode costs the same."""

    def __init__(self, cost: float) -> None:
        self.cost = cost

    def run(self, targets: list[Returns], seeds: list[int]) -> SimpleNamespace:
        return SimpleNamespace(returns=[Returns(100.0, self.cost) for _ in targets])


def optimizer() -> SafeOptimizer:
    axes = [np.linspace(0, 500, 11), np.linspace(0, 60, 11)]
    problem = Problem.on_grid(axes, seeds=[Returns(200, 0)], limits=20.0, cost_bounds=(200.0,))
    return SafeOptimizer(problem, schedule_for([20.0], [200.0]))


def try_once(search: SafeOptimizer, cost: float) -> int:
    """Run the trial that is asked for, and return how many episodes it took."""
    trial = search.ask()
    assert trial is not None
    episodes = run_trial(Machine(cost), search, trial, seed=0)  # type: ignore[arg-type]
    search.tell(trial, episodes)
    return len(episodes)


def test_a_seed_that_costs_nothing_is_tried_for_as_long_as_its_certificate_takes() -> None:
    search = optimizer()
    assert try_once(search, 0.0) == 40
    assert search.stage is Stage.EXPLORE


def test_episodes_of_earlier_trials_of_a_seed_count() -> None:
    search = optimizer()
    assert try_once(search, 10.0) == 60
    assert search.stage is Stage.SEED
    assert try_once(search, 0.0) == 20
    assert search.stage is Stage.EXPLORE


def test_a_seed_that_is_clearly_too_costly_is_given_up_soon() -> None:
    with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
        assert try_once(optimizer(), 90.0) == 20


def explorer() -> SafeOptimizer:
    """A search whose seed is certified."""
    search = optimizer()
    try_once(search, 0.0)
    return search


@pytest.mark.parametrize(("cost", "episodes"), [(0.0, 20), (15.0, 20), (30.0, 20), (60.0, 10), (150.0, 10)])
def test_a_trial_ends_early_only_if_it_is_clearly_too_costly(cost: float, episodes: int) -> None:
    search = explorer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # that a limit was exceeded
        assert try_once(search, cost) == episodes
    assert search.trials[-1].trial.stage is Stage.EXPLORE
    assert (search.held_by == "violation") is (cost > 20)


def test_an_early_end_does_not_change_the_episodes_before_it() -> None:
    """A run that was killed within a trial runs it again, and must tell the same."""
    seen: list[int] = []

    class Recorder(Machine):
        def run(self, targets: list[Returns], seeds: list[int]) -> SimpleNamespace:
            seen.extend(seeds)
            return super().run(targets, seeds)

    for cost in (0.0, 60.0):
        search = explorer()
        trial = search.ask()
        assert trial is not None
        run_trial(Recorder(cost), search, trial, seed=0)  # type: ignore[arg-type]
    assert len(seen) == 20 + 10
    assert seen[20:] == seen[:10]


def test_without_cost_bounds_a_trial_has_all_its_episodes() -> None:
    axes = [np.linspace(0, 500, 11), np.linspace(0, 60, 11)]
    problem = Problem.on_grid(axes, seeds=[Returns(200, 0)], limits=20.0)
    search = SafeOptimizer(problem, Schedule(certification="score"))
    with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
        assert try_once(search, 150.0) == 20
