"""The paper's comparison from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional

from lifesafe.console.arguments import Count, Directory, OutFile, Word, option
from lifesafe.console.progress import progress
from lifesafe.console.prompts import FAILED, OK, say
from lifesafe.console.tables import print_json
from lifesafe.errors import ConfigError

if TYPE_CHECKING:
    from lifesafe.lab.benchmark.suite import Suite

Tasks = Annotated[tuple[str, ...], option("TASK")]
Methods = Annotated[tuple[str, ...], option("METHOD")]
_Limits = Annotated[tuple[float, ...], option("NUMBER")]
SuiteName = Annotated[str, Positional, option("SUITE")]
Results = Annotated[tuple[Path, ...], Positional, option("RESULTS")]


def bench_run(
    suite: SuiteName,
    /,
    *,
    data: Directory = None,
    tasks: Tasks = (),
    methods: Methods = (),
    limit: _Limits = (),
    seeds: Count = None,
    out: Directory = None,
    processes: int = 2,
    threads: int = 1,
    device: str = "cpu",
    ray: bool = False,
    address: Word = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    attempts: int = 2,
) -> int:
    """Run a suite: all tasks, methods, limits and seeds.

    Suites: smoke (minutes, checks that everything runs), cpu (the paper's grid with budgets for two cores), paper (full
    budgets), or a TOML file of your own. Jobs that are finished are not done again, one that was killed goes on from
    its last checkpoint, one that fails is tried again and then reported.

    The protocol: the last weights count, nothing is selected on the environment, and every episode of a safe search is
    counted.

    With --ray the jobs run on Ray, on this machine or, with --address, on a cluster; the machines need not share files.

    Examples:
        lifesafe bench run smoke
        lifesafe bench run cpu --tasks HopperVelocity --data data --seeds 1
        lifesafe bench run paper --data data --ray --address auto --cpus 2 --gpus 0.25
        lifesafe bench table runs/bench-cpu

    Exit codes: 0 all jobs are done, 2 some failed or an error, 130 interrupted (run it again to go on).

    Args:
        suite: Name of a suite, or a TOML file.
        data: Directory with a file TASK.hdf5, in the layout of DSRL, for each task; or a single such file if there is
            one task. Tasks without a file use the public data.
        tasks: Only these tasks; all of the suite unless given.
        methods: Only these methods; all of the suite unless given.
        limit: Only these limits; all of the suite unless given.
        seeds: So many seeds instead of the suite's.
        out: Directory of the results; unless given, runs/bench-SUITE.
        processes: How many jobs run at once; without --ray.
        threads: How many threads each may use; without --ray.
        device: Where to train: cpu, cuda, cuda:1 or mps; without --ray.
        ray: Run the jobs on Ray.
        address: Of a Ray cluster: auto, or ray://host:10001; this machine alone unless given.
        cpus: Processors that each job asks Ray for; on the CPU it computes on one of them.
        gpus: GPUs that each job asks Ray for, 0.25 say; if any, it trains on one.
        attempts: How often a job is tried.
    """
    from lifesafe.lab.benchmark.processes import Processes
    from lifesafe.lab.benchmark.runner import Pool, run_suite

    chosen = _part(suite, tasks, methods, limit, seeds)
    directory = out or Path("runs") / f"bench-{chosen.name}"
    files = _files(chosen, data)
    pool: Pool
    if ray:
        from lifesafe.lab.benchmark.cluster import RayTasks

        pool = RayTasks(chosen, directory, data=files, address=address, cpus=cpus, gpus=gpus)
    else:
        pool = Processes(chosen, directory, data=files, processes=processes, threads=threads, device=device)
    with progress("") as report:
        failed = run_suite(chosen, directory, pool, attempts=attempts, report=report)
    for job in failed:
        say(f"{job.name} failed; its error is in {directory / 'jobs' / job.name / 'error.txt'}.")
    print(f"Results: {directory}")
    return FAILED if failed else OK


def bench_table(
    results: Results,
    /,
    *,
    format: Literal["md", "tex", "csv"] = "md",
    published: bool = False,
    out: OutFile = None,
    json: bool = False,
) -> int:
    """Print the table of some results.

    Reward and cost of every method, what is safe, and what is best of that. The same results always give the same
    text. A summary follows in Markdown: how often each method is safe, what its search took, and means
    over everything with bootstrap intervals. With --published, the paper's own numbers for these tasks and limits
    follow, too; they are from the public data, and comparable only as far as yours are.

    Examples:
        lifesafe bench table runs/bench-cpu
        lifesafe bench table runs/bench-cpu --format tex --out table.tex

    Exit codes: 0 done, 2 an error.

    Args:
        results: Directories of suites, or JSON files of rows.
        format: Markdown, LaTeX or CSV.
        published: Add the table of the paper.
        out: File to write; unless given, the table is printed.
        json: Print the counts of the summary as JSON instead.
    """
    from lifesafe._files import write_atomic
    from lifesafe.lab.benchmark.results import read_rows
    from lifesafe.lab.benchmark.summaries import document, sections, summary

    rows = read_rows(*_given(results))
    if json:
        print_json(summary(rows))
        return OK
    text = document(rows, format, published=published)
    if out is None:
        print(text)
    else:
        write_atomic(out, text)
        print(f"Table: {out}")
    if out is not None or format in ("tex", "csv"):  # else it has just been printed
        say("\n".join(f"{section.table.text()}\n{section.note}\n" for section in sections(rows)))
    return OK


def bench_figure(
    results: Results,
    /,
    *,
    kind: Literal["scatter", "exploration"] = "scatter",
    out: Path = Path("figure.png"),
) -> int:
    """Draw some results.

    Reward against cost of every method, or the cost of every trial of the safe searches. For target against actual
    returns, which needs more episodes, see `lifesafe alignment --policy`.

    Examples:
        lifesafe bench figure runs/bench-cpu --out scatter.png
        lifesafe bench figure runs/bench-cpu --kind exploration --out exploration.pdf

    Exit codes: 0 done, 2 an error.

    Args:
        results: Directories of suites, or JSON files of rows.
        kind: What to draw.
        out: File to write, .png, .pdf or .svg.
    """
    from lifesafe.lab.benchmark.results import read_rows
    from lifesafe.lab.figures.bench import draw_exploration, draw_scatter
    from lifesafe.lab.figures.saving import save_figure

    rows = read_rows(*_given(results))
    save_figure((draw_scatter if kind == "scatter" else draw_exploration)(rows), out)
    print(f"Figure: {out}")
    return OK


def _part(
    suite: str, tasks: tuple[str, ...], methods: tuple[str, ...], limits: tuple[float, ...], seeds: int | None
) -> Suite:
    """Return a suite, or the part of it that is asked for."""
    from dataclasses import replace

    from lifesafe.lab.benchmark.suite import load_suite

    found = load_suite(suite)
    grid = replace(
        found.grid,
        tasks=tasks or found.grid.tasks,
        methods=methods or found.grid.methods,
        limits=limits or found.grid.limits,
        seeds=found.grid.seeds if seeds is None else seeds,
    )
    return replace(found, grid=grid)


def _given(results: tuple[Path, ...]) -> tuple[Path, ...]:
    if not results:
        raise ConfigError("Give the directory of a suite, runs/bench-cpu, say.")
    return results


def _files(suite: Suite, data: Path | None) -> dict[str, Path]:
    """Return the data file of each task that has one."""
    if data is None:
        return {}
    if data.is_file():
        if len(suite.grid.tasks) != 1:
            raise ConfigError(f"{data} is one file, but there are {len(suite.grid.tasks)} tasks; give a directory.")
        return {suite.grid.tasks[0]: data}
    found = {task: path for task in suite.grid.tasks if (path := data / f"{task}.hdf5").exists()}
    if not found:
        raise ConfigError(f"{data} holds none of {', '.join(f'{task}.hdf5' for task in suite.grid.tasks)}.")
    return found
