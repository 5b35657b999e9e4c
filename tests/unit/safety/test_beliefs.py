"""Beliefs: what is counted, what is modeled, what voids what was paid, and when a search is held."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import GuaranteeWarning, JournalError
from lifesafe.journal import events as e
from lifesafe.journal.store import Record
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.beliefs import believed, opened_problem
from unit.safety.machines import LIMIT, START, free, plain, problem, run, run_until, stopped, tell_all, tried

TOTAL: dict[str, Any] = {"promise": "total", "stop_at": 39.0}  # the worst episode costs two limits
quietly = pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")


def told(optimizer: SafeOptimizer, costs: Sequence[float], reward: float = 100.0) -> None:
    """Tell these costs, over and over, for the episodes of the next trial."""
    trial = optimizer.ask()
    optimizer.tell(trial, [Returns(reward, costs[i % len(costs)]) for i in range(trial.episodes)])


def test_episodes_are_counted_at_the_target_they_were_asked_for() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 1)
    trial = optimizer.ask()
    rows = [Returns(float(i), 2.0 * i) for i in range(trial.episodes)]
    optimizer.tell(trial, rows)
    for target in dict.fromkeys(trial.targets):
        mine = [tuple(row) for row, asked in zip(rows, trial.targets, strict=True) if asked == target]
        if target == START:
            mine += [(100.0, 0.0)] * 30
        own = optimizer.beliefs.own[optimizer.problem.point(target)]
        assert own.episodes == len(mine)
        np.testing.assert_allclose(own.means, np.mean(mine, axis=0))
        np.testing.assert_allclose(own.squares, np.square(mine).sum(axis=0))
    assert set(optimizer.beliefs.own) == {optimizer.problem.point(target) for target in (START, *trial.targets)}


def test_costs_are_modeled_in_limits_and_rewards_as_shares_of_their_range() -> None:
    optimizer = SafeOptimizer(problem())
    told(optimizer, [5.0, 15.0], reward=100.0)
    sums = optimizer.beliefs.model.sums
    np.testing.assert_allclose(sums.X, [[0.25, 0.0]])
    np.testing.assert_allclose(sums.episodes, [30])
    np.testing.assert_allclose(sums.totals, [[7.5, 15.0]])
    np.testing.assert_allclose(sums.squares, [[30 * 0.25**2, 15 * (0.25**2 + 0.75**2)]])


def test_clean_episodes_leave_the_doubt_that_the_stated_lumps_allow() -> None:
    doubts = []
    for lumps in (1.5, 3.0, 10.0, 50.0):
        optimizer = SafeOptimizer(problem(incident="horizon", largest=lumps * LIMIT))
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, [Returns(100, 0)] * 20)
        doubts.append(optimizer.beliefs.expect([(100.0, 0.0)]).risks()[0])
    assert doubts == sorted(doubts)
    assert doubts[0] > 1e-3
    assert doubts[-1] > 2 * doubts[0]
    assert (optimizer.stage, optimizer.best) == ("start", None)


def test_episodes_of_operation_count_as_own_episodes_and_not_as_those_of_the_search() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 3)
    searched, operation = optimizer.beliefs.searched, Operation(optimizer)
    target = operation.begin()
    before = optimizer.beliefs.own[optimizer.problem.point(target)].episodes
    operation.tell([Returns(50, 1)] * 25)
    assert optimizer.beliefs.own[optimizer.problem.point(target)].episodes == before + 25
    assert optimizer.beliefs.searched == searched


def test_what_paid_while_a_wrong_trial_stood_in_the_record_counts_for_nothing() -> None:
    optimizer = run(SafeOptimizer(problem()), plain, 8)
    paying = [tried for tried in optimizer.trials if tried.asked.paid]
    assert len(paying) > 2
    wrong, spent = paying[1], optimizer.spent
    before = {point for tried in paying[:2] for point in tried.asked.paid}  # asked for before the wrong one was told
    optimizer.retract(wrong.number, "told of another machine", [Returns(100, 1)] * 10)
    assert optimizer.beliefs.paid == before
    assert optimizer.spent == spent  # no charge is ever given back


@quietly
def test_other_limits_begin_the_count_and_the_ledger_anew_and_keep_what_was_seen() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 4)
    own = {point: each.episodes for point, each in optimizer.beliefs.own.items()}
    optimizer.change_limits(40.0)
    assert (optimizer.spent, optimizer.beliefs.searched, optimizer.beliefs.paid) == (0.0, 0, frozenset())
    assert {point: each.episodes for point, each in optimizer.beliefs.own.items()} == own
    assert optimizer.best is None


BEYOND = {
    # With a stop at 40 no episode costs more than 41, whatever the others cost.
    "a stop": ({"stop_at": 40.0}, [0.0] * 9 + [40.9], [0.0] * 9 + [41.1]),
    "a stop and long steps": ({"stop_at": 40.0, "largest_step": 5.0}, [0.0] * 9 + [44.9], [0.0] * 9 + [45.1]),
    "a stop that keeps every limit": ({"stop_at": 15.0}, [0.0] * 9 + [15.9], [0.0] * 9 + [16.1]),
    # Of incidents of 60 no episode has more than two beyond the limit, or beyond the others of its target.
    "incidents": ({}, [0.0] * 9 + [139.0], [0.0] * 9 + [141.0]),
    "smaller incidents": ({"incident": 10.0}, [0.0] * 9 + [39.9], [0.0] * 9 + [40.1]),
    "incidents beside costly others": ({"incident": 10.0}, [50.0] * 29 + [69.9], [50.0] * 29 + [70.1]),
}


@quietly
@pytest.mark.parametrize("case", BEYOND)
def test_an_episode_that_costs_more_than_can_be_is_found_and_no_other(case: str) -> None:
    settings, allowed, too_much = BEYOND[case]
    fine, broken = SafeOptimizer(problem(**settings)), SafeOptimizer(problem(**settings))
    told(fine, allowed)
    told(broken, too_much)
    assert fine.beliefs.breaches == ()
    assert fine.beliefs.lumps == fine.problem.lumps
    ((number, found),) = broken.beliefs.breaches
    assert (number, broken.beliefs.held) == (3, found)
    assert f"trial 1: an episode cost {too_much[-1]:g}" in found
    assert broken.beliefs.lumps == (max(broken.problem.lumps[0], too_much[-1]),)
    assert not any(broken.beliefs.sure)


def test_the_message_of_an_episode_beyond_the_stop_names_the_stop_and_what_is_possible() -> None:
    optimizer = SafeOptimizer(problem(stop_at=40.0, largest_step=2.0))
    with pytest.warns(GuaranteeWarning, match="The search is held. Trial 1: an episode cost 50, and with stop_at = 40"):
        told(optimizer, [50.0])
    assert optimizer.held is not None
    assert "none can cost more than 42; the stop did not work, or steps cost more" in optimizer.held


@quietly
@pytest.mark.parametrize("settings", [{}, {"stop_at": 40.0}, {"stop_at": 15.0}, TOTAL])
def test_an_episode_beyond_its_bound_voids_what_was_paid_and_certified(settings: dict[str, Any]) -> None:
    optimizer = run(SafeOptimizer(problem(episodes=400, **settings)), free, 4)
    assert optimizer.beliefs.admitted
    assert optimizer.best is not None
    told(optimizer, [200.0] + [0.0] * 9)
    assert optimizer.beliefs.admitted == frozenset()
    assert (optimizer.best, optimizer.fit, optimizer.ask(), optimizer.stage) == (None, (), None, "held")
    spent = optimizer.spent
    optimizer.confirm("the stop is mended")
    assert optimizer.beliefs.admitted == frozenset()  # to confirm gives nothing back
    assert optimizer.spent == spent
    trial = optimizer.ask()
    assert trial is None or trial.stage in ("start", "search")
    if trial is not None and trial.stage == "search":
        assert optimizer.history.trials[trial.number].asked.paid


@quietly
def test_a_retraction_of_the_episode_beyond_its_bound_brings_back_what_it_voided() -> None:
    optimizer = run(SafeOptimizer(problem(stop_at=40.0)), free, 3)
    admitted = optimizer.beliefs.admitted
    told(optimizer, [0.0] * 9 + [200.0])
    assert optimizer.beliefs.admitted == frozenset()
    optimizer.retract(4, "a slip of the pen", [Returns(100, 0)] * 10)
    assert optimizer.beliefs.breaches == ()
    assert admitted <= optimizer.beliefs.admitted
    assert optimizer.held is None


def test_a_trial_clearly_above_the_limit_holds_the_search_until_it_is_confirmed() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 2)
    with pytest.warns(GuaranteeWarning, match="Trial 3: its mean cost 50 is clearly above the limit 20"):
        told(optimizer, [45.0, 55.0])
    assert (optimizer.ask(), optimizer.stage, optimizer.done) == (None, "held", None)
    optimizer.confirm("the wind was strong")
    assert optimizer.held is None
    assert optimizer.stage != "held"


@pytest.mark.parametrize("costs", [[21.0], [0.0, 44.0], [19.0]])
def test_a_trial_that_is_not_clearly_above_the_limit_holds_nothing(costs: list[float]) -> None:
    optimizer = run(SafeOptimizer(problem()), free, 2)
    told(optimizer, costs)
    assert optimizer.held is None


def test_other_limits_make_no_trial_clearer_than_it_was() -> None:
    optimizer = SafeOptimizer(problem())
    for costs in ([0.0, 0.0, 6.0], [6.0, 6.0, 0.0, 0.0], [25.0]):
        told(optimizer, costs)
        assert optimizer.held is None
    for limit in (30.0, 40.0, 80.0):
        optimizer.change_limits(limit)
        assert optimizer.held is None


def test_a_costly_start_holds_nothing_for_it_rests_on_a_word() -> None:
    optimizer = SafeOptimizer(problem(starts=[START, Returns(50, 0)]))
    told(optimizer, [60.0])
    assert optimizer.held is None


def test_the_second_cost_holds_the_search_too() -> None:
    axes = {"reward": (0.0, 400.0), "cost 1": (0.0, 60.0), "cost 2": (0.0, 60.0)}
    optimizer = SafeOptimizer(Problem(axes=axes, starts=[Returns(100, (0, 0))], limits=(LIMIT, 5.0)))
    run(optimizer, free, 2)
    with pytest.warns(GuaranteeWarning, match="its mean cost 12 is clearly above the limit 5"):
        tell_all(optimizer, 100, 0, 12)


def test_an_alarm_withdraws_its_target_and_a_later_payment_brings_it_back() -> None:
    optimizer = run(SafeOptimizer(problem()), free, 3)
    operation = Operation(optimizer)
    target = optimizer.problem.point(operation.begin())
    while operation.target is not None and optimizer.problem.point(operation.target) == target:
        operation.tell([Returns(100, 60)] * 10)
    assert target in optimizer.beliefs.withdrawn
    assert target not in optimizer.beliefs.paid
    assert all(each.point != target for each in optimizer.fit)
    optimizer.record(tried(99, target, [(100.0, 0.0)], charge=0.01)[0])
    assert target in optimizer.beliefs.paid


def test_bets_begin_with_the_first_trial_of_a_start_or_a_test_and_count_only_later_episodes() -> None:
    optimizer = SafeOptimizer(problem(episodes=400, **TOTAL))
    assert optimizer.beliefs.bets == {}
    run_until(optimizer, "test", stopped)
    trial = optimizer.ask()
    point = optimizer.problem.point(trial.targets[0])
    assert optimizer.beliefs.own[point].episodes > 0  # those that made it look promising
    assert optimizer.beliefs.bets[point].episodes == 0
    optimizer.tell(trial, [free(target, np.random.default_rng()) for target in trial.targets])
    assert optimizer.beliefs.bets[point].episodes == trial.episodes


@quietly
def test_levels_halve_from_start_to_start_and_fall_from_test_to_test() -> None:
    optimizer = SafeOptimizer(problem(episodes=3000, delta=0.2, starts=[START, Returns(60, 0)], **TOTAL))
    while optimizer.ask().targets[0] == START:
        tell_all(optimizer, 100, 39)
    run_until(optimizer, "newcomer")
    levels = [bet.level for bet in optimizer.beliefs.bets.values()]
    assert levels == pytest.approx([0.05, 0.025])
    seen: dict[tuple[float, ...], float] = {}
    for _ in range(70):
        run(optimizer, stopped, 1, seed=len(optimizer.trials))
        seen |= {point: bet.level for point, bet in optimizer.beliefs.bets.items()}
    tests = [level for point, level in seen.items() if point not in optimizer.problem.starts]
    assert len(tests) > 1
    assert tests == pytest.approx([0.1 / (j * (j + 1)) for j in range(1, len(tests) + 1)])


@quietly
def test_a_bet_that_was_voided_begins_anew_at_a_smaller_level() -> None:
    optimizer = SafeOptimizer(problem(episodes=400, **TOTAL))
    tell_all(optimizer, 100, 0)
    assert optimizer.beliefs.certified == {(100.0, 0.0)}
    tell_all(optimizer, 100, 300)
    assert optimizer.beliefs.bets == {}
    optimizer.confirm("mended")
    tell_all(optimizer, 100, 0)
    (bet,) = optimizer.beliefs.bets.values()
    assert bet.level == pytest.approx(0.0125)
    assert bet.largest == (300.0,)  # an episode has shown that so much can be
    assert optimizer.beliefs.account.bounds == (300.0,)


def test_under_total_only_a_certificate_admits() -> None:
    optimizer = run_until(SafeOptimizer(problem(episodes=400, **TOTAL)), "newcomer")
    assert optimizer.beliefs.paid == frozenset()
    assert optimizer.beliefs.admitted == optimizer.beliefs.certified == {(100.0, 0.0)}


def test_the_account_books_every_episode_in_the_order_of_the_record() -> None:
    optimizer, held, rng = SafeOptimizer(problem(episodes=400, **TOTAL)), 0.0, np.random.default_rng(2)
    for i in range(12):
        trial = optimizer.ask()
        rows = [stopped(target, rng) for target in trial.targets]
        optimizer.tell(trial, rows)
        if i == 6:
            operation = Operation(optimizer)
            operation.begin()
            operation.tell([Returns(100, 30), Returns(100, 0)])
            rows += [Returns(100, 30), Returns(100, 0)]
        for row in rows:
            held = min(held + 20 - row.costs[0], 40.0)
        assert optimizer.beliefs.account.holds == pytest.approx((held,))


@quietly
def test_a_retraction_lowers_the_account_and_never_raises_it() -> None:
    def after(costs: float, truth: Sequence[Returns] | None) -> tuple[float, float]:
        optimizer = SafeOptimizer(problem(episodes=400, **TOTAL))
        tell_all(optimizer, 100, 10)
        before = optimizer.beliefs.account.holds[0]
        count = len(optimizer.trials[0].episodes)
        optimizer.retract(1, "wrong", None if truth is None else [truth[0]] * count)
        return before, before - optimizer.beliefs.account.holds[0] - 0 * costs

    count = SafeOptimizer(problem(episodes=400, **TOTAL)).ask().episodes
    assert after(10, None)[1] == pytest.approx(count * 30)  # as if each had cost the most
    assert after(10, [Returns(100, 13)])[1] == pytest.approx(count * 3)
    assert after(10, [Returns(100, 2)])[1] == 0.0


@quietly
def test_other_limits_take_the_savings_and_leave_the_debts() -> None:
    rich, poor = (SafeOptimizer(problem(episodes=400, **TOTAL)) for _ in range(2))
    tell_all(rich, 100, 0)
    tell_all(poor, 100, 39)
    debt = poor.beliefs.account.holds
    assert debt[0] < 0
    for optimizer in (rich, poor):
        optimizer.change_limits(25.0)
    assert rich.beliefs.account.holds == (0.0,)
    assert poor.beliefs.account.holds == debt
    assert poor.beliefs.account.limits == (25.0,)


def test_records_that_are_none_of_a_search_are_refused() -> None:
    with pytest.raises(JournalError, match="does not begin with an opened run"):
        believed([])
    told_first = Record(1, e.Told(trial=1, episodes=((1.0, 1.0),)), "now", "")
    with pytest.raises(JournalError, match="does not begin with an opened run"):
        believed([told_first])
    for wrong in ({}, {"axes": 3}, problem().to_plain() | {"colour": "red"}, problem().to_plain() | {"delta": 2.0}):
        opened = Record(1, e.Opened(problem=wrong, version="0.7"), "now", "")
        with pytest.raises(JournalError, match=r"The problem that lifesafe 0.7 recorded cannot be read by this one"):
            opened_problem([opened])
