"""Suites: which jobs there are, and with which settings."""

from pathlib import Path

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.baselines import CPQConfig
from lifesafe.lab.benchmark.suite import Grid, Job, SafeSearch, Suite, load_suite
from lifesafe.life import Search

GRID = """
[grid]
tasks = ["PointCircle"]
methods = ["cpq", "bc-all", "cdt", "pls"]
limits = [20, 40]
seeds = 2

[settings.cpq]
steps = 7
"""


def suite_of(directory: Path, text: str) -> Suite:
    path = directory / "small.toml"
    path.write_text(text)
    return load_suite(path)


def test_a_method_for_one_limit_has_a_job_for_each_and_others_one_for_all(tmp_path: Path) -> None:
    jobs = suite_of(tmp_path, GRID).jobs()
    assert [(job.method, job.limits) for job in jobs if job.seed == 0] == [
        ("cpq", (20.0,)),
        ("cpq", (40.0,)),
        ("bc-all", (20.0, 40.0)),
        ("pls", (20.0, 40.0)),  # and with it cdt, the same training
    ]
    assert len({job.name for job in jobs}) == len(jobs) == 8


def test_cdt_without_a_search_is_a_job_of_its_own(tmp_path: Path) -> None:
    jobs = suite_of(tmp_path, GRID.replace(', "pls"', "")).jobs()
    assert [job.method for job in jobs if job.seed == 0] == ["cpq", "cpq", "bc-all", "cdt"]


def test_settings_and_limits_reach_the_training(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, GRID)
    config = suite.config(Job("PointCircle", "cpq", (40.0,), 0))
    assert config == CPQConfig(limits=(40.0,), steps=7)


def test_settings_may_differ_on_one_task(tmp_path: Path) -> None:
    two = GRID.replace('["PointCircle"]', '["PointCircle", "CarCircle"]').replace("steps = 7", "steps = 7\nbatch = 9")
    suite = suite_of(tmp_path, f"{two}\n[tasks.CarCircle.cpq]\nsteps = 8\n[tasks.CarCircle.cdt]\nsteps = 5")
    plain, own = (suite.config(Job(task, "cpq", (40.0,), 0)) for task in ("PointCircle", "CarCircle"))
    assert plain == CPQConfig(limits=(40.0,), steps=7, batch=9)
    assert own == CPQConfig(limits=(40.0,), steps=8, batch=9)
    assert suite.config(Job("CarCircle", "pls", (20.0, 40.0), 0)).steps == 5


@pytest.mark.parametrize("name", ["smoke", "cpu", "paper"])
def test_the_suites_that_come_along_can_be_loaded(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert {job.method for job in suite.jobs()} >= {"pls", "cpq", "ccac"}


def test_the_paper_compares_seven_methods_on_nine_tasks() -> None:
    grid = load_suite("paper").grid
    assert (len(grid.tasks), len(grid.methods), grid.limits, grid.seeds) == (9, 7, (20.0, 40.0), 5)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("cpq", "cqp"), "Did you mean 'cpq'"),
        (("steps = 7", "stepz = 7"), "Did you mean 'steps'"),
        (("seeds = 2", "seeds = 0"), "seeds must be at least 1"),
        (("[grid]", "[gird]"), "a table grid"),
        (("[settings.cpq]", "[settings.cpqq]"), "about no method"),
        (("steps = 7", "limits = [5]"), r"settings.cpq sets limits; those of all methods are grid.limits"),
        (("[settings.cpq]", "[tasks.PointCircle.cpqq]"), r"tasks.PointCircle.cpqq is about no method"),
        (("[settings.cpq]", "[tasks.PointCircel.cpq]"), "about no task of the grid. Did you mean 'PointCircle'"),
        (("[settings.cpq]\nsteps", "[tasks.PointCircle.cpq]\nstepz"), r"tasks.PointCircle.cpq.* Did you mean 'steps'"),
        (("limits = [20, 40]", "limits = []"), "limits must not be empty"),
        (("limits = [20, 40]", "limits = [0]"), "limits must be positive"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        suite_of(tmp_path, GRID.replace(*change))


def test_an_unknown_suite_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="cpu, paper, smoke"):
        load_suite("cluster")


def test_a_grid_can_be_written_in_python() -> None:
    suite = Suite("mine", Grid(tasks=("PointCircle",), methods=("bc-safe",), limits=(5.0,), seeds=1))
    assert [job.name for job in suite.jobs()] == ["PointCircle-bc-safe-5-0"]


def test_another_search_is_another_job_but_not_another_training(tmp_path: Path) -> None:
    plain, longer = (suite_of(tmp_path, f"{GRID}\n[search]\nepisodes = {count}") for count in (150, 300))
    assert suite_of(tmp_path, GRID).search == plain.search  # 150 episodes unless told
    for job in plain.jobs():
        same = longer.fingerprint(job) == plain.fingerprint(job)
        assert same == (job.method != "pls")
        assert longer.config(job) == plain.config(job)
    first, second = (job for job in longer.jobs() if job.method == "pls" and job.task == longer.grid.tasks[0])
    assert longer.fingerprint(first) != longer.fingerprint(second)  # every seed draws trials of its own


def test_a_search_in_limits_is_the_search_of_a_life_under_each_limit(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, f'{GRID}\n[search]\npromise = "total"\nstop = 2.0\nepisodes = 300')
    assert suite.search.under(20.0) == Search(promise="total", stop_at=(40.0,), episodes=300)
    assert suite.search.under(40.0).stop_at == (80.0,)
    assert SafeSearch(incident=4.0).under(20.0).incident == (80.0,)
    assert SafeSearch(incident="horizon").under(20.0).incident == "horizon"


@pytest.mark.parametrize(
    ("search", "complaint"),
    [
        ('promise = "total"', 'promise = "total" needs stop'),
        ("stop = 2.0\nincident = 3.0", "give stop or incident, not both"),
        ("stop = -1.0", "stop must be positive; got -1"),
        ("delta = 1.0", "delta must lie between 0 and 1; got 1"),
        ("episodes = 0", "episodes must be at least 1; got 0"),
        ("trials = 30", "trials"),
    ],
)
def test_an_impossible_search_is_refused(tmp_path: Path, search: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        suite_of(tmp_path, f"{GRID}\n[search]\n{search}")
