"""What is finished is not done again, unless it is not what would be done now."""

from dataclasses import replace
from pathlib import Path

import pytest

from lifesafe.data import write_dsrl
from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.finished import finished_jobs
from lifesafe.lab.benchmark.results import rows_file, write_rows
from lifesafe.lab.benchmark.suite import Grid, SafeSearch, Suite
from logs import dataset
from small_results import ROW

GRID = Grid(tasks=("CarCircle",), methods=("cpq", "bc-all"), limits=(20.0,), seeds=1)
SUITE = Suite("mine", GRID, {"cpq": {"steps": 7}})
CPQ, CLONING = SUITE.jobs()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_dsrl(dataset(4), tmp_path / "CarCircle.hdf5")
    return tmp_path / "CarCircle.hdf5"


def finish(directory: Path, **more: str) -> None:
    write_rows(directory, CPQ.name, [replace(ROW, settings=SUITE.fingerprint(CPQ), **more)])


def test_jobs_with_rows_are_finished(tmp_path: Path, logs: Path) -> None:
    assert finished_jobs(SUITE, tmp_path, {}) == []
    finish(tmp_path)
    assert finished_jobs(SUITE, tmp_path, {}) == [CPQ]
    finish(tmp_path, data=logs.name, fingerprint=dataset(4).fingerprint)
    assert finished_jobs(SUITE, tmp_path, {"CarCircle": logs}) == [CPQ]


@pytest.mark.parametrize(
    "changed",
    [
        replace(SUITE, settings={"cpq": {"steps": 8}}),
        replace(SUITE, settings={}),
        replace(SUITE, grid=replace(GRID, episodes=5)),
    ],
    ids=["other", "none", "episodes"],
)
def test_rows_of_other_settings_are_refused(tmp_path: Path, changed: Suite) -> None:
    finish(tmp_path)
    with pytest.raises(ConfigError, match=r"CarCircle-cpq-20-0.json was made with other settings of cpq.*--out"):
        finished_jobs(changed, tmp_path, {})
    rows_file(tmp_path, CPQ.name).unlink()
    assert finished_jobs(changed, tmp_path, {}) == []


def test_settings_of_other_methods_and_of_the_search_are_ignored(tmp_path: Path) -> None:
    finish(tmp_path)
    settings = {**SUITE.settings, "bc-all": {"steps": 1}}
    changed = replace(SUITE, grid=replace(GRID, seeds=2), settings=settings, search=SafeSearch(episodes=300))
    assert finished_jobs(changed, tmp_path, {}) == [CPQ]


def test_rows_of_other_data_are_refused(tmp_path: Path, logs: Path) -> None:
    finish(tmp_path, data=logs.name, fingerprint=dataset(5).fingerprint)
    with pytest.raises(ConfigError, match=rf"from CarCircle.hdf5 {dataset(5).fingerprint[:8]}, not .* given now"):
        finished_jobs(SUITE, tmp_path, {"CarCircle": logs})
    with pytest.raises(ConfigError, match=r"from the file CarCircle.hdf5, and none is given"):
        finished_jobs(SUITE, tmp_path, {})


def test_rows_that_do_not_say_how_they_were_made_count(tmp_path: Path, logs: Path) -> None:
    write_rows(tmp_path, CPQ.name, [ROW])
    assert finished_jobs(SUITE, tmp_path, {"CarCircle": logs}) == [CPQ]
