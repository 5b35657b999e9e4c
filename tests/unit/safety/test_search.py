"""SafeOptimizer: what it refuses, when a trial may end early, other limits, retractions, and the record on disk."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError, GuaranteeWarning, JournalError, NoSafeTargetError, TrialError
from lifesafe.journal import JOURNAL, read_records
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer, Trial
from lifesafe.safety.search import check_moves
from unit.safety.machines import LIMIT, START, free, plain, problem, run, run_until, tell_all

TOTAL: dict[str, Any] = {"promise": "total", "stop_at": 39.0, "episodes": 400}
AXES2 = {"reward": (0.0, 400.0), "cost 1": (0.0, 60.0), "cost 2": (0.0, 60.0)}
quietly = pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")


def opened(optimizer: SafeOptimizer) -> Trial:
    trial = optimizer.ask()
    assert trial is not None
    return trial


# What cannot be told.


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([Returns(1, -0.5)], "Episode 1 has a cost of -0.5; costs are never negative. If less is better without end"),
        (
            [Returns(1, 1), Returns(1, 700)],
            r"Episode 2 has a cost of 700, and no episode can cost more than 600 \(larg",
        ),
        ([Returns(1, 1)] * 31, "Got 31 episodes for a trial of 30; tell one for each target, in order"),
        ([Returns(1, (1, 1))], "Got episodes with 2 costs; the problem has 1"),
        ([Returns(1e101, 1)], r"Got a return of 1e\+101; that is no return of an episode"),
        ([], "Got no episodes; give the returns of at least one"),
        ([3.0], r"Episodes are given as Returns\(reward, costs\); got 3.0"),
        ("all went well", r"got 'a'"),
        (None, "Episodes are given as a list of Returns, in the order of the targets; got None"),
    ],
)
def test_returns_that_do_not_fit_are_refused_with_the_reason(episodes: Any, message: str) -> None:
    optimizer = SafeOptimizer(problem(largest=600))
    trial = opened(optimizer)
    with pytest.raises(TrialError, match=message):
        optimizer.tell(trial, episodes)
    assert optimizer.open_trial == trial
    assert optimizer.trials == ()


def test_a_cost_at_the_largest_may_be_rounded() -> None:
    optimizer = SafeOptimizer(problem(largest=100))
    optimizer.tell(opened(optimizer), [Returns(1, 100.0005)])
    assert optimizer.beliefs.own[(100.0, 0.0)].episodes == 1
    with pytest.raises(TrialError, match=r"a cost of 100.002, and no episode can cost more than 100"):
        optimizer.tell(opened(optimizer), [Returns(1, 100.002)])


@pytest.mark.wrong_shapes
def test_only_the_trial_that_is_open_can_be_told() -> None:
    optimizer = SafeOptimizer(problem())
    with pytest.raises(TrialError, match=r"Trial 1 is not open: no trial is. Call ask\(\) first"):
        optimizer.tell(Trial(1, "start", (START,) * 30), [Returns(1, 1)])
    trial = opened(optimizer)
    with pytest.raises(TrialError, match="Trial 2 is not the open one; trial 1 is"):
        optimizer.tell(Trial(2, "start", trial.targets), [Returns(1, 1)])
    with pytest.raises(TrialError, match=r"Give the trial that ask\(\) returned; got 1"):
        optimizer.tell(1, [Returns(1, 1)])


# Ending a trial early.


def test_a_trial_may_end_early_when_its_center_is_nearly_surely_too_costly_and_not_before_five_episodes() -> None:
    optimizer = SafeOptimizer(problem())
    trial = opened(optimizer)
    dear, doubtful, cheap = ([Returns(100, cost)] * 30 for cost in (80, 21, 0))
    assert not optimizer.ends_early(trial, dear[:4])
    assert optimizer.ends_early(trial, dear[:8])
    assert optimizer.ends_early(trial, dear[:29])
    assert not optimizer.ends_early(trial, dear)  # it has ended
    assert not any(optimizer.ends_early(trial, rows[:n]) for rows in (doubtful, cheap) for n in (5, 20, 29))
    with pytest.raises(TrialError, match="costs are never negative"):
        optimizer.ends_early(trial, [Returns(100, -1)] * 6)
    assert optimizer.open_trial == trial  # nothing was recorded
    assert optimizer.beliefs.own == {}


def test_a_scout_that_costs_much_ends_no_trial() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 1)
    trial = opened(optimizer)
    center = max(set(trial.targets), key=trial.targets.count)
    rows = [Returns(100, 0 if target == center else 55) for target in trial.targets]
    assert not any(optimizer.ends_early(trial, rows[:n]) for n in range(10))


def test_the_base_is_never_ended_early_and_a_newcomer_may_be() -> None:
    optimizer = run_until(SafeOptimizer(problem(**TOTAL)), "newcomer")
    while (trial := opened(optimizer)).stage != "base" or trial.episodes < 7:
        optimizer.tell(trial, [Returns(300, 39)] * trial.episodes)
    assert not optimizer.ends_early(trial, [Returns(100, 39)] * 6)


def test_a_trial_told_in_part_counts_what_was_run() -> None:
    optimizer = SafeOptimizer(problem())
    optimizer.tell(opened(optimizer), [Returns(100, 1)] * 7)
    assert optimizer.beliefs.searched == 7
    assert optimizer.beliefs.own[(100.0, 0.0)].episodes == 7
    assert opened(optimizer).stage == "start"


# Confirming and retracting.


@quietly
def test_confirm_needs_something_that_holds_the_search_and_a_reason() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 2)
    with pytest.raises(TrialError, match="There is nothing to confirm: the search is not held"):
        optimizer.confirm("for fun")
    tell_all(optimizer, 100, 55)
    assert optimizer.held is not None
    with pytest.raises(TrialError, match="The reason is empty; say why the search may go on"):
        optimizer.confirm("  ")
    optimizer.confirm(" looked at it ")
    assert optimizer.history.confirmed[-1][1].reason == "looked at it"
    assert optimizer.held is None
    tell_all(optimizer, 100, 55)
    assert optimizer.held is not None  # one confirmation is for what was known then


def test_a_retraction_drops_the_open_trial_and_its_charge_stays() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 3)
    trial, spent = opened(optimizer), optimizer.spent
    optimizer.retract(2, "told of another machine")
    assert optimizer.open_trial is None
    assert optimizer.spent == spent
    with pytest.raises(TrialError, match=f"Trial {trial.number} is not open: a retraction has dropped it"):
        optimizer.tell(trial, [Returns(1, 1)])
    assert opened(optimizer).number == trial.number + 1


def test_only_a_trial_that_was_told_can_be_retracted_and_only_once() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 2)
    trial = opened(optimizer)
    for number in (0, trial.number, 99):
        with pytest.raises(TrialError, match=rf"Trial {number} cannot be retracted; trials that can be: \[1, 2\]"):
            optimizer.retract(number, "a typo")
    optimizer.retract(1, "a typo")
    with pytest.raises(TrialError, match=r"Trial 1 cannot be retracted; trials that can be: \[2\]"):
        optimizer.retract(1, "a typo")
    with pytest.raises(TrialError, match="Got 31 episodes for a trial of 10"):
        optimizer.retract(2, "a typo", [Returns(1, 1)] * 31)
    with pytest.raises(TrialError, match="costs are never negative"):
        optimizer.retract(2, "a typo", [Returns(1, -1)])


# Other limits.


def test_limits_that_are_no_others_are_refused() -> None:
    optimizer = SafeOptimizer(problem())
    with pytest.raises(ConfigError, match=r"The limits are \(20.0,\) already"):
        optimizer.change_limits(20)
    with pytest.raises(ConfigError, match=r"Got 2 limits for 1 costs; give one for each. Begin another run"):
        optimizer.change_limits((20, 30))
    with pytest.raises(ConfigError, match="lies outside its axis"):
        optimizer.change_limits(30, [Returns(999, 0)])
    two = Problem(axes=AXES2, starts=[Returns(100, (0, 0))], limits=(20, 10), stop_at=(40, 30))
    for limits in (30, (30, 20, 10)):
        with pytest.raises(ConfigError, match=r"Got . limits for 2 costs; give one for each. Begin another run"):
            SafeOptimizer(two).change_limits(limits)
    opened(optimizer)
    with pytest.raises(TrialError, match="Trial 1 is open; tell it before changing the limits"):
        optimizer.change_limits(30)
    assert optimizer.problem.limits == (20.0,)


def test_a_search_has_all_its_episodes_again_under_other_limits() -> None:
    optimizer = run(SafeOptimizer(problem(episodes=40)), plain)
    assert optimizer.done is not None
    optimizer.change_limits(30.0)
    assert optimizer.done is None
    run(optimizer, plain)
    assert optimizer.history.searched == 80


# What is sure.


@quietly
def test_an_episode_beyond_the_stop_ends_what_was_sure() -> None:
    for promise in ("trial", "total"):
        optimizer = SafeOptimizer(problem(stop_at=15.0, promise=promise))
        tell_all(optimizer, 100, 10)
        assert optimizer.beliefs.sure == (True,)
        trial = opened(optimizer)
        optimizer.tell(trial, [Returns(100, 3)] * 9 + [Returns(100, 30)])
        assert (optimizer.beliefs.sure, optimizer.best) == ((False,), None)
        optimizer.confirm("the stop is mended")
        stages = set()
        try:
            for _ in range(4):
                stages.add(opened(optimizer).stage)
                tell_all(optimizer, 100, 1)
        except (NoSafeTargetError, AssertionError):
            pass
        assert "start" in stages  # certified first, like any other search


# Several costs and lists.


@pytest.mark.parametrize("promise", ["trial", "total"])
def test_a_cost_that_is_sure_is_not_modeled_and_the_other_is(promise: str) -> None:
    def machine(target: Returns, rng: np.random.Generator) -> Returns:
        return Returns(target.reward, (30.0, min(float(rng.poisson(target.reward / 20)), 39.0)))

    given = Problem(
        axes=AXES2, starts=[Returns(50, (0, 0))], limits=(60, LIMIT), stop_at=(59, 39), episodes=80, promise=promise
    )
    optimizer = run(SafeOptimizer(given), machine)
    assert given.sure == (True, False)
    assert optimizer.beliefs.model.costs[0] is None
    assert optimizer.beliefs.model.costs[1] is not None
    assert all(tried.asked.forecasts[0].costs[0] == (0.0, 0.0) for tried in optimizer.trials)
    assert optimizer.best is not None
    if promise == "total":
        assert optimizer.beliefs.account.prices == (0.0, 20.0)
    else:
        assert 0 < optimizer.spent <= 0.1
        assert optimizer.best.point[0] > 100


def test_a_list_whose_targets_are_too_far_from_the_starts_is_refused() -> None:
    far = [START, Returns(400, 60), Returns(350, 50)]
    with pytest.raises(
        ConfigError, match=r"nearest to a start is 0.83 of an axis away, .* no further than 0.3: .* List"
    ):
        SafeOptimizer(problem(targets=far))
    check_moves(problem(targets=[*far, Returns(200, 10)]))
    check_moves(problem(targets=far, stop_at=15.0))  # all of them are safe
    check_moves(problem(targets=far, stop_at=39.0, promise="total"))  # the account pays
    check_moves(problem())


# The record.


def test_a_run_on_disk_goes_on_where_it_was_and_refuses_another_problem(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path / "run", problem()) as optimizer:
        run(optimizer, free, 3)
        trial = opened(optimizer)
    with SafeOptimizer.open(tmp_path / "run") as again:
        assert again.open_trial == trial
        assert again.problem.fingerprint == problem().fingerprint
    with pytest.raises(
        JournalError, match=r"another problem .*: delta is 0.1 there, 0.05 here. Give another directory"
    ):
        SafeOptimizer.open(tmp_path / "run", problem(delta=0.05))
    with SafeOptimizer.open(tmp_path / "run", problem()) as same:
        assert len(same.trials) == 3
    with pytest.raises(ConfigError, match=r"There is no run in .*; give a problem to begin one"):
        SafeOptimizer.open(tmp_path / "nothing")


def test_after_other_limits_the_first_problem_still_opens_the_run(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path, problem()) as optimizer:
        run(optimizer, free, 2)
        optimizer.change_limits(30)
    with SafeOptimizer.open(tmp_path, problem()) as again:
        assert again.problem.limits == (30.0,)
    replayed = SafeOptimizer.replay(read_records(tmp_path / JOURNAL))
    assert replayed.problem.fingerprint == again.problem.fingerprint
    assert replayed.journal is None


def test_what_is_refused_is_not_in_the_record(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path, problem()) as optimizer:
        trial = opened(optimizer)
        before = read_records(tmp_path / JOURNAL)
        with pytest.raises(TrialError):
            optimizer.tell(trial, [Returns(1, -1)])
        with pytest.raises(TrialError):
            optimizer.change_limits(30.0)
        with pytest.raises(TrialError):
            optimizer.retract(1, "a typo")
        assert read_records(tmp_path / JOURNAL) == before


def test_a_warning_that_is_an_error_comes_after_the_record(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path, problem()) as optimizer:
        run(optimizer, free, 2)
        trial = opened(optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("error", GuaranteeWarning)
            with pytest.raises(
                GuaranteeWarning, match=r"The search is held. Trial 3: its mean cost 55 is clearly above"
            ):
                optimizer.tell(trial, [Returns(1, 55)] * 10)
        assert len(optimizer.trials) == 3
    with SafeOptimizer.open(tmp_path) as again:
        assert again.stage == "held"
