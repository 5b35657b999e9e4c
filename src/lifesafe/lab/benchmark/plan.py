"""What a suite will cost before it is begun: processor time of its jobs, and wall-clock time on some machines.

A job computes on one thread. Machines take jobs in the order of the suite, each as soon as a place is free, which is
what the runner does; where there are more places than cores, jobs share the cores evenly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.costs import Costs
from lifesafe.lab.benchmark.results import Row
from lifesafe.lab.benchmark.suite import PLS, Job, Suite
from lifesafe.safety.ledger import EPISODES
from lifesafe.systems import task as find_task


@dataclass(frozen=True)
class Estimate:
    """What a job will take.

    Attributes:
        job: Which.
        seconds: Of one processor.
        basis: Whether a job like it was run, or its parts were measured with these settings or with others.
    """

    job: Job
    seconds: float
    basis: str


RUN, PARTS, SCALED = "run", "parts", "scaled"


@dataclass(frozen=True)
class Outlook:
    """How jobs go on some machines.

    Attributes:
        machines: How many.
        wall: Seconds from the first start to the last end.
        utilization: Processor time of the jobs as a share of that of the machines until then.
        bound: Seconds that no schedule can go below: those of the longest job, or all evenly spread.
    """

    machines: int
    wall: float
    utilization: float
    bound: float


def estimates(suite: Suite, costs: Costs, rows: Iterable[Row] = ()) -> list[Estimate]:
    """Return what each job of a suite will take, in the order they are begun.

    Args:
        suite: Of which.
        costs: What the parts of jobs cost.
        rows: Results of jobs that were run. A job for whose task and method there are some, trained for as many
            steps, takes as long as they did on average; rows tell no other settings, so these must be the same.

    Raises:
        ConfigError: If there is a job of which neither is known.
    """
    known = _times(suite, list(rows))
    found = []
    for job in suite.jobs():
        like = known.get(_kind(job))
        found.append(_from_parts(job, suite, costs) if like is None else Estimate(job, costs.start + like, RUN))
    return found


def outlook(seconds: Sequence[float], *, machines: int, cores: int, places: int) -> Outlook:
    """Return how jobs go, begun in the order given.

    Args:
        seconds: What each takes alone.
        machines: How many there are.
        cores: Of each machine.
        places: How many jobs a machine runs at once; with more than it has cores, each is slower.
    """
    if not seconds or min(machines, cores, places) < 1:
        raise ConfigError(
            "An outlook needs at least 1 job, machine, core and place on each;"
            f" got {len(seconds)}, {machines}, {cores}, {places}."
        )
    now, waiting = 0.0, list(reversed(seconds))
    running: list[list[float]] = [[] for _ in range(machines)]  # what each job still needs, by machine
    while waiting or any(running):
        while waiting and len(least := min(running, key=len)) < places:
            least.append(waiting.pop())
        slowness = [max(1.0, len(jobs) / cores) for jobs in running]
        step = min(min(jobs) * slow for jobs, slow in zip(running, slowness, strict=True) if jobs)
        now += step
        # A part in a billion: rounding must not keep what has ended.
        running = [
            [left - step / slow for left in jobs if left - step / slow > 1e-9 * (1 + now)]
            for jobs, slow in zip(running, slowness, strict=True)
        ]
    total = math.fsum(seconds)
    processors = machines * cores
    return Outlook(machines, now, total / (now * processors), max(*seconds, total / processors))


def places(cores: int, cpus: float) -> int:
    """Return how many jobs that ask for so many processors each fit on a machine.

    Raises:
        ConfigError: If not one does.
    """
    if not cpus > 0:
        raise ConfigError(f"A job asks for more than 0 processors; got cpus = {cpus}.")
    fit = math.floor(cores / cpus + 1e-9)
    if fit < 1:
        raise ConfigError(f"A job that asks for {cpus:g} processors fits on no machine with {cores} cores.")
    return fit


def _from_parts(job: Job, suite: Suite, costs: Costs) -> Estimate:
    """Return what a job takes, from what its parts cost."""
    config = suite.config(job)
    method = "cdt" if job.method == PLS else job.method
    step, exact = costs.gradient(method, *_size(config))
    grid, horizon = suite.grid, find_task(job.task).horizon
    episodes, trials = grid.episodes * len(job.limits), 0
    if job.method == PLS:
        episodes *= 2  # at the end those of the search, and those without it
        episodes += suite.search.episodes * len(job.limits)
        trials = math.ceil(suite.search.episodes / EPISODES) * len(job.limits)
    rest = costs.start + trials * costs.trial + episodes * horizon / 1000 * costs.steps(job.task, method)
    return Estimate(job, config.steps * step + rest, PARTS if exact else SCALED)


def _size(config: object) -> tuple[int, int]:
    """Return batch and width of a training."""
    return config.batch, config.width  # type: ignore[attr-defined]  # all methods have them


def _times(suite: Suite, rows: Sequence[Row]) -> dict[tuple[str, str, int], float]:
    """Return what jobs took after their start, by kind: means over those whose rows are whole."""
    by_key = {(row.task, row.method, row.limit, row.seed): row for row in rows}
    kinds: dict[tuple[str, str, int], list[float]] = {}
    for job in (job for job in suite.jobs() if job.seed == 0):  # whatever the seed of the rows
        methods = (PLS, "cdt") if job.method == PLS else (job.method,)
        for seed in sorted({row.seed for row in rows if (row.task, row.method) == (job.task, job.method)}):
            of_job = [by_key.get((job.task, method, limit, seed)) for limit in job.limits for method in methods]
            whole = [row for row in of_job if row is not None and row.steps == suite.config(job).steps]
            rest = [row.seconds for row in whole if row.seconds is not None]
            if len(rest) == len(of_job):
                kinds.setdefault(_kind(job), []).append(whole[0].training_seconds + math.fsum(rest))
    return {kind: math.fsum(times) / len(times) for kind, times in kinds.items()}


def _kind(job: Job) -> tuple[str, str, int]:
    return job.task, job.method, len(job.limits)
