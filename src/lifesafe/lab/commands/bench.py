"""The paper's comparison from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional

from lifesafe.console import FAILED, OK, Count, Directory, OutFile, Word, option, print_json, say, table
from lifesafe.errors import ConfigError
from lifesafe.lab.commands.watching import watched

if TYPE_CHECKING:
    from lifesafe.lab.benchmark.costs import Costs
    from lifesafe.lab.benchmark.plan import Estimate
    from lifesafe.lab.benchmark.suite import Suite

Tasks = Annotated[tuple[str, ...], option("TASK")]
Methods = Annotated[tuple[str, ...], option("METHOD")]
Limits = Annotated[tuple[float, ...], option("NUMBER")]
SuiteName = Annotated[str, Positional, option("SUITE")]
Results = Annotated[tuple[Path, ...], Positional, option("RESULTS")]


def bench_run(
    suite: SuiteName,
    /,
    *,
    data: Directory = None,
    tasks: Tasks = (),
    methods: Methods = (),
    limit: Limits = (),
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
    with watched(directory) as progress:
        failed = run_suite(chosen, directory, pool, attempts=attempts, progress=progress)
    for job in failed:
        say(f"{job.name} failed; its error is in {directory / 'jobs' / job.name / 'error.txt'}.")
    print(f"Results: {directory}")
    return FAILED if failed else OK


def bench_plan(
    suite: SuiteName,
    /,
    *,
    tasks: Tasks = (),
    methods: Methods = (),
    limit: Limits = (),
    seeds: Count = None,
    machines: Annotated[tuple[int, ...], option("NUMBER")] = (1, 4, 16, 64),
    cores: int = 8,
    cpus: float = 1.0,
    measured: Directory = None,
    json: bool = False,
) -> int:
    """Say what a suite costs before it is begun: processor time of its jobs, wall-clock time on some machines.

    The times of jobs are put together from what gradient steps and episodes cost on one thread of one machine, or taken
    from jobs that were run. Your machines may be faster or slower; GPUs were not measured. They then take the jobs in
    the order in which `lifesafe bench run` begins them. Nothing is run, and failures are not foreseen.

    Examples:
        lifesafe bench plan paper
        lifesafe bench plan cpu --tasks HopperVelocity CarCircle --seeds 1 --machines 1 --cores 2
        lifesafe bench plan cpu --measured runs/bench-cpu

    Exit codes: 0 done, 2 an error.

    Args:
        suite: Name of a suite, or a TOML file.
        tasks: Only these tasks; all of the suite unless given.
        methods: Only these methods; all of the suite unless given.
        limit: Only these limits; all of the suite unless given.
        seeds: So many seeds instead of the suite's.
        machines: Numbers of machines.
        cores: Cores of each machine.
        cpus: Processors that each job asks for. It computes on one: with less than 1 jobs share cores, with more some
            cores idle.
        measured: Directory of results of the same suite, or of a part of it; their times count for jobs like them.
        json: Print the numbers as JSON instead, times in seconds.
    """
    from dataclasses import asdict

    from lifesafe.lab.benchmark.costs import measured_costs
    from lifesafe.lab.benchmark.plan import estimates, outlook, places
    from lifesafe.lab.benchmark.results import read_rows

    chosen, costs = _part(suite, tasks, methods, limit, seeds), measured_costs()
    found = estimates(chosen, costs, () if measured is None else read_rows(measured))
    seconds, fit = [each.seconds for each in found], places(cores, cpus)
    outlooks = [outlook(seconds, machines=each, cores=cores, places=fit) for each in machines]
    if json:
        jobs = [{"job": each.job.name, "seconds": each.seconds, "basis": each.basis} for each in found]
        print_json({"jobs": jobs, "outlooks": [asdict(each) for each in outlooks], "costs": costs.source})
        return OK
    (unit, (total,)), (short, (longest,)) = _times([sum(seconds)]), _times([max(seconds)])
    print(f"{chosen.name}: {len(found)} jobs, {total} processor {unit}; the longest job takes {longest} {short}.")
    print("\n" + table(_by_method(found)))
    asks = f"each job asks for {cpus:g} processor{'' if cpus == 1 else 's'}"
    print(f"\nOn machines with {cores} cores, {fit} job{'' if fit == 1 else 's'} at once on each ({asks}):")
    unit, walls = _times([each.wall for each in outlooks] + [each.bound for each in outlooks])
    busy = [f"{100 * each.utilization:.0f}" for each in outlooks]
    columns = ([str(each) for each in machines], walls[: len(outlooks)], walls[len(outlooks) :], busy)
    print(table([("machines", f"wall-clock {unit}", "at best", "cores busy %"), *zip(*columns, strict=True)]))
    say("\n" + "\n".join(_bases(found, costs, measured)))
    return OK


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

    The same results always give the same text. A summary follows in Markdown and HTML: how often each method is safe,
    what its search took, and means over everything with bootstrap intervals. With --published, the paper's own numbers
    for these tasks and limits follow, too; they are from the public data, and comparable only as far as yours are.

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
    from lifesafe.lab.benchmark.documents import document
    from lifesafe.lab.benchmark.results import read_rows
    from lifesafe.lab.benchmark.summaries import sections, summary

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
        say("\n".join(f"{table(section.words)}\n{section.note}\n" for section in sections(rows)))
    return OK


def bench_figure(
    results: Results,
    /,
    *,
    kind: Literal["scatter", "exploration"] = "scatter",
    out: Path = Path("figure.png"),
) -> int:
    """Draw some results: reward against cost of every method, or the cost of every trial of the safe searches.

    For target against actual returns, which needs more episodes, see `lifesafe alignment --policy`.

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
    from lifesafe.lab.figures import save
    from lifesafe.lab.figures.bench import draw_exploration, draw_scatter

    rows = read_rows(*_given(results))
    save((draw_scatter if kind == "scatter" else draw_exploration)(rows), out)
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


