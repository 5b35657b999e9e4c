"""How far a job is: written now and then, read by whoever watches, and never in the way."""

import json
from pathlib import Path

import pytest

from lifesafe.lab.benchmark import status
from lifesafe.lab.benchmark.jobs import run_job
from lifesafe.lab.benchmark.status import Reporter, Status, read_status
from lifesafe.lab.benchmark.suite import Grid, SafeSearch, Suite


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(status, "time", made)
    return made


def test_what_begins_is_told_at_once_and_how_it_goes_on_now_and_then(tmp_path: Path, clock: Clock) -> None:
    report = Reporter(tmp_path)
    report("training", 10, 100)
    assert read_status(tmp_path) == Status("training", 10, 100, 0.0, 10)
    clock.now += 1.0
    report("training", 20, 100)
    assert read_status(tmp_path) == Status("training", 10, 100, 0.0, 10)
    clock.now += 1.0
    report("training", 30, 100)
    assert read_status(tmp_path) == Status("training", 30, 100, 2.0, 10)
    clock.now += 0.1
    report("search under 20", 0, 150)
    assert read_status(tmp_path) == Status("search under 20", 0, 150, 0.0, 0)


def test_the_time_left_goes_by_the_pace_of_this_process() -> None:
    assert Status("training", 30, 100, 2.0, 10).seconds_left == pytest.approx(7.0)
    assert Status("training", 10, 100, 2.0, 10).seconds_left is None


def test_what_an_earlier_process_told_is_forgotten(tmp_path: Path) -> None:
    Reporter(tmp_path)("training", 1, 2)
    Reporter(tmp_path)
    assert read_status(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"doing": "training"}', json.dumps({"doing": 1, "done": "x"})])
def test_a_file_that_is_no_status_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / status.NAME).write_text(text)
    assert read_status(tmp_path) is None


def test_a_job_goes_on_where_its_status_cannot_be_written(tmp_path: Path) -> None:
    report = Reporter(tmp_path / "nowhere")
    report("training", 1, 2)
    assert read_status(tmp_path / "nowhere") is None


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")  # so short a training is safe nowhere
def test_a_job_tells_of_its_training_its_trials_and_its_episodes(tmp_path: Path) -> None:
    small = {"steps": 20, "batch": 16, "width": 16, "layers": 1, "heads": 1, "context": 2}
    grid = Grid(tasks=("PointCircle",), methods=("pls",), limits=(30.0, 40.0), seeds=1, episodes=3)
    suite = Suite("small", grid, {"cdt": small}, search=SafeSearch(episodes=40))
    (job,) = suite.jobs()
    told: list[tuple[str, int, int]] = []
    run_job(job, suite, None, tmp_path, report=lambda *each: told.append(each))
    assert list(dict.fromkeys(doing for doing, *_ in told)) == [
        "training", "search under 30", "episodes under 30", "search under 40", "episodes under 40",
    ]  # fmt: skip
    assert ("training", 20, 20) in told
    assert ("search under 40", 30, 40) in told  # the first trial has 30 episodes
    assert {each[1:] for each in told if each[0] == "episodes under 40"} == {(0, 3)}
