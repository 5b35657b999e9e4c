"""A suite of jobs: run, killed, resumed, failed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lifesafe.cli import main
from lifesafe.interfaces import Progress
from lifesafe.lab.benchmark.processes import Processes
from lifesafe.lab.benchmark.results import read_rows
from lifesafe.lab.benchmark.runner import run_suite
from lifesafe.lab.benchmark.suite import Grid, Job, Suite, load_suite

SUITE = """
[grid]
tasks = ["PointCircle"]
methods = ["bc-safe", "cdt", "pls"]
limits = [30, 40]
seeds = 1
episodes = 3

[search]
episodes = 50

[settings.bc-safe]
steps = 50

[settings.cdt]
steps = 60
batch = 16
width = 16
layers = 1
heads = 2
context = 2
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SUITE)
    return path


def happened(told: list[Progress]) -> list[str]:
    """Return what happened to jobs, one after the other."""
    return [each.note.split(" ", 2)[2].partition(":")[0] for each in told if each.note]


def numbers(directory: Path) -> list[tuple[object, ...]]:
    return [
        (row.method, row.limit, row.reward, row.cost, row.target, row.trials, row.trial_costs)
        for row in read_rows(directory)
    ]


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")
def test_a_killed_suite_goes_on_and_ends_with_the_same_rows(
    suite: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_suite(load_suite(suite), whole, Processes(load_suite(suite), whole)) == []
    expected = numbers(whole)
    assert [row[:2] for row in expected] == [
        ("bc-safe", 30.0),
        ("bc-safe", 40.0),
        ("pls", 30.0),
        ("cdt", 30.0),
        ("pls", 40.0),
        ("cdt", 40.0),
    ]
    assert all(row.fingerprint and row.versions for row in read_rows(whole))

    process = subprocess.Popen(
        [sys.executable, "-m", "lifesafe.cli", "bench", "run", str(suite), "--out", str(killed), "--processes", "1"],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list((killed / "rows").glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()  # its job has to end by itself
    process.wait()
    assert 0 < len(list((killed / "rows").glob("*.json"))) < 3

    told: list[Progress] = []
    assert run_suite(load_suite(suite), killed, Processes(load_suite(suite), killed), report=told.append) == []
    assert "done before" in told[0].note
    assert numbers(killed) == expected

    suite.write_text(SUITE.replace("steps = 60", "steps = 61"))
    assert main(["bench", "run", str(suite), "--out", str(killed)]) == 2
    assert "was made with other settings of pls" in capfd.readouterr().err


ORPHAN = """
import multiprocessing, time
from lifesafe.lab.benchmark.processes import end_with_parent
def job():
    end_with_parent()
    print("begun", flush=True)
    time.sleep(600)
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=job)
    process.start()
    print(process.pid, flush=True)
    process.join()
"""


def test_a_job_ends_with_a_suite_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        job = int(process.stdout.readline())
        assert process.stdout.readline() == "begun\n"
        assert lives(job)
        process.kill()
    deadline = time.monotonic() + 60
    while lives(job) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(job)


def lives(process: int) -> bool:
    """Return whether there is such a process, and not only its end to be collected."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")


def test_a_job_that_fails_is_tried_again_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    grid = Grid(tasks=("PointCircle",), methods=("bc-safe", "bc-all"), limits=(40.0,), seeds=1, episodes=2)
    suite = Suite("broken", grid, {"bc-all": {"steps": 5}, "bc-safe": {"steps": 5}})
    wrong = tmp_path / "PointCircle.hdf5"
    wrong.write_bytes(b"no data")
    told: list[Progress] = []
    out = tmp_path / "out"
    failed = run_suite(suite, out, Processes(suite, out, data={"PointCircle": wrong}), report=told.append)
    assert [job.method for job in failed] == ["bc-safe", "bc-all"]
    assert happened(told) == ["begun", "failed, begun again", "FAILED"] * 2
    assert all("DatasetError" in each.note for each in told if "FAILED" in each.note)
    assert "DatasetError" in (out / "jobs" / failed[0].name / "error.txt").read_text()
    assert run_suite(suite, out, Processes(suite, out)) == []  # with the right data


def test_the_commands_run_a_suite_and_print_its_table(
    suite: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    run = ["bench", "run", str(suite), "--methods", "bc-safe", "--limit", "40", "--out", out]
    assert main(run) == 0
    assert main(run) == 0  # nothing left to do
    assert "PointCircle-bc-safe-40-0 done before" in capfd.readouterr().err
    assert main(["bench", "table", out]) == 0
    told = capfd.readouterr()
    assert "| task | | BC-Safe |" in told.out
    assert "best safe" in told.out
    table = tmp_path / "table.tex"
    assert main(["bench", "table", out, "--format", "tex", "--out", str(table)]) == 0
    assert r"\begin{tabular}" in table.read_text()
    assert main(["bench", "table", str(tmp_path / "nothing")]) == 2
    assert main(["bench", "run", str(suite), "--data", str(tmp_path)]) == 2
    assert "holds none of PointCircle.hdf5" in capfd.readouterr().err


@pytest.mark.slow  # a minute on two cores, most of it the imports of 13 processes
def test_the_smoke_suite_runs_whole_and_its_rows_give_its_table_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, tables = tmp_path / "smoke", [tmp_path / "one.md", tmp_path / "two.md"]
    assert main(["bench", "run", "smoke", "--out", str(out)]) == 0
    grid = load_suite("smoke").grid
    ran = [(row.method, row.limit) for row in read_rows(out)]
    assert sorted(ran) == sorted((method, limit) for method in grid.methods for limit in grid.limits)
    for table in tables:
        assert main(["bench", "table", str(out), "--out", str(table)]) == 0
    assert tables[0].read_bytes() == tables[1].read_bytes()
    assert tables[0].read_text().count("| PointCircle | reward |") == len(grid.limits)


@pytest.mark.slow  # Ray takes its time to begin
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_suite_on_ray_gives_the_same_rows_and_tells_of_failures(suite: Path, tmp_path: Path) -> None:
    from lifesafe.lab.benchmark.cluster import RayTasks

    chosen = load_suite(suite)
    local, remote = tmp_path / "local", tmp_path / "remote"
    assert run_suite(chosen, local, Processes(chosen, local, processes=2)) == []
    assert run_suite(chosen, remote, RayTasks(chosen, remote, cpus=0.5)) == []
    assert numbers(remote) == numbers(local)
    assert not list(remote.glob(".ray-*"))

    wrong = tmp_path / "PointCircle.hdf5"
    wrong.write_bytes(b"no data")
    grid = Grid(tasks=("PointCircle",), methods=("bc-all",), limits=(40.0,), seeds=1, episodes=2)
    broken = Suite("broken", grid, {"bc-all": {"steps": 5}})
    told: list[Progress] = []
    pool = RayTasks(broken, tmp_path / "out", data={"PointCircle": wrong})
    assert len(run_suite(broken, tmp_path / "out", pool, report=told.append)) == 1
    assert happened(told) == ["begun", "failed, begun again", "FAILED"]
    assert "DatasetError" in told[-1].note


@pytest.mark.slow  # Ray takes its time to begin
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_machine_that_shares_no_files_gets_the_data_and_not_older_ones_of_the_same_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from lifesafe.data import write_dsrl
    from lifesafe.lab.benchmark.cluster import run_remotely
    from lifesafe.systems import task

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    whole = task("PointCircle").dataset()
    parts = [whole.select(np.arange(first, first + 20)) for first in (0, 20)]
    grid = Grid(tasks=("PointCircle",), methods=("bc-all",), limits=(40.0,), seeds=2, episodes=2)
    suite = Suite("apart", grid, {"bc-all": {"steps": 5}})
    ray.init(num_cpus=1, include_dashboard=False)
    try:
        for job, part in zip(suite.jobs(), parts, strict=True):
            file = tmp_path / "PointCircle.hdf5"
            write_dsrl(part, file, compress=False)
            sent = [ray.put(file.read_bytes())]
            file.unlink()
            rows, error = run_remotely(job, suite, file, sent, str(tmp_path / "out"), "no token", "cpu")
            assert error is None
            assert (rows[0]["data"], rows[0]["fingerprint"]) == (file.name, part.fingerprint)
    finally:
        ray.shutdown()


@pytest.mark.slow  # Ray takes its time to begin
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_many_jobs_on_ray_begin_in_order_and_those_that_fail_or_die_are_tried_again(tmp_path: Path) -> None:
    from lifesafe.lab.benchmark.cluster import RayTasks

    grid = Grid(tasks=("PointCircle",), methods=("bc-all", "bc-safe"), limits=(20.0, 40.0), seeds=8)
    suite = Suite("many", grid)
    jobs = suite.jobs()
    dying, failing = jobs[3].name, jobs[7].name

    def work(job: Job, suite: Suite, data: object, sent: object, root: str, token: str, device: str) -> object:
        mark = Path(root) / f"{job.name}.tried"
        first = not mark.exists()
        mark.touch()
        if first and job.name == dying:
            os._exit(1)
        return [], "RuntimeError: made to fail" if first and job.name == failing else None

    told: list[Progress] = []
    out = tmp_path / "out"
    assert run_suite(suite, out, RayTasks(suite, out, cpus=0.5, work=work), report=told.append) == []
    assert [each.note.split()[1] for each in told if each.note.endswith(" begun")] == [job.name for job in jobs]
    again = {each.note.split()[1] for each in told if each.note.endswith("begun again")}
    assert again == {dying, failing}
    assert len(list((out / "rows").glob("*.json"))) == len(jobs) == 24
