"""How far jobs are: each writes it into its directory, and the runner reads it there."""

from pathlib import Path

import pytest

from lifesafe.interfaces import Progress
from lifesafe.lab.benchmark import runner
from lifesafe.lab.benchmark.runner import job_directory, read_status, reporter, run_suite, status_file
from lifesafe.lab.benchmark.suite import Grid, Job, Suite

SUITE = Suite("mine", Grid(tasks=("PointCircle",), methods=("bc-all",), limits=(20.0,), seeds=1))
(JOB,) = SUITE.jobs()


def test_a_status_is_read_as_it_was_written_and_what_begins_is_written_at_once(tmp_path: Path) -> None:
    job_directory(tmp_path, JOB).mkdir(parents=True)
    report = reporter(tmp_path, JOB)
    report(Progress("training", 10, 100, figures={"loss": 0.5}))
    assert read_status(tmp_path, JOB) == Progress(f"{JOB.name}: training", 10, 100, figures={"loss": 0.5})
    report(Progress("training", 11, 100))  # too soon to be written
    report(Progress("episodes", 0, 20))
    assert read_status(tmp_path, JOB) == Progress(f"{JOB.name}: episodes", 0, 20)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"done": 1}', '{"nothing": "x"}'])
def test_a_file_that_is_no_status_says_nothing(tmp_path: Path, text: str) -> None:
    job_directory(tmp_path, JOB).mkdir(parents=True)
    status_file(tmp_path, JOB).write_text(text)
    assert read_status(tmp_path, JOB) is None


def test_a_job_goes_on_where_its_status_cannot_be_written(tmp_path: Path) -> None:
    reporter(tmp_path / "nowhere", JOB)(Progress("training", 1, 2))
    assert read_status(tmp_path / "nowhere", JOB) is None


class Slow:
    """A pool whose job is at work when it is looked at twice."""

    def __init__(self, directory: Path) -> None:
        self.data: dict[str, Path] = {}
        self._directory, self._looks = directory, 0

    def room(self) -> int:
        return 1

    def start(self, job: Job) -> None:
        job_directory(self._directory, job).mkdir(parents=True)
        reporter(self._directory, job)(Progress("training", 5, 10))

    def ended(self) -> list[tuple[Job, str | None]]:
        self._looks += 1
        return [(JOB, None)] if self._looks > 2 else []

    def close(self) -> None:
        pass


def test_the_runner_tells_how_far_its_jobs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_LOOK", 0.0)
    told: list[Progress] = []
    assert run_suite(SUITE, tmp_path, Slow(tmp_path), report=told.append) == []
    doing = f"{JOB.name}: training"
    assert Progress(doing, 5, 10) in told
    assert [(each.doing, each.done, each.total) for each in told[-2:]] == [(doing, 5, 5), ("jobs", 1, 1)]
