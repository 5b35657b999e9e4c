"""The paper's comparison from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from lifesafe.cli.console import FAILED, OK, Directory, OutFile, print_json, say, table
from lifesafe.errors import ConfigError

if TYPE_CHECKING:
    from lifesafe.benchmark.runner import Event
    from lifesafe.benchmark.suite import Suite

SuiteName = Annotated[str, Positional, tyro.conf.arg(metavar="SUITE")]
Results = Annotated[tuple[Path, ...], Positional, tyro.conf.arg(metavar="RESULTS")]


def bench_run(
    suite: SuiteName,
    /,
    *,
    data: Directory = None,
    tasks: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    limit: Annotated[tuple[float, ...], tyro.conf.arg(metavar="NUMBER")] = (),
    seeds: int | None = None,
    out: Directory = None,
    processes: int = 2,
    threads: int = 1,
    device: str = "cpu",
    ray: bool = False,
    address: str | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    attempts: int = 2,
) -> int:
    """Run a suite: every task, method, limit and seed, each a job of its own.

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
        tasks: Only these tasks.
        methods: Only these methods.
        limit: Only these limits.
        seeds: So many seeds instead of the suite's.
        out: Directory of the results; unless given, runs/bench-SUITE.
        processes: How many jobs run at once; without --ray.
        threads: How many threads each may use; without --ray.
        device: Where to train: cpu, cuda, cuda:1 or mps; without --ray.
        ray: Run the jobs on Ray.
        address: Of a Ray cluster: auto, or ray://host:10001; this machine alone unless given.
        cpus: Processors that each job asks Ray for.
        gpus: GPUs that each job asks Ray for, 0.25 say; if any, it trains on one.
        attempts: How often a job is tried.
    """
    from dataclasses import replace

    from lifesafe.benchmark.processes import Processes
    from lifesafe.benchmark.runner import Pool, run_suite
    from lifesafe.benchmark.suite import load_suite

    found = load_suite(suite)
    grid = found.grid
    grid = replace(
        grid,
        tasks=tasks or grid.tasks,
        methods=methods or grid.methods,
        limits=limit or grid.limits,
        seeds=grid.seeds if seeds is None else seeds,
    )
    chosen = replace(found, grid=grid)
    directory = out or Path("runs") / f"bench-{found.name}"
    files = _files(chosen, data)
    pool: Pool
    if ray:
        from lifesafe.benchmark.cluster import RayTasks

        pool = RayTasks(chosen, directory, data=files, address=address, cpus=cpus, gpus=gpus)
    else:
        pool = Processes(chosen, directory, data=files, processes=processes, threads=threads, device=device)
    failed = run_suite(chosen, directory, pool, attempts=attempts, progress=_say)
    for job in failed:
        say(f"{job.name} failed; its error is in {directory / 'jobs' / job.name / 'error.txt'}.")
    print(f"Results: {directory}")
    return FAILED if failed else OK


def bench_table(
    results: Results,
    /,
    *,
    format: Literal["md", "tex", "csv", "html"] = "md",
    published: bool = False,
    out: OutFile = None,
    json: bool = False,
) -> int:
    """Print the table of some results: reward and cost of every method, what is safe, and what is best of that.

    The same results always give the same text. With --published, the paper's own numbers for these tasks and limits
    follow; they are from the public data, and comparable only as far as yours are.

    Examples:
        lifesafe bench table runs/bench-cpu
        lifesafe bench table runs/bench-cpu --format tex --out table.tex

    Exit codes: 0 done, 2 an error.

    Args:
        results: Directories of suites, or JSON files of rows.
        format: Markdown, LaTeX, CSV or HTML.
        published: Add the table of the paper.
        out: File to write; unless given, the table is printed.
        json: Print the counts of the summary as JSON instead.
    """
    from lifesafe._files import write_atomic
    from lifesafe.benchmark.results import Table, read_rows
    from lifesafe.benchmark.statistics import aggregates
    from lifesafe.benchmark.tables import NAMES, summary, summary_lines, table_text

    rows = [row for each in _given(results) for row in read_rows(each)]
    counts = summary(rows)
    if json:
        print_json(counts)
        return OK
    shown = Table.of(rows)
    text = table_text(shown, format)
    if published:
        from lifesafe.benchmark.published import SOURCE, published_for

        text += (
            "\n" + {"md": f"# {SOURCE}\n\n", "tex": f"% {SOURCE}\n", "html": f"<h2>{SOURCE}</h2>\n", "csv": ""}[format]
        )
        text += table_text(published_for(shown), format)
    if out is None:
        print(text)
    else:
        write_atomic(out, text)
        print(f"Table: {out}")
    say(table(summary_lines(counts)))
    heading = ("", "reward, middle half", "cost / limit, middle half", "share of runs within the limit", "runs")
    overall = [
        (NAMES.get(m, m), str(a.reward), str(a.cost), str(a.safe), str(a.runs)) for m, a in aggregates(rows).items()
    ]
    say("\nOver all tasks, limits and seeds, with 95 % bootstrap intervals:\n" + table([heading, *overall]))
    return OK


def bench_figure(
    results: Results,
    /,
    *,
    kind: Literal["scatter", "exploration"] = "scatter",
    out: Path = Path("figure.png"),
) -> int:
    """Draw some results: reward against cost of every method, or the cost of every trial of the safe searches.

    For target against actual returns see `lifesafe alignment`.

    Examples:
        lifesafe bench figure runs/bench-cpu --out scatter.png
        lifesafe bench figure runs/bench-cpu --kind exploration --out exploration.pdf

    Exit codes: 0 done, 2 an error.

    Args:
        results: Directories of suites, or JSON files of rows.
        kind: What to draw.
        out: File to write, .png, .pdf or .svg.
    """
    from lifesafe.benchmark.results import read_rows
    from lifesafe.report.bench_figures import draw_exploration, draw_scatter
    from lifesafe.report.figures import save

    rows = [row for each in _given(results) for row in read_rows(each)]
    save((draw_scatter if kind == "scatter" else draw_exploration)(rows), out)
    print(f"Figure: {out}")
    return OK


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


def _say(event: Event) -> None:
    words = {
        "begun": "begun",
        "done": "done",
        "failed": "FAILED",
        "retried": "failed, begun again",
        "found": "done before",
    }
    reason = f": {event.reason}" if event.reason else ""
    say(f"[{event.finished}/{event.total}] {event.job.name} {words[event.state]}{reason}")
