"""Operation: serves, learns, falls back, halts, and goes on after a crash at any event as if nothing had happened."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import JournalError, NoSafeTargetError, TrialError
from lifesafe.operation import MonitorConfig, Operation
from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import JOURNAL, read_events
from lifesafe.report.page.operated import Operated
from lifesafe.returns import Returns
from properties.runs import Plant, advance, lively, quick

BOUND = 400.0


def searched(directory: Path | None = None, trials: int = 12) -> tuple[SafeOptimizer, Plant]:
    """Return an optimizer at the end of its search, and its system."""
    system = lively(np.random.default_rng(0), size=8, cost_bounds=(BOUND,))
    schedule = quick(trials=trials, surprises=99)
    optimizer = (
        SafeOptimizer(system.problem, schedule)
        if directory is None
        else SafeOptimizer.open(directory, system.problem, schedule)
    )
    advance(optimizer, system, np.random.default_rng(1), trials)
    return optimizer, system


def costly(count: int, cost: float = 90.0) -> list[Returns]:
    return [Returns(100.0, cost)] * count


def test_the_best_certified_target_is_served() -> None:
    optimizer, _ = searched()
    best = optimizer.best
    assert best is not None
    operation = Operation(optimizer)
    assert operation.target is None  # looking changes nothing
    assert operation.begin() == best.target
    assert operation.begin() == best.target
    assert [kind for kind, _ in optimizer.operation] == ["serving"]


def test_each_episode_has_a_target_of_its_own_if_the_problem_is_dithered() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    with pytest.raises(TrialError, match="has not begun"):
        operation.targets(1)
    target = operation.begin()
    assert operation.targets(3) == [target] * 3
    optimizer._state.problem = replace(optimizer.problem, dither=0.05)
    coming = operation.targets(6)
    assert len(set(coming)) == 6
    operation.tell([Returns(100.0, 0.0)] * 2)
    assert operation.targets(4) == coming[2:]


def test_safe_episodes_go_on_and_teach_the_model() -> None:
    optimizer, system = searched()
    operation = Operation(optimizer)
    target = operation.begin()
    best = optimizer.best
    assert best is not None
    rng = np.random.default_rng(3)
    for _ in range(8):
        verdict = operation.tell(system.episodes(best.index, 20, rng))
        assert (verdict.alarm, verdict.next_target) == (None, target)
    assert operation.episodes == 160
    own = optimizer._state.posterior.own_episodes(best.index)
    assert len(own) == best.episodes + 140  # batches of 20, 40 and 80
    assert len(optimizer._state.posterior.observations) == len(optimizer.trials) + 3


def test_an_alarm_withdraws_the_target_and_falls_back_to_a_cheaper_one() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    first = operation.begin()
    before = {target.index: target.cost_upper for target in optimizer.fit}
    verdict = operation.tell(costly(30))
    assert verdict.alarm is not None
    assert verdict.target == first
    assert verdict.next_target not in (None, first)
    kinds = [kind for kind, _ in optimizer.operation]
    assert kinds == ["serving", "served", "alarm", "serving"]
    was, now = (body for kind, body in optimizer.operation if kind == "serving")
    assert before[now["index"]] < before[was["index"]]
    assert optimizer.best is None or optimizer.best.index != was["index"]
    assert not optimizer.safe[was["index"]]


def test_when_nothing_is_left_operation_halts_and_says_why() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    operation.begin()
    while operation.target is not None:
        verdict = operation.tell(costly(30))
    assert verdict.next_target is None
    assert operation.halted is not None
    assert "no less costly target is certified" in operation.halted
    with pytest.raises(TrialError, match="it has halted: after"):
        operation.tell(costly(1))
    assert Operation(optimizer).begin() is None


def test_without_a_certified_target_nothing_is_operated() -> None:
    system = lively(np.random.default_rng(0), size=8, cost_bounds=(BOUND,))
    with pytest.raises(NoSafeTargetError, match="No target is fit to be operated"):
        Operation(SafeOptimizer(system.problem, quick())).begin()


def test_before_it_begins_nothing_can_be_told() -> None:
    with pytest.raises(TrialError, match=r"has not begun; call begin\(\)"):
        Operation(searched()[0]).tell(costly(1))


def test_an_impossible_cost_is_refused_and_nothing_is_recorded() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    operation.begin()
    with pytest.raises(TrialError, match="Got an episode cost of -1"):
        operation.tell(costly(1, -1.0))
    assert [kind for kind, _ in optimizer.operation] == ["serving"]


def test_a_cost_that_was_thought_impossible_is_recorded_and_withdraws_the_target(tmp_path: Path) -> None:
    optimizer, _ = searched(tmp_path)
    operation = Operation(optimizer)
    first = operation.begin()
    verdict = operation.tell([*costly(1, 0.0), *costly(1, BOUND + 1)])
    assert verdict.alarm is not None
    assert (verdict.alarm.rule, verdict.alarm.episode) == ("bound", 2)
    assert verdict.next_target != first
    optimizer.close()
    with SafeOptimizer.open(tmp_path) as replayed:
        again = Operation(replayed)
        assert (again.target, again.episodes, again.halted) == (operation.target, 2, operation.halted)
        assert Operated.read(read_events(tmp_path / JOURNAL), replayed.problem).servings[0].agrees


def test_after_other_limits_the_best_target_for_them_is_served() -> None:
    optimizer, system = searched()
    operation = Operation(optimizer)
    operation.begin()
    optimizer.change_limits(30.0)
    advance(optimizer, system, np.random.default_rng(5), 12)
    again = Operation(optimizer)
    best = optimizer.best
    assert best is not None
    assert again.begin() == best.target
    assert again.monitor is not None
    assert again.monitor.tests[0].limit == 30.0


def test_nothing_is_served_under_other_limits_before_it_is_begun_again() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    operation.begin()
    cheapest = min(optimizer.trials, key=lambda result: result.episodes[:, 1].mean())
    optimizer.change_limits(0.01, [cheapest.trial.index])
    for each in (operation, Operation(optimizer)):
        assert each.target is None
        with pytest.raises(TrialError, match=r"the limits have changed since it began; call begin\(\)"):
            each.tell(costly(1, 0.0))
        with pytest.raises(NoSafeTargetError):
            each.begin()


def test_a_target_that_trials_have_shown_to_be_unfit_since_is_not_served_when_its_limits_come_back() -> None:
    optimizer, _ = searched()
    operation = Operation(optimizer)
    target, limit = operation.begin(), optimizer.problem.limits[0]
    best = optimizer.best
    assert best is not None
    optimizer.change_limits(4 * limit)
    while (trial := optimizer.ask()) is not None:
        costs = 2 * limit if trial.index == best.index else 0.0
        optimizer.tell(trial, [Returns(100.0, costs)] * 20)
    assert sum(result.trial.index == best.index for result in optimizer.trials) > 1
    cheap = next(result.trial.index for result in optimizer.trials if result.trial.index != best.index)
    optimizer.change_limits(limit, [cheap])
    again = Operation(optimizer)
    assert (operation.target, again.target) == (None, None)
    with pytest.raises(TrialError, match="not fit to be operated any more; call begin"):
        again.targets(1)
    assert optimizer.best is not None
    assert again.begin() == optimizer.best.target != target


def test_a_target_that_stays_fit_is_served_on_when_its_limits_come_back() -> None:
    optimizer, system = searched()
    operation = Operation(optimizer)
    target, limit = operation.begin(), optimizer.problem.limits[0]
    best, rng = optimizer.best, np.random.default_rng(2)
    assert best is not None
    operation.tell(system.episodes(best.index, 20, rng))
    optimizer.change_limits(2 * limit)
    advance(optimizer, system, rng, 2)
    optimizer.change_limits(limit, [best.index])
    again = Operation(optimizer)
    assert again.begin() == target
    assert again.monitor is not None
    assert again.monitor.episodes == 20


def test_new_trials_lift_a_halt() -> None:
    optimizer, system = searched()
    operation = Operation(optimizer)
    operation.begin()
    while operation.target is not None:
        operation.tell(costly(30))
    served = {body["index"] for kind, body in optimizer.operation if kind == "serving"}
    other = next(i for i in np.argsort(system.means[:, 1]) if int(i) not in served)
    optimizer.change_limits(60.0, seeds=[int(other)])
    advance(optimizer, system, np.random.default_rng(5), 12)
    assert optimizer.best is not None
    assert Operation(optimizer).begin() == optimizer.best.target


def test_a_journal_cut_after_any_event_goes_on_to_the_same_end(tmp_path: Path) -> None:
    def live(directory: Path, crash_after: int | None = None) -> None:
        optimizer, _ = searched(directory)
        journal = optimizer._journal
        assert journal is not None
        start, append = len(journal.events), journal.append

        def crashing(kind: str, body: dict[str, object]) -> None:
            if crash_after is not None and len(journal.events) - start >= crash_after:
                raise JournalError("power cut")
            append(kind, body)

        journal.append = crashing  # type: ignore[method-assign, assignment]
        with optimizer:
            operation = Operation(optimizer)
            operation.begin()
            while operation.target is not None and operation.episodes < 60:
                operation.tell(costly(12))

    live(tmp_path / "whole")
    whole = [(event.kind, event.body) for event in read_events(tmp_path / "whole" / "journal.sqlite")]
    kinds = [kind for kind, _ in whole]
    assert {"serving", "served", "alarm"} <= set(kinds)
    for crash_after in range(len(kinds) - kinds.index("serving")):
        directory = tmp_path / str(crash_after)
        with pytest.raises(JournalError, match="power cut"):
            live(directory, crash_after)
        live(directory)
        assert [(event.kind, event.body) for event in read_events(directory / "journal.sqlite")] == whole


def test_other_monitor_settings_hold_from_the_next_target_on() -> None:
    optimizer, _ = searched()
    Operation(optimizer, MonitorConfig(level=0.001)).begin()
    again = Operation(optimizer, MonitorConfig(level=0.5))
    again.begin()
    assert again.monitor is not None
    assert again.monitor.tests[0].level == 0.001


def test_only_a_target_that_was_tried_can_be_served_and_only_known_notes_are_taken() -> None:
    optimizer, _ = searched()
    tried = {result.trial.index for result in optimizer.trials}
    other = next(i for i in range(len(optimizer.problem.candidates)) if i not in tried)
    with pytest.raises(TrialError, match=f"Candidate {other} was never tried"):
        optimizer.serve(other, costly(1))
    with pytest.raises(TrialError, match="Unknown note 'sung'"):
        optimizer.note("sung", {})
    assert optimizer.operation == ()
