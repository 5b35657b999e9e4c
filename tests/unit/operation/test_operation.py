"""Operation: serves, learns, falls back, halts, and goes on after a crash at any event as if nothing had happened."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError, JournalError, NoSafeTargetError, TrialError
from lifesafe.journal import JOURNAL, Record, read_records
from lifesafe.journal import events as e
from lifesafe.journal.events import Event, kind_of
from lifesafe.operation import LEVEL, Operation
from lifesafe.operation.watch import Watch, silent_mean
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.problem import Target
from properties.runs import System, advance, system, until, visible

STOP, BOUND = 40.0, 41.0
TOTAL: dict[str, Any] = {"promise": "total", "episodes": 300}


def searched(directory: Path | None = None, trials: int = 13, **settings: Any) -> tuple[SafeOptimizer, System]:
    """Return an optimizer after so many trials, and its system; after all of them three targets are fit."""
    plant = system(0, **{"stop_at": STOP, **settings})
    optimizer = SafeOptimizer(plant.problem) if directory is None else SafeOptimizer.open(directory, plant.problem)
    advance(optimizer, plant, np.random.default_rng(1), trials - len(optimizer.trials))
    return optimizer, plant


def returned(count: int, cost: float) -> list[Returns]:
    return [Returns(100.0, cost)] * count


def serving(directory: Path | None = None, **settings: Any) -> tuple[SafeOptimizer, Operation]:
    """Return an operation that has begun, and its optimizer."""
    optimizer, _ = searched(directory, **settings)
    operation = Operation(optimizer)
    operation.begin()
    return optimizer, operation


def alarm_all(operation: Operation) -> None:
    """Let every target cost too much until none is left."""
    while operation.target is not None:
        operation.tell(returned(12, 39.0))


def kinds(optimizer: SafeOptimizer) -> list[str]:
    """Return what happened in operation, in order."""
    history = optimizer.history
    found = [(service.number, "serving") for service in history.services]
    found += [(service.alarm_number, "alarm") for service in history.services if service.alarm is not None]
    return [kind for _, kind in sorted(found)] + (["halted"] if history.halted is not None else [])


def test_the_best_target_is_served_and_looking_changes_nothing() -> None:
    optimizer, _ = searched()
    best = optimizer.best
    assert best is not None
    operation = Operation(optimizer)
    assert (operation.target, operation.watch, operation.episodes) == (None, None, 0)
    assert kinds(optimizer) == []
    assert operation.begin() == best.target
    assert operation.begin() == best.target
    assert kinds(optimizer) == ["serving"]


def test_safe_episodes_go_on_and_are_believed_at_once() -> None:
    optimizer, plant = searched()
    operation = Operation(optimizer)
    target = operation.begin()
    best, rng = optimizer.best, np.random.default_rng(3)
    assert best is not None
    for done in range(1, 9):
        verdict = operation.tell(plant.episodes([target] * 20, rng))
        assert (verdict.target, verdict.alarm, verdict.next_target) == (target, None, target)
        assert optimizer.beliefs.own[best.point].episodes == best.episodes + 20 * done
    assert operation.episodes == 160


def test_an_alarm_withdraws_the_target_and_falls_back_to_one_half_as_costly() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    first = operation.begin()
    before, best = {target.target: target.expected[0] for target in optimizer.fit}, optimizer.best
    assert best is not None
    verdict = operation.tell(returned(12, 39.0))
    assert (verdict.target, verdict.alarm.rule) == (first, "mean")
    assert verdict.next_target == operation.target
    assert verdict.next_target is not None
    assert before[verdict.next_target] < 0.5 * 39.0
    assert kinds(optimizer) == ["serving", "alarm", "serving"]
    assert optimizer.beliefs.own[best.point].episodes == best.episodes + 12  # believed at once
    assert first not in [target.target for target in optimizer.fit]
    assert optimizer.best is None or optimizer.best.target != first


def test_a_whole_ladder_errs_with_at_most_twice_the_level_of_its_first_rung() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer, level=0.02)
    operation.begin()
    alarm_all(operation)
    levels = [service.serving.level for service in optimizer.history.services]
    assert levels == [0.02 / 2**rung for rung in range(len(levels))]
    assert len(levels) > 1


def test_when_nothing_is_left_operation_halts_and_says_why_and_what_to_do() -> None:
    optimizer, operation = serving(episodes=400)
    while operation.target is not None:
        verdict = operation.tell(returned(12, 39.0))
    assert verdict.next_target is None
    assert "no less costly target may be served" in operation.halted.why
    assert "search again" in operation.halted.advice
    with pytest.raises(TrialError, match="it has halted: alarm in episode"):
        operation.tell(returned(1, 0.0))
    assert (operation.begin(), Operation(optimizer).begin()) == (None, None)


def test_a_halt_of_a_search_that_is_over_says_so() -> None:
    optimizer, plant = searched()
    advance(optimizer, plant, np.random.default_rng(2), 100)
    assert optimizer.done is not None
    operation = Operation(optimizer)
    operation.begin()
    alarm_all(operation)
    assert operation.halted.advice.endswith(f"begin a new run: this search is over ({optimizer.done}).")


def test_what_has_not_paid_is_not_operated() -> None:
    for promised in ({}, TOTAL):
        optimizer = SafeOptimizer(system(0, stop_at=STOP, **promised).problem)
        with pytest.raises(NoSafeTargetError, match=r"No target may be .* none that was tried has paid for its risk"):
            Operation(optimizer).begin()
        advance(optimizer, system(0, stop_at=STOP), np.random.default_rng(0), 1)
        if optimizer.problem.promise == "trial":  # the start was tried, and pays with the next trial
            with pytest.raises(NoSafeTargetError):
                Operation(optimizer).begin()


def test_before_it_begins_nothing_can_be_told() -> None:
    with pytest.raises(TrialError, match=r"has not begun; call begin\(\)"):
        Operation(searched()[0]).tell(returned(1, 0.0))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(ConfigError, match="level must lie between 0 and 1"):
        Operation(searched()[0], level)


def test_what_cannot_have_been_returned_is_refused_and_nothing_is_recorded() -> None:
    optimizer, operation = serving(largest=400.0)
    before = visible(optimizer)
    for episodes in (returned(1, -1.0), [Returns(1.0, (1.0, 1.0))], [], returned(1, 401.0)):
        with pytest.raises(TrialError):
            operation.tell(episodes)
    assert visible(optimizer) == before


@pytest.mark.parametrize("promised", [{}, TOTAL], ids=["trial", "total"])
def test_an_episode_above_the_stop_withdraws_every_target_and_says_what_to_look_at(
    tmp_path: Path, promised: dict[str, Any]
) -> None:
    optimizer, operation = serving(tmp_path, **promised)
    verdict = operation.tell([*returned(1, 0.0), *returned(1, BOUND + 1), *returned(1, 0.0)])
    assert (verdict.alarm.rule, verdict.alarm.episode) == ("bound", 2)
    assert verdict.next_target is None
    assert (optimizer.fit, optimizer.beliefs.admitted, optimizer.beliefs.bounds) == ((), frozenset(), (BOUND + 1,))
    assert optimizer.held is not None
    assert "the stop did not work" in optimizer.held
    assert "once that is settled, confirm, and search again" in operation.halted.advice
    optimizer.close()
    with SafeOptimizer.open(tmp_path) as again:
        assert (again.held, Operation(again).halted, again.fit) == (optimizer.held, operation.halted, ())


def test_an_episode_above_the_stop_by_rounding_is_none() -> None:
    _, operation = serving()
    assert operation.tell(returned(1, BOUND * (1 + 1e-6))).alarm is None


def test_nothing_is_served_under_other_limits_before_it_is_begun_again() -> None:
    optimizer, plant = searched()
    operation = Operation(optimizer)
    operation.begin()
    optimizer.change_limits(30.0)
    for each in (operation, Operation(optimizer)):
        assert each.target is None
        with pytest.raises(TrialError, match=r"the limits have changed since it began; call begin\(\)"):
            each.tell(returned(1, 0.0))
        with pytest.raises(NoSafeTargetError):  # nothing has paid under these limits
            each.begin()
    advance(optimizer, plant, np.random.default_rng(5), 6)
    best, again = optimizer.best, Operation(optimizer)
    assert again.begin() == best.target
    assert (again.watch.limits, again.watch.episodes) == ((30.0,), 0)
    assert operation.watch == again.watch  # all operations of a run know the same
    operation.tell(returned(3, 1.0))
    assert operation.watch == again.watch == Operation(optimizer).watch


def test_what_was_paid_under_earlier_limits_is_not_served_when_they_come_back() -> None:
    optimizer, plant = searched()
    target = Operation(optimizer).begin()
    optimizer.change_limits(30.0)
    optimizer.change_limits(20.0)
    operation = Operation(optimizer)
    assert operation.target is None
    with pytest.raises(TrialError, match="not fit to be operated any more; call begin"):
        operation.tell(returned(1, 0.0))
    with pytest.raises(NoSafeTargetError):
        operation.begin()
    rng = np.random.default_rng(5)
    while operation.target is None and advance(optimizer, plant, rng, 1):
        pass
    assert operation.target == target  # it has paid again, and its watch goes on
    assert optimizer.spent > 0


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")  # that the search is held
def test_a_target_that_trials_have_shown_to_be_unfit_is_not_served_on() -> None:
    optimizer, _ = searched(trials=6, episodes=400)
    operation = Operation(optimizer)
    target = operation.begin()
    try_until(optimizer, lambda: operation.target is None, target)
    assert "not fit to be operated any more" in str(operation.overtaken)
    with pytest.raises(TrialError, match=r"not fit to be operated any more; call begin\(\)"):
        operation.tell(returned(1, 0.0))
    try_until(optimizer, lambda: optimizer.best is not None, target)
    best = optimizer.best
    assert operation.begin() == best.target


def try_until(optimizer: SafeOptimizer, happened: Callable[[], bool], costly: Target | None) -> None:
    """Run trials until something has happened; one target costs much, all others cost little."""
    while not happened():
        if optimizer.held is not None:
            optimizer.confirm("looked at it")
        trial = optimizer.ask()
        optimizer.tell(trial, [Returns(300.0, 39.0 if each == costly else 2.0) for each in trial.targets])


def test_new_trials_lift_a_halt() -> None:
    optimizer, plant = searched(trials=3)
    operation = Operation(optimizer)
    operation.begin()
    alarm_all(operation)
    assert operation.halted is not None
    optimizer.change_limits(60.0, [Returns(0.0, 20.0)])
    advance(optimizer, plant, np.random.default_rng(5), 6)
    assert operation.halted is None
    best = optimizer.best
    assert operation.begin() == best.target


def test_another_level_holds_from_the_next_target_on() -> None:
    optimizer, _ = searched()
    Operation(optimizer, 0.001).begin()
    again = Operation(optimizer, 0.5)
    again.begin()
    assert again.watch.level == 0.001


def test_the_realised_bound_is_that_of_a_silent_watch() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    assert operation.realised_bound is None
    operation.begin()
    operation.tell(returned(100, 10.0))
    assert operation.realised_bound == pytest.approx((silent_mean(20.0, BOUND * (1 + 1e-5), LEVEL, 100),))
    assert operation.realised_bound < (1.5 * 20.0,)


def test_without_a_largest_cost_silence_proves_nothing() -> None:
    _, operation = serving(stop_at=None)
    operation.tell(returned(100, 5.0))
    assert operation.realised_bound == (math.inf,)


def test_nothing_is_told_while_a_newcomer_that_the_account_pays_for_is_out() -> None:
    optimizer, _ = searched(trials=1, **TOTAL)
    until(optimizer, "newcomer")
    operation = Operation(optimizer)
    operation.begin()
    trial = optimizer.ask()
    before = visible(optimizer)
    with pytest.raises(TrialError, match=f"Trial {trial.number} is open and may spend what the account holds"):
        operation.tell(returned(1, 39.0))
    assert visible(optimizer) == before
    optimizer.tell(trial, returned(trial.episodes, 0.0))
    operation.tell(returned(1, 0.0))


@pytest.mark.parametrize("promised", [{}, TOTAL], ids=["trial", "total"])
def test_a_snapshot_is_as_good_as_all_the_episodes_it_sums_up(tmp_path: Path, promised: dict[str, Any]) -> None:
    optimizer, plant = searched(tmp_path, trials=8, **promised)
    operation, rng = Operation(optimizer), np.random.default_rng(0)
    target = operation.begin()
    for _ in range(21):
        operation.tell(plant.episodes([target] * 100, rng))
    assert operation.episodes == 2100
    optimizer.close()
    read = read_records(tmp_path / JOURNAL, everything=False)
    everything = read_records(tmp_path / JOURNAL)
    assert [kind_of(record.event) for record in everything].count("snapshot") == 2
    assert [kind_of(record.event) for record in read].count("served") == 1
    with SafeOptimizer.open(tmp_path) as again:
        assert visible(again) == visible(optimizer) == visible(SafeOptimizer.replay(everything))
        assert Operation(again).watch == operation.watch == _watched(everything)


def _watched(records: list[Record]) -> Watch:
    """Return the watch over the only service, from every episode."""
    serving = next(record.event for record in records if isinstance(record.event, e.Serving))
    episodes = [row for record in records if isinstance(record.event, e.Served) for row in record.event.episodes]
    return Watch.start(serving.limits, serving.level, serving.largest).update(np.array(episodes)[:, 1:])


@pytest.mark.parametrize("promised", [{}, TOTAL], ids=["trial", "total"])
def test_a_run_cut_after_any_event_of_operation_goes_on_to_the_same_end(
    tmp_path: Path, promised: dict[str, Any]
) -> None:
    def live(directory: Path, crash_after: int | None = None) -> None:
        optimizer, _ = searched(directory, trials=8, **promised)
        journal = optimizer.journal
        searched_count = _count(directory, "asked", "told", "opened")
        append = journal.append

        def crashing(event: Event) -> Record:
            if crash_after is not None and journal.count - searched_count >= crash_after:
                raise JournalError("power cut")
            return append(event)

        journal.append = crashing
        with optimizer:
            operation = Operation(optimizer)
            operation.begin()
            while operation.target is not None and operation.episodes < 1060:
                # One target is quiet until it has a snapshot, and costs too much from then on.
                operation.tell(returned(500, 1.0) if operation.episodes < 1000 else returned(12, 39.0))

    def come_to(directory: Path) -> tuple[list[Event], dict[str, Any]]:
        """Return what was recorded, and what follows from it; a snapshot adds nothing and may come later."""
        records = read_records(directory / JOURNAL)
        facts = [record.event for record in records if not isinstance(record.event, e.Snapshot)]
        return facts, visible(SafeOptimizer.replay(records))

    live(tmp_path / "whole")
    found = [kind_of(record.event) for record in read_records(tmp_path / "whole" / JOURNAL)]
    assert {"serving", "served", "snapshot", "alarm"} <= set(found)
    for crash_after in range(len(found) - found.index("serving")):
        directory = tmp_path / str(crash_after)
        with pytest.raises(JournalError, match="power cut"):
            live(directory, crash_after)
        live(directory)
        assert come_to(directory) == come_to(tmp_path / "whole")


def _count(directory: Path, *wanted: str) -> int:
    return sum(kind_of(record.event) in wanted for record in read_records(directory / JOURNAL))
