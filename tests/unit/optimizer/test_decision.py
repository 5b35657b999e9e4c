"""Decisions: stages, refusals, recommendations. Whole runs are compared in tests/reference."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError, GuaranteeWarning, NoSafeTargetError, TrialError
from lifesafe.optimizer import Prior, Priors, Problem, SafeOptimizer, Schedule, Stage, Trial
from lifesafe.optimizer.decision import admissible, check_prior
from lifesafe.optimizer.journal import JOURNAL, read_events
from lifesafe.optimizer.state import State, known_now
from lifesafe.returns import Returns
from properties.runs import lively, quick

AXES = [np.linspace(0, 500, 11), np.linspace(0, 60, 7)]


def problem(**changes: Any) -> Problem:
    seeds = changes.pop("seeds", [Returns(250, 0)])
    return Problem.on_grid(AXES, seeds=seeds, limits=changes.pop("limits", 20.0), **changes)


def cost(**changes: Any) -> Priors:
    return Priors(cost=Prior(**{"mean": "limit", "kernel": "rbf", "lengthscales": (0.5,), "sd": 1.0, **changes}))


def tell(optimizer: SafeOptimizer, value: float, reward: float = 100.0, episodes: int = 20) -> Any:
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(reward, value)] * episodes)
    return trial


def test_a_prior_that_certifies_untried_targets_is_refused() -> None:
    sure = problem(priors=cost(mean="target", sd=0.05))
    with pytest.raises(ConfigError, match=r"certifies \d+\.\d% of the candidates.*larger prior sd.*trust_prior"):
        SafeOptimizer(sure)


def test_a_prior_that_certifies_untried_targets_may_be_trusted() -> None:
    optimizer = SafeOptimizer(problem(priors=cost(mean="target", sd=0.05), trust_prior=True))
    tell(optimizer, 1.0)
    assert optimizer.safe.sum() > 1


def test_the_papers_raw_prior_certifies_everything_and_is_refused() -> None:
    # Mean 0 and variance 1 in raw units, with limit 20: on low targets the target prior with a tiny sd is that.
    low = Problem.on_grid(
        [np.linspace(0, 1, 5), np.linspace(0, 1, 5)], seeds=[Returns(0, 0)], limits=20.0,
        priors=cost(mean="target", sd=1 / 20),
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"certifies 9\d\.\d% of the candidates"):
        check_prior(low, Schedule())


@pytest.mark.parametrize("seeds", [1, 77])
def test_seeds_need_no_certificate_from_the_prior(seeds: int) -> None:
    Z = problem().candidates
    made = Problem(candidates=Z, seeds=tuple(range(seeds)), limits=(20.0,))
    assert len(made.seeds) == seeds
    check_prior(made, Schedule())


def test_betting_needs_bounds_of_the_costs() -> None:
    with pytest.raises(ConfigError, match="betting certificate needs cost_bounds"):
        SafeOptimizer(problem(), Schedule(certification="betting"))


@pytest.mark.parametrize(("risk", "scale"), [("ledger", "linear"), ("paper", "log")], ids=["ledger", "log scale"])
def test_slope_bounds_need_the_paper_schedule_and_a_linear_scale(risk: Any, scale: str) -> None:
    with pytest.raises(ConfigError, match=rf"got the {risk} schedule on the {scale} scale. Use the paper schedule"):
        SafeOptimizer(problem(lipschitz=(50.0,), priors=cost(scale=scale)), Schedule(risk=risk))


@pytest.mark.parametrize("certification", ["score", "betting", "asserted"])
def test_a_cheap_seed_is_certified_in_every_way(certification: Any) -> None:
    optimizer = SafeOptimizer(problem(cost_bounds=(60.0,)), Schedule(certification=certification, episodes=60))
    assert optimizer.stage is Stage.SEED
    first = tell(optimizer, 0.0, episodes=200)
    assert first.stage is Stage.SEED
    assert optimizer.stage is not Stage.SEED


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")
@pytest.mark.parametrize("certification", ["score", "betting", "asserted"])
def test_when_one_seed_fails_the_next_is_measured_and_when_all_fail_nothing_is(certification: Any) -> None:
    made = problem(seeds=[Returns(250, 0), Returns(100, 0)], cost_bounds=(1000.0,))
    optimizer = SafeOptimizer(made, Schedule(certification=certification))
    assert tell(optimizer, 300.0).index == made.seeds[0]
    assert optimizer.stage is Stage.SEED
    assert tell(optimizer, 300.0).index == made.seeds[1]
    with pytest.raises(NoSafeTargetError, match=r"all 2 seeds failed.*more conservative seeds or higher limits"):
        optimizer.ask()
    assert optimizer.best is None
    assert not optimizer.safe.any()


def test_a_seed_that_cannot_be_certified_is_given_up_after_its_trials() -> None:
    made = problem(seeds=[Returns(250, 0), Returns(100, 0)])
    optimizer = SafeOptimizer(made, Schedule(seed_trials=2, surprises=99))
    asked = [tell(optimizer, 19.5).index for _ in range(4)]
    assert asked == [*made.seeds] * 2
    with pytest.raises(NoSafeTargetError):
        optimizer.ask()


def seeds_asked(costs: dict[float, float], trials: int) -> list[float]:
    """Return the rewards of the seeds that are asked for in turn, from the cost of each."""
    made = problem(seeds=[Returns(reward, 0) for reward in costs], cost_bounds=(1000.0,))
    rewards = dict(zip(made.seeds, costs, strict=True))
    optimizer = SafeOptimizer(made, Schedule(certification="betting", surprises=99))  # so few episodes certify none
    return [rewards[tell(optimizer, costs[rewards[optimizer.ask().index]]).index] for _ in range(trials)]  # type: ignore[union-attr]


def test_a_seed_that_looks_safe_is_measured_on() -> None:
    assert seeds_asked({250: 15.0, 350: 5.0}, 4) == [250] * 4


def test_a_seed_near_the_limit_makes_way_for_its_neighbor_on_the_side_where_costs_fall() -> None:
    skill = {250: 19.0, 150: 19.9, 350: 18.0, 50: 40.0, 400: 9.0}
    assert seeds_asked(skill, 6) == [250, 150, 350, 400, 400, 400]
    speed = {250: 19.0, 150: 18.0, 350: 19.8, 50: 9.0, 400: 40.0}
    assert seeds_asked(speed, 5) == [250, 150, 50, 50, 50]


def test_when_no_seed_looks_safe_the_cheapest_is_measured_on_and_none_beyond_a_worse_one() -> None:
    valley = {250: 18.0, 150: 19.0, 350: 19.5, 50: 40.0, 400: 40.0}
    assert seeds_asked(valley, 6) == [250, 150, 350, 250, 250, 250]


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")
def test_the_neighbors_of_a_seed_that_failed_are_tried_too() -> None:
    assert seeds_asked({250: 300.0, 150: 200.0, 350: 300.0, 50: 9.0}, 4) == [250, 150, 50, 50]


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")
def test_seeds_beyond_costlier_ones_are_not_tried_even_if_all_others_failed() -> None:
    costs = {250: 200.0, 150: 300.0, 350: 300.0, 50: 9.0, 400: 9.0}
    with pytest.raises(NoSafeTargetError, match=r"3 seeds failed \(.*\), and 2 more lie beyond costlier ones"):
        seeds_asked(costs, 4)
    assert seeds_asked(costs, 3) == [250, 150, 350]


def test_a_failed_seed_is_not_tried_again_under_slope_bounds() -> None:
    made = problem(
        seeds=[Returns(250, 0), Returns(100, 0)], lipschitz=(5000.0,), priors=cost(sd=1.0, lengthscales=(0.05,))
    )
    optimizer = SafeOptimizer(made, Schedule(risk="paper", seed_trials=1, surprises=99))
    tell(optimizer, 19.5)
    tell(optimizer, 0.0, episodes=400)
    assert optimizer.stage is Stage.EXPLORE
    assert not optimizer.safe[made.seeds[0]]
    assert optimizer.safe[made.seeds[1]]


@pytest.mark.parametrize("certification", ["score", "betting"])
def test_a_seed_that_nobody_measured_is_not_safe_under_slope_bounds(certification: str) -> None:
    made = problem(
        seeds=[Returns(250, 0), Returns(100, 0)],
        lipschitz=(5000.0,),
        cost_bounds=(60.0,),
        priors=cost(sd=1.0, lengthscales=(0.05,)),
    )
    optimizer = SafeOptimizer(made, Schedule(risk="paper", certification=certification, exploration=0))
    tell(optimizer, 0.0, episodes=400)
    assert optimizer.stage is Stage.EXPLORE
    assert optimizer.safe[made.seeds[0]]
    assert not optimizer.safe[made.seeds[1]]


def test_a_prior_that_calls_untried_targets_safe_in_the_last_trial_is_refused() -> None:
    made = problem(priors=cost(mean="target", sd=0.45))
    with pytest.raises(ConfigError, match="The prior alone certifies"):
        SafeOptimizer(made, Schedule(share=None))


def test_the_stages_follow_each_other_and_end() -> None:
    system, rng = lively(np.random.default_rng(3), size=8), np.random.default_rng(0)
    optimizer = SafeOptimizer(system.problem, quick(trials=9, exploration=3))
    stages = []
    while (trial := optimizer.ask()) is not None:
        stages.append(trial.stage)
        assert optimizer.stage is trial.stage
        optimizer.tell(trial, system.episodes(trial.index, 20, rng))
    assert len(stages) == 9
    assert stages == sorted(stages, key=list(Stage).index)
    assert stages.count(Stage.EXPLORE) == 3
    assert optimizer.stage is Stage.DONE
    assert optimizer.ask_many(3) == ()


def test_the_run_ends_early_when_nothing_can_be_much_better() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(exploration=0, accuracy=0.9, trials=30))
    trials = 0
    while optimizer.ask() is not None:
        tell(optimizer, 0.5)
        trials += 1
    assert 1 <= trials < 30
    assert optimizer.stage is Stage.DONE
    assert optimizer.best is not None
    exact = SafeOptimizer(problem(), Schedule(exploration=0, accuracy=1e-9, trials=4))
    for _ in range(4):
        tell(exact, 0.5)
    assert len(exact.trials) == 4


def test_a_violation_may_hold_the_search_to_what_was_tried_until_it_is_confirmed() -> None:
    system, rng = lively(np.random.default_rng(3), size=8), np.random.default_rng(0)
    optimizer = SafeOptimizer(system.problem, quick(on_violation="hold", surprises=99))
    tried: list[int] = []
    while (trial := optimizer.ask()) is not None and len(tried) < 9:
        if len(tried) == 3:
            assert trial.index not in tried
            with pytest.warns(GuaranteeWarning, match=r"Nothing new is tried from now on; confirm\(\)"):
                optimizer.tell(trial, [Returns(1.0, 300.0)] * 20)
        else:
            optimizer.tell(trial, system.episodes(trial.index, 20, rng))
        tried.append(trial.index)
    assert set(tried[4:]) <= set(tried[:3])
    held = optimizer.safe.sum()
    assert optimizer.held_by == "violation"
    optimizer.confirm()
    assert optimizer.held_by is None
    assert optimizer.safe.sum() > held
    with pytest.raises(TrialError, match="nothing to confirm"):
        optimizer.confirm()


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")
def test_a_seed_that_fails_holds_nothing_up() -> None:
    made = problem(seeds=[Returns(250, 0), Returns(100, 0)])
    optimizer = SafeOptimizer(made, Schedule(on_violation="hold"))
    tell(optimizer, 300.0)
    with pytest.raises(TrialError, match="nothing to confirm"):
        optimizer.confirm()


def test_a_violation_may_end_the_run() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(on_violation="stop"))
    tell(optimizer, 0.5)
    with pytest.warns(GuaranteeWarning, match=r"Trial 2 at .* exceeded a limit: mean costs 300, limits 20"):
        tell(optimizer, 300.0)
    assert optimizer.ask() is None
    assert optimizer.stage is Stage.DONE


def test_a_limit_that_was_not_exceeded_lifts_the_stop() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(on_violation="stop"))
    tell(optimizer, 0.5)
    with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
        tell(optimizer, 300.0)
    optimizer.change_limits(200.0)
    assert optimizer.ask() is None  # 300 is too much for 200 as well
    optimizer.change_limits(900.0)
    assert optimizer.ask() is not None


def test_open_trials_may_be_told_after_a_violation_has_ended_the_run() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(on_violation="stop"))
    first, second = optimizer.ask_many(2)
    with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
        optimizer.tell(first, [Returns(1.0, 300.0)] * 20)
    assert optimizer.ask() == second
    assert optimizer.stage is not Stage.DONE
    optimizer.tell(second, [Returns(1.0, 0.0)] * 20)
    assert optimizer.ask() is None


def test_nothing_is_recommended_before_it_is_certified_by_its_own_episodes() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(certification="asserted"))
    assert optimizer.best is None
    trial = optimizer.ask()
    assert trial is not None
    assert optimizer.best is None  # asked is not tried
    optimizer.tell(trial, [Returns(100.0, 0.0)] * 2)
    assert optimizer.best is None  # tried, but two episodes prove nothing
    while optimizer.best is None:
        tell(optimizer, 0.0)
    assert optimizer.best.index in {result.trial.index for result in optimizer.trials}
    assert optimizer.best.means == Returns(100.0, 0.0)


def test_surprises_freeze_the_search_until_they_are_confirmed() -> None:
    system = lively(np.random.default_rng(3), size=8)
    optimizer, rng = SafeOptimizer(system.problem, quick(surprises=1)), np.random.default_rng(1)
    while len({r.trial.index for r in optimizer.trials}) < 3:
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, system.episodes(trial.index, 20, rng))
    assert optimizer.safe.sum() > 1
    trial = optimizer.ask()
    assert trial is not None
    with pytest.warns(GuaranteeWarning) as caught:
        optimizer.tell(trial, [Returns(100.0, 400.0)] * 20)
    assert any("confirm() goes on" in str(warning.message) for warning in caught)
    assert optimizer.frozen
    assert optimizer.held_by == "surprises"
    assert set(np.flatnonzero(optimizer.safe)) <= set(system.problem.seeds)
    frozen = optimizer.ask()
    assert frozen is not None
    assert frozen.index in system.problem.seeds
    assert frozen.stage is trial.stage  # the search goes on where it was
    optimizer.tell(frozen, system.episodes(frozen.index, 20, rng))
    optimizer.confirm()
    assert not optimizer.frozen
    assert optimizer.safe.sum() > 1
    assert not optimizer.safe[trial.index]


def test_a_closed_target_is_not_tried_even_if_the_model_thinks_it_safe() -> None:
    run = State(problem(), Schedule(certification="asserted", surprises=99, trials=99))
    seed, index = run.problem.seeds[0], run.problem.seeds[0] + 1
    for at, cost_of_trial in [(seed, 1.0), *[(index, 1.0)] * 60, (index, 90.0)]:
        run.ask(Trial(run.asked + 1, run.problem.target(at), at, Stage.EXPLORE, 20, 0.0))
        run.tell(run.asked, np.tile([100.0, cost_of_trial], (20, 1)))
    assert run.results[-1].violated
    known = known_now(run)
    assert known.risk[index] <= known.allowance
    assert not admissible(run, known)[index]


def test_a_trial_that_refutes_the_bounds_on_costs_is_kept_and_certifies_nothing(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path, problem(cost_bounds=(100.0,)), Schedule(certification="betting")) as optimizer:
        trial = optimizer.ask()
        assert trial is not None
        with pytest.warns(GuaranteeWarning, match=r"costs from 0 to 100.5, and cost_bounds says 0 to 100\. What"):
            optimizer.tell(trial, [Returns(100, 0)] * 99 + [Returns(100, 100.5)])
        assert not optimizer.safe.any()
    with SafeOptimizer.open(tmp_path) as optimizer:
        assert len(optimizer.trials) == 1
        tell(optimizer, 0.0)
        assert not optimizer.safe.any()


def test_a_seed_of_short_trials_is_not_given_up_before_it_could_be_certified() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(episodes=1))
    for _ in range(19):
        assert tell(optimizer, 0.0, episodes=1).stage is Stage.SEED
    tell(optimizer, 0.0, episodes=1)
    assert optimizer.safe.any()


@pytest.mark.parametrize("certification", ["asserted", "score"])
def test_a_seed_that_was_far_above_stays_out_under_a_slightly_higher_limit(certification: Any) -> None:
    made = problem(seeds=[Returns(250, 0), Returns(450, 0)])
    cheap, dear = made.seeds
    optimizer = SafeOptimizer(made, Schedule(certification=certification, trials=20))
    optimizer._state.withdraw(cheap)  # so that the other is measured
    with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
        assert tell(optimizer, 100.0).index == dear
    optimizer.change_limits(21.0)
    assert not optimizer.safe[dear]
    with pytest.raises(NoSafeTargetError):
        optimizer.ask()


def test_other_limits_do_not_confirm_what_holds_the_search_up() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(on_violation="hold"))
    tell(optimizer, 0.5)
    with pytest.warns(GuaranteeWarning, match="Nothing new is tried"):
        tell(optimizer, 300.0)
    optimizer.change_limits(25.0)
    assert optimizer.held_by == "violation"
    optimizer.change_limits(900.0)  # under which it was none
    assert optimizer.held_by is None


def test_a_lower_limit_does_not_end_a_run_whose_trials_kept_those_of_their_time() -> None:
    optimizer = SafeOptimizer(problem(), Schedule(on_violation="stop"))
    seed = tell(optimizer, 0.5).index
    tell(optimizer, 15.0)
    optimizer.change_limits(8.0, [seed])
    assert optimizer.ask() is not None


def test_the_risk_that_was_spent_is_not_forgotten_under_the_same_limits() -> None:
    optimizer = SafeOptimizer(problem())
    with pytest.raises(ConfigError, match=r"limits are \(20.0,\) already"):
        optimizer.change_limits(20.0)


def test_limits_under_which_the_prior_alone_would_certify_are_refused_and_change_nothing(tmp_path: Path) -> None:
    made = problem(priors=cost(mean="larger", scale="linear"))
    with SafeOptimizer.open(tmp_path, made) as optimizer:
        tell(optimizer, 1.0)
        with pytest.raises(ConfigError, match="The prior alone certifies"):
            optimizer.change_limits(100.0)
        assert optimizer.problem.limits == (20.0,)
    assert [event.kind for event in read_events(tmp_path / JOURNAL)] == ["opened", "asked", "told"]