def _by_method(found: list[Estimate]) -> list[tuple[str, ...]]:
    """Return what the jobs of each method take, as rows of words."""
    from lifesafe.lab.benchmark.suite import PLS
    from lifesafe.lab.benchmark.tables import NAMES

    times: dict[str, list[float]] = {}
    for each in found:
        times.setdefault(each.job.method, []).append(each.seconds)
    names = ["PLS and CDT" if method == PLS else NAMES.get(method, method) for method in times]
    counts = [str(len(of)) for of in times.values()]
    unit, jobs = _times([sum(of) / len(of) for of in times.values()] + [max(of) for of in times.values()])
    large, totals = _times([sum(of) for of in times.values()])
    heading = ("method", "jobs", f"{unit} a job", "longest", f"processor {large}")
    return [heading, *zip(names, counts, jobs[: len(times)], jobs[len(times) :], totals, strict=True)]


def _times(seconds: list[float]) -> tuple[str, list[str]]:
    """Return the unit in which some times read well, and the times in it."""
    units = (("hours", 3600), ("minutes", 60), ("seconds", 1))
    unit, scale = next((unit for unit in units if max(seconds) >= unit[1]), units[-1])
    return unit, [f"{each / scale:.1f}" for each in seconds]


def _bases(found: list[Estimate], costs: Costs, measured: Path | None) -> list[str]:
    """Return where the times come from, in words."""
    from lifesafe.lab.benchmark.plan import PARTS, RUN, SCALED

    counts = {basis: sum(each.basis == basis for each in found) for basis in (RUN, PARTS, SCALED)}
    lines = [f"{counts[RUN]} of {len(found)} jobs: times of jobs like them in {measured}."] if measured else []
    if counts[PARTS] or counts[SCALED]:
        scaled = sorted({each.job.method for each in found if each.basis == SCALED})
        lines.append(
            f"{counts[PARTS] + counts[SCALED]} of {len(found)} jobs: from their parts, measured on {costs.machine}."
        )
        if scaled:
            lines.append(f"Roughly, since batch or width were measured otherwise: {', '.join(scaled)}.")
        lines.append("Episodes count in full length, searches with all their trials.")
    return lines


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
