"""SafeOptimizer: asking and telling, changed limits, and the run on disk."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe._config import to_plain
from lifesafe.errors import ConfigError, GuaranteeWarning, JournalError, TrialError
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule, Stage
from lifesafe.optimizer.journal import Journal, read_events
from lifesafe.returns import Returns
from properties.runs import Plant, advance, lively, quick, snapshot

TESTS = Path(__file__).parents[2]


@pytest.fixture
def system() -> Plant:
    return lively(np.random.default_rng(3), size=11)


def run_in(place: Path, system: Plant, trials: int = 3) -> None:
    with SafeOptimizer.open(place, system.problem, quick()) as optimizer:
        advance(optimizer, system, np.random.default_rng(0), trials)


def output(script: str, *arguments: object, **environment: str) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# In memory.


def test_a_new_optimizer_measures_its_seed_first(system: Plant) -> None:
    optimizer = SafeOptimizer(system.problem, Schedule(episodes=7))
    trial = optimizer.ask()
    assert trial is not None
    assert (trial.number, trial.index, trial.stage) == (1, system.problem.seeds[0], Stage.SEED)
    assert (trial.episodes, trial.target) == (7, system.problem.target(trial.index))
    assert optimizer.open_trials == (trial,)
    assert optimizer.trials == ()
    assert optimizer.spent == 0.0


def test_a_result_keeps_the_trial_and_its_episodes(system: Plant) -> None:
    optimizer = SafeOptimizer(system.problem)
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(1.0, 2.0), Returns(3.0, 4.0)])
    (result,) = optimizer.trials
    assert result.trial == trial
    assert result.episodes.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert len(result.innovations) == 1
    assert not result.violated


def test_at_least_one_trial_is_asked_for(system: Plant) -> None:
    with pytest.raises(TrialError, match="Asked for 0 trials; ask for at least one"):
        SafeOptimizer(system.problem).ask_many(0)


def test_several_trials_are_open_at_once_and_no_more_than_asked_for(system: Plant) -> None:
    optimizer = SafeOptimizer(system.problem, quick(trials=5))
    three = optimizer.ask_many(3)
    assert [trial.number for trial in three] == [1, 2, 3]
    assert optimizer.ask_many(2) == three[:2]
    assert len(optimizer.ask_many(99)) == 5
    assert len(optimizer.open_trials) == 5


def test_there_is_nothing_to_confirm_unless_the_search_is_frozen(system: Plant) -> None:
    with pytest.raises(TrialError, match="nothing to confirm"):
        SafeOptimizer(system.problem).confirm()


def test_limits_cannot_change_while_a_trial_is_open(system: Plant) -> None:
    optimizer = SafeOptimizer(system.problem)
    optimizer.ask()
    with pytest.raises(TrialError, match=r"Trials \[1\] are open; tell them before"):
        optimizer.change_limits(30.0)


def test_lower_limits_without_seeds_are_refused_and_change_nothing(system: Plant) -> None:
    optimizer = SafeOptimizer(system.problem, quick())
    advance(optimizer, system, np.random.default_rng(0), 3)
    before = snapshot(optimizer)
    with pytest.raises(ConfigError, match="name seeds that are safe under the new limits"):
        optimizer.change_limits(10.0)
    assert snapshot(optimizer) == before
    optimizer.change_limits(15.0, seeds=system.problem.seeds)
    assert optimizer.problem.limits == (15.0,)


def test_higher_limits_enlarge_the_safe_set_and_keep_what_was_learned(system: Plant) -> None:
    optimizer = SafeOptimizer(system.problem, quick(reach=2.0))
    advance(optimizer, system, np.random.default_rng(0), 4)
    safe, rewards = optimizer.safe, optimizer.bands.lower[0]
    optimizer.change_limits(60.0)
    assert optimizer.safe.sum() > safe.sum()
    np.testing.assert_array_equal(optimizer.bands.lower[0], rewards)
    assert len(optimizer.trials) == 4
    assert optimizer.spent == 0.0
    trial = optimizer.ask()
    assert trial is not None
    assert trial.number == 5


# On disk.


def test_a_run_on_disk_is_the_run_in_memory(tmp_path: Path, system: Plant) -> None:
    memory = SafeOptimizer(system.problem, quick())
    advance(memory, system, np.random.default_rng(0), 6)
    run_in(tmp_path, system, 3)
    with SafeOptimizer.open(tmp_path) as disk:
        rng = np.random.default_rng(0)
        for result in disk.trials:  # the draws of the first three trials
            system.episodes(result.trial.index, result.trial.episodes, rng)
        advance(disk, system, rng, 3)
        assert snapshot(disk) == snapshot(memory)


def test_an_open_trial_is_still_open_after_closing_and_opening(tmp_path: Path, system: Plant) -> None:
    with SafeOptimizer.open(tmp_path, system.problem, quick()) as optimizer:
        trials = optimizer.ask_many(2)
    with SafeOptimizer.open(tmp_path, system.problem, quick()) as optimizer:
        assert optimizer.open_trials == trials
        assert optimizer.ask_many(2) == trials
        optimizer.tell(trials[1], [Returns(1.0, 1.0)])
    with SafeOptimizer.open(tmp_path) as optimizer:
        assert optimizer.ask() == trials[0]


def test_each_event_is_on_disk_when_its_call_returns(tmp_path: Path, system: Plant) -> None:
    path = tmp_path / "journal.sqlite"
    with SafeOptimizer.open(tmp_path, system.problem) as optimizer:
        assert [e.kind for e in read_events(path)] == ["opened"]
        trial = optimizer.ask()
        assert trial is not None
        assert read_events(path)[-1].body["index"] == trial.index
        optimizer.tell(trial, [Returns(1.0, 2.5)])
        assert read_events(path)[-1].body == {"trial": 1, "episodes": [[1.0, 2.5]]}
        optimizer.ask()
        optimizer.ask()
        assert [e.kind for e in read_events(path)] == ["opened", "asked", "told", "asked"]


def test_what_is_refused_is_not_recorded(tmp_path: Path, system: Plant) -> None:
    with SafeOptimizer.open(tmp_path, system.problem) as optimizer:
        trial = optimizer.ask()
        assert trial is not None
        before = read_events(tmp_path / "journal.sqlite")
        with pytest.raises(TrialError):
            optimizer.tell(trial, [])
        with pytest.raises(TrialError):
            optimizer.tell(trial, [Returns(1.0, (1.0, 2.0))])
        with pytest.raises(TrialError):
            optimizer.confirm()
        with pytest.raises(TrialError):
            optimizer.change_limits(30.0)
        assert read_events(tmp_path / "journal.sqlite") == before


def test_another_problem_is_refused_with_both_fingerprints(tmp_path: Path, system: Plant) -> None:
    run_in(tmp_path, system)
    other = lively(np.random.default_rng(3), size=7, delta=0.2).problem
    both = f"records problem {system.problem.fingerprint[:8]}, expected {other.fingerprint[:8]}"
    with pytest.raises(JournalError, match=both):
        SafeOptimizer.open(tmp_path, other)
    with SafeOptimizer.open(tmp_path, system.problem) as optimizer:  # and the lock is free again
        assert len(optimizer.trials) == 3


def test_another_schedule_is_refused(tmp_path: Path, system: Plant) -> None:
    run_in(tmp_path, system)
    with pytest.raises(JournalError, match=r"records the schedule .* expected .*leave the schedule out"):
        SafeOptimizer.open(tmp_path, system.problem, quick(share=0.123))


def test_the_original_problem_opens_a_run_whose_limits_have_changed(tmp_path: Path, system: Plant) -> None:
    with SafeOptimizer.open(tmp_path, system.problem) as optimizer:
        optimizer.change_limits(30.0)
        changed = optimizer.problem
    for problem in (system.problem, changed, None):
        with SafeOptimizer.open(tmp_path, problem) as optimizer:
            assert optimizer.problem.limits == (30.0,)
    with pytest.raises(JournalError, match=f"records problem {system.problem.fingerprint[:8]}"):
        SafeOptimizer.open(tmp_path, system.problem.with_limits(31.0))


def test_a_run_that_does_not_exist_needs_a_problem(tmp_path: Path, system: Plant) -> None:
    with pytest.raises(JournalError, match="records no run yet; give a problem"):
        SafeOptimizer.open(tmp_path / "new")
    SafeOptimizer.open(tmp_path / "new", system.problem).close()


def test_a_closed_run_refuses_events_and_loses_nothing(tmp_path: Path, system: Plant) -> None:
    run_in(tmp_path, system)
    optimizer = SafeOptimizer.open(tmp_path)
    optimizer.close()
    before = snapshot(optimizer)
    with pytest.raises(JournalError, match="not open"):
        optimizer.ask()
    assert snapshot(optimizer) == before


def test_warnings_are_given_when_things_happen_and_not_on_every_opening(tmp_path: Path, system: Plant) -> None:
    with SafeOptimizer.open(tmp_path, system.problem) as optimizer:
        trial = optimizer.ask()
        assert trial is not None
        with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
            optimizer.tell(trial, [Returns(1.0, 900.0)] * 20)
    with SafeOptimizer.open(tmp_path) as optimizer:  # warnings are errors here
        assert optimizer.trials[0].violated


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path, system: Plant) -> None:
    with SafeOptimizer.open(tmp_path, system.problem) as optimizer:
        with pytest.raises(JournalError, match="is open for writing in process"):
            SafeOptimizer.open(tmp_path, system.problem)
        assert advance(optimizer, system, np.random.default_rng(0), 2) == 2
    assert len(read_events(tmp_path / "journal.sqlite")) == 5


EDITS = {
    "edited": ["UPDATE event SET body = replace(body, '\"trial\":2', '\"trial\":3') WHERE number = 4"],
    "missing": ["DELETE FROM event WHERE number = 3"],
    "last missing": ["DELETE FROM event WHERE number = 7"],
    "reordered": [
        "UPDATE event SET number = 99 WHERE number = 3",
        "UPDATE event SET number = 3 WHERE number = 5",
        "UPDATE event SET number = 5 WHERE number = 99",
    ],
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edited_missing_or_reordered_row_is_refused(tmp_path: Path, system: Plant, kind: str) -> None:
    run_in(tmp_path, system)
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in ("no_update", "no_delete", "no_replace"):
            connection.execute(f"DROP TRIGGER {trigger}")
        for statement in EDITS[kind]:
            assert connection.execute(statement).rowcount == 1
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(JournalError, match=r"expected .*fingerprint [0-9a-f]{12}.*found .*[0-9a-f]{12}"):
        SafeOptimizer.open(tmp_path, system.problem)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


# When the world says no.


def fill(ballast: Path) -> None:
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(512)):
            pass


def test_a_full_disk_is_reported_and_nothing_is_lost(small_disk: Path, system: Plant) -> None:
    ballast, large = small_disk / "ballast", [Returns(i / 7, i / 3 % 1) for i in range(3000)]
    with SafeOptimizer.open(small_disk, system.problem, quick(trials=99)) as optimizer:
        advance(optimizer, system, np.random.default_rng(0), 2)
        trial = optimizer.ask()
        assert trial is not None
        before = snapshot(optimizer)
        fill(ballast)
        for _ in range(3):
            with pytest.raises(JournalError, match="Check free space"):
                optimizer.tell(trial, large)
            assert snapshot(optimizer) == before
        ballast.unlink()
        optimizer.tell(trial, large[:20])
        after = snapshot(optimizer)
    with SafeOptimizer.open(small_disk, system.problem) as optimizer:
        assert snapshot(optimizer) == after


LIMITED = """
import resource, sys
import numpy as np
from properties.runs import advance, lively, quick, snapshot
from lifesafe.errors import JournalError
from lifesafe.optimizer import SafeOptimizer
from lifesafe.returns import Returns

