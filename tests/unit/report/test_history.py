"""A history tells the same as the optimizer that made it."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import JournalError
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule
from lifesafe.optimizer.journal import Journal, read_events
from lifesafe.optimizer.sets import frontier
from lifesafe.optimizer.state import State, known_now
from lifesafe.report.history import History, journal_path
from lifesafe.report.simulation import Simulation
from lifesafe.returns import Returns

SIMULATION = Simulation(family="conservative", seed=1)
SCHEDULE = Schedule(trials=8)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with SafeOptimizer.open(tmp_path, SIMULATION.problem(0.1), SCHEDULE) as optimizer:
        while trial := optimizer.ask():
            optimizer.tell(trial, SIMULATION.run(trial))
    return tmp_path


def test_every_moment_is_what_the_optimizer_knew(run: Path) -> None:
    history, events = History.read(run), read_events(run / "journal.sqlite")
    told = [number for number, event in enumerate(events, start=1) if event.kind == "told"]
    assert len(history.moments) == len(told) == 8
    for number, moment in zip(told, history.moments, strict=True):
        then = SafeOptimizer.replay(events[:number])
        np.testing.assert_array_equal(moment.safe, then.safe)
        assert moment.spent == then.spent
        assert moment.best == then.best
        assert moment.result.trial == then.trials[-1].trial
        np.testing.assert_array_equal(moment.result.episodes, then.trials[-1].episodes)


def test_the_frontier_is_the_one_that_decisions_pick_from(run: Path) -> None:
    history = History.read(run)
    state = State(history.problem, history.schedule)
    for moment in history.moments:
        state.ask(moment.result.trial)
        state.tell(moment.result.trial.number, moment.result.episodes)
        known, reach = known_now(state), state.schedule.reach
        picked = frontier(known, state.problem.scaled, moment.safe, state.distance, reach, state.closed)
        assert len(picked)
        assert moment.frontier[picked].all()
        assert not (moment.frontier & moment.safe).any()


def test_an_optimizer_and_its_journal_tell_the_same(run: Path) -> None:
    with SafeOptimizer.open(run) as optimizer:
        memory, disk = History.from_optimizer(optimizer), History.read(run)
    assert str(memory.calibration) == str(disk.calibration)
    for ours, theirs in zip(memory.moments, disk.moments, strict=True):
        np.testing.assert_array_equal(ours.safe, theirs.safe)
        assert (ours.spent, ours.noise_sds, ours.mean_costs) == (theirs.spent, theirs.noise_sds, theirs.mean_costs)


def test_limits_are_those_of_their_time(run: Path) -> None:
    with SafeOptimizer.open(run) as optimizer:
        optimizer.change_limits(25.0)
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, SIMULATION.run(trial))
    limits = [moment.limits for moment in History.read(run).moments]
    assert limits == [(20.0,)] * 8 + [(25.0,)]


def test_a_run_can_be_read_while_it_goes_on(tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path, SIMULATION.problem(0.1)) as optimizer:
        assert History.read(tmp_path).moments == ()
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, SIMULATION.run(trial))
        optimizer.ask()
        assert len(History.read(tmp_path).moments) == 1


def test_reading_warns_of_nothing_that_was_told_before(tmp_path: Path) -> None:
    problem = Problem.on_grid([np.linspace(0, 9, 11), np.linspace(0, 3, 5)], seeds=[Returns(0, 0)], limits=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SafeOptimizer.open(tmp_path, problem, Schedule(risk="fixed", multiplier=4.0)).close()
    assert History.read(tmp_path).schedule.risk == "fixed"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"has no journal\.sqlite; give the directory of a run"):
        journal_path(tmp_path)
    with pytest.raises(JournalError, match="does not exist"):
        journal_path(tmp_path / "nowhere")
    Journal.open(tmp_path / "journal.sqlite").close()
    with pytest.raises(JournalError, match="no record of an optimizer"):
        History.read(tmp_path)


def test_an_unknown_event_is_refused_by_number(run: Path) -> None:
    with Journal.open(run / "journal.sqlite") as journal:
        number = journal.append("sneezed", {}).number
    with pytest.raises(JournalError, match=f"event {number} is of the unknown kind 'sneezed'"):
        History.read(run)


def test_the_journal_itself_may_be_named(run: Path) -> None:
    assert journal_path(run / "journal.sqlite") == journal_path(run)
