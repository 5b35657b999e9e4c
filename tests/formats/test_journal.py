"""Journals written by earlier versions are read, replayed and continued."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from lifesafe.optimizer import SafeOptimizer, Stage
from lifesafe.optimizer.journal import VERSION, read_events, verify
from lifesafe.returns import Returns

ASSETS = Path(__file__).parent / "assets"
JOURNALS = sorted(ASSETS.glob("journal-v*.sqlite"))


@pytest.fixture(params=JOURNALS, ids=lambda path: path.stem)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, since opening a journal writes beside it."""
    shutil.copyfile(request.param, tmp_path / "journal.sqlite")
    return tmp_path


def test_there_is_a_journal_of_every_version() -> None:
    assert [path.name for path in JOURNALS] == [f"journal-v{v}.sqlite" for v in range(1, VERSION + 1)]
    assert all(path.stat().st_size < 200_000 for path in JOURNALS)


def test_a_journal_is_whole_and_says_what_happened(place: Path) -> None:
    assert verify(place / "journal.sqlite") == 6
    kinds = [event.kind for event in read_events(place / "journal.sqlite")]
    assert kinds == ["opened", "asked", "told", "asked", "told", "asked"]


def test_a_journal_is_replayed_and_continued(place: Path) -> None:
    with SafeOptimizer.open(place) as optimizer:
        assert len(optimizer.trials) == 2
        assert optimizer.trials[0].trial.stage is Stage.SEED
        (trial,) = optimizer.open_trials
        assert optimizer.ask() == trial
        assert trial.number == 3
        optimizer.tell(trial, [Returns(200.0, 2.0)] * trial.episodes)
        assert optimizer.ask() is not None
    with SafeOptimizer.open(place) as optimizer:
        assert len(optimizer.trials) == 3
        assert np.isfinite(optimizer.bands.lower).all()
    assert verify(place / "journal.sqlite") == 8