def refused(call, *arguments):
    before = snapshot(optimizer)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]  # only the soft limit is moved, so any hard one will do
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        call(*arguments)
    except JournalError:
        return snapshot(optimizer) == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

system = lively(np.random.default_rng(3), size=11)
with SafeOptimizer.open(sys.argv[1], system.problem, quick()) as optimizer:
    advance(optimizer, system, np.random.default_rng(0), 2)
    print(refused(optimizer.ask))
    print(refused(optimizer.tell, optimizer.ask(), [Returns(1.0, 1.0)]))
    optimizer.tell(optimizer.ask(), [Returns(1.0, 1.0)])
    print(refused(optimizer.change_limits, 30.0))
    optimizer.change_limits(40.0)
    after = snapshot(optimizer)
with SafeOptimizer.open(sys.argv[1], system.problem) as optimizer:
    print(snapshot(optimizer) == after)
"""


def test_a_file_that_may_not_grow_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    assert output(LIMITED, tmp_path).split() == ["True"] * 4


READ_ONLY = """
import os, sys
from lifesafe.errors import JournalError
from lifesafe.optimizer import SafeOptimizer
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    SafeOptimizer.open(sys.argv[1])
except JournalError as error:
    print(error)
"""


def test_a_read_only_run_is_reported_and_untouched(system: Plant) -> None:
    with tempfile.TemporaryDirectory() as place:  # unlike tmp_path, any user may reach it
        path = Path(place) / "journal.sqlite"
        run_in(Path(place), system)
        before = path.read_bytes()
        os.chmod(path, 0o444)
        os.chmod(place, 0o555)
        message = output(READ_ONLY, place)
        os.chmod(place, 0o755)
        assert "Permission denied" in message
        assert path.read_bytes() == before
        assert os.listdir(place) == ["journal.sqlite"]


# The same on another machine.

REPLAY = """
import hashlib, sys
import numpy as np
from properties.runs import advance, lively, quick, snapshot
from lifesafe.optimizer import SafeOptimizer
size = int(sys.argv[2])
system = lively(np.random.default_rng(3), size=size, mixture=3)
with SafeOptimizer.open(sys.argv[1], system.problem, quick(trials=20)) as optimizer:
    if not optimizer.trials:
        advance(optimizer, system, np.random.default_rng(0), 12)
    trial = optimizer.ask()
    print(hashlib.sha256(repr(snapshot(optimizer)).encode()).hexdigest(), trial, len(optimizer.trials))
