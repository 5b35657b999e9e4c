"""Committed records of the present format are read, replayed and continued; one of version 0.1 is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import JournalError
from lifesafe.journal import JOURNAL, Journal, read_records
from lifesafe.journal.events import EVENT_KINDS, kind_of
from lifesafe.journal.store import VERSION
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from properties.runs import advance, system, visible

ASSETS = Path(__file__).parent / "assets"
RECORDS = sorted(ASSETS.glob(f"journal-v{VERSION}-*.sqlite"))
OLD = ASSETS / "journal-v1.sqlite"


@pytest.fixture(params=RECORDS, ids=lambda path: path.stem)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, since opening a journal writes beside it."""
    shutil.copyfile(request.param, tmp_path / JOURNAL)
    return tmp_path


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def test_there_is_a_small_record_of_each_promise_and_of_every_kind_of_event() -> None:
    assert [path.stem for path in RECORDS] == [f"journal-v{VERSION}-{promise}" for promise in ("total", "trial")]
    assert all(path.stat().st_size < 100_000 for path in ASSETS.iterdir())
    assert {kind_of(record.event) for path in RECORDS for record in read_records(path)} == set(EVENT_KINDS)


def test_every_decision_and_snapshot_of_a_record_is_made_again(place: Path) -> None:
    records = read_records(place / JOURNAL)
    replayed = SafeOptimizer.replay(records)
    with SafeOptimizer.open(place) as opened:
        assert visible(opened) == visible(replayed)
    assert len(replayed.trials) >= 9
    assert replayed.history.served > 0


def test_what_a_record_came_to_is_what_it_came_to_when_it_was_made(place: Path) -> None:
    with SafeOptimizer.open(place) as optimizer:
        operation = Operation(optimizer)
        if optimizer.problem.promise == "trial":
            assert (optimizer.history.served, len(optimizer.history.services)) == (1161, 3)
            assert operation.halted is not None
            assert [tried.number for tried in optimizer.trials if tried.retracted is not None] == [2, 3]
        else:
            assert (optimizer.open_trial.number, optimizer.open_trial.stage) == (13, "test")
            assert (operation.episodes, operation.halted) == (12, None)
            assert optimizer.beliefs.certified == {(100.0, 0.0)}


def test_a_run_goes_on_from_its_record(place: Path) -> None:
    promise = read_records(place / JOURNAL)[0].event.problem["promise"]
    plant, rng = system(3, stop_at=40.0, promise=promise), np.random.default_rng(0)
    before = read_records(place / JOURNAL)
    with SafeOptimizer.open(place) as optimizer:
        told = len(optimizer.trials)
        if optimizer.problem.promise == "trial":  # every start was withdrawn
            optimizer.change_limits(39.0, [Returns(0.0, 20.0)])
        assert advance(optimizer, plant, rng, 3) == 3
        assert len(optimizer.trials) == told + 3
        seen = visible(optimizer)
    records = read_records(place / JOURNAL)
    assert records[: len(before)] == before
    assert visible(SafeOptimizer.replay(records)) == seen


@pytest.mark.parametrize("use", [Journal.open, read_records, lambda path: SafeOptimizer.open(path.parent)])
def test_a_record_of_version_0_1_is_refused_with_one_sentence_and_left_alone(use, tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    shutil.copyfile(OLD, path)
    before = contents(tmp_path)
    with pytest.raises(JournalError) as caught:
        use(path)
    assert str(caught.value) == f"{path} was recorded by lifesafe 0.1, which was never released; begin a new run."
    assert contents(tmp_path) == before