"""


@pytest.mark.parametrize("size", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_a_replay_is_the_same_whatever_the_number_of_threads(tmp_path: Path, size: int) -> None:
    seen = set()
    for threads in ("1", "2", "1"):
        place = tmp_path / threads
        if not place.exists() and (tmp_path / "1").exists():
            shutil.copytree(tmp_path / "1", place)
        seen.add(output(REPLAY, place, size, OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads))
    assert len(seen) == 1
    assert " 12\n" in seen.pop()


def grid(**changes: Any) -> Problem:
    axes = [np.linspace(0, 500, 11), np.linspace(0, 60, 5)]
    return Problem.on_grid(axes, seeds=[Returns(0, 0)], limits=20.0, **changes)


def test_a_search_that_could_not_leave_its_seed_is_refused_but_a_record_of_one_is_opened(tmp_path: Path) -> None:
    axes = [np.linspace(0, 500, 5), np.linspace(0, 60, 5)]
    far = Problem.on_grid(axes, seeds=[Returns(100, 0)], limits=20.0)
    with pytest.raises(ConfigError, match=r"0.25 of an axis away.*than the reach, 0.1.*Give a reach of 0.25 or more"):
        SafeOptimizer.open(tmp_path, far)
    journal = Journal.open(tmp_path / "journal.sqlite")  # as an earlier version began it
    body = {"problem": far.to_plain(), "schedule": to_plain(Schedule()), "fingerprint": far.fingerprint}
    journal.append("opened", body)
    journal.close()
    with SafeOptimizer.open(tmp_path, far) as optimizer:
        trial = optimizer.ask()
        assert trial is not None
        assert trial.stage is Stage.SEED
    assert SafeOptimizer(far, Schedule(reach=0.25)).ask() is not None


def test_a_refused_problem_leaves_a_place_where_another_may_begin(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cost_bounds"):
        SafeOptimizer.open(tmp_path, grid(), Schedule(certification="betting"))
    with SafeOptimizer.open(tmp_path, grid(cost_bounds=(90.0,)), Schedule(certification="betting")) as optimizer:
        assert optimizer.ask() is not None


def test_a_record_that_leads_elsewhere_is_refused_with_what_differs(tmp_path: Path, system: Plant) -> None:
    run_in(tmp_path, system)
    events = read_events(tmp_path / "journal.sqlite")
    at = next(i for i, event in enumerate(events) if event.kind == "asked")
    asked = events[at]
    for name, value in (("episodes", asked.body["episodes"] + 1), ("risk", 0.25)):
        edited = [*events[:at], replace(asked, body={**asked.body, name: value}), *events[at + 1 :]]
        with pytest.raises(JournalError, match=rf"lead to {name} \S+ in place of {value}\. The record was made by"):
            SafeOptimizer.replay(edited)


def test_a_record_with_a_trial_where_none_is_left_is_refused(tmp_path: Path, system: Plant) -> None:
    problem = replace(system.problem, seeds=system.problem.seeds[:1])
    with SafeOptimizer.open(tmp_path, problem, Schedule(seed_trials=5)) as optimizer:
        for _ in range(2):
            trial = optimizer.ask()
            assert trial is not None
            optimizer.tell(trial, [Returns(1.0, [0.9 * limit for limit in problem.limits])] * 20)
    events = list(read_events(tmp_path / "journal.sqlite"))
    told = next(i for i, event in enumerate(events) if event.kind == "told")
    costly = [[1.0, *(9.0 * limit for limit in problem.limits)]] * 20
    events[told] = replace(events[told], body={**events[told].body, "episodes": costly})
    with pytest.raises(JournalError, match="lead to no further trial"):
        SafeOptimizer.replay(events)


@pytest.mark.parametrize("on_disk", [True, False])
def test_after_an_interrupt_within_an_event_nothing_more_is_recorded(
    system: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    optimizer = SafeOptimizer.open(tmp_path, system.problem, quick()) if on_disk else SafeOptimizer(system.problem)
    advance(optimizer, system, np.random.default_rng(0), 2)
    trial = optimizer.ask()
    assert trial is not None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(optimizer._state.posterior, "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            optimizer.tell(trial, system.episodes(trial.index, 5, np.random.default_rng(1)))
    with pytest.raises(JournalError, match="interrupted half-way.*" + ("open .* again" if on_disk else "begin anew")):
        optimizer.ask()
    if on_disk:
        with SafeOptimizer.open(tmp_path) as again:  # what was recorded has happened
            assert len(again.trials) == 3
            assert again.ask() is not None


def test_a_warning_that_is_made_an_error_does_not_undo_a_trial(system: Plant, tmp_path: Path) -> None:
    with SafeOptimizer.open(tmp_path, system.problem, quick()) as optimizer:
        trial = optimizer.ask()
        assert trial is not None
        with warnings.catch_warnings():
            warnings.simplefilter("error", GuaranteeWarning)
            with pytest.raises(GuaranteeWarning):
                optimizer.tell(trial, [Returns(100, 300.0)] * 20)
        assert len(optimizer.trials) == 1
        live = snapshot(optimizer)
    with SafeOptimizer.open(tmp_path) as again:
        assert snapshot(again) == live
