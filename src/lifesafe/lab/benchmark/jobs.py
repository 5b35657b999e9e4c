"""Run a job: train, then measure; what is done is on disk, so that a killed job goes on.

The protocol: the weights at the end of a training are taken, whatever they do on the system; a policy that can be asked
is asked for the most reward in its data at a cost of just the limit; every episode of a safe search is counted. Where
the search ends episodes at a cost, those of its target at the end are ended there, too.
"""

from __future__ import annotations

import csv
import importlib.util
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from lifesafe._random import integer
from lifesafe.data import Dataset, read_dsrl, read_source
from lifesafe.errors import NoSafeTargetError
from lifesafe.interfaces import Policy, Progress, Report
from lifesafe.journal import JOURNAL
from lifesafe.lab.benchmark.results import Row
from lifesafe.lab.benchmark.suite import Job, Suite
from lifesafe.lab.commands.methods import on_training
from lifesafe.lab.methods import METHODS, PLS
from lifesafe.life import Lifetime, Plan, Search
from lifesafe.life.trials import asked
from lifesafe.policies import train
from lifesafe.returns import Returns, returns_array
from lifesafe.systems import Evaluator, Task
from lifesafe.systems import task as find_task
from lifesafe.systems.evaluation import episode_seeds

_PACKAGES = ("lifesafe", "torch", "numpy", "gymnasium", "mujoco", "pybullet", "envpool")


def run_job(
    job: Job,
    suite: Suite,
    data: Path | None,
    directory: Path,
    *,
    device: str = "cpu",
    workers: int = 0,
    report: Report = lambda _: None,
) -> list[Row]:
    """Return the rows of a job.

    Args:
        job: What to do.
        suite: What it belongs to.
        data: The file to learn from; the task's own data unless given.
        directory: Of this job alone.
        device: Where to train.
        workers: Processes that run episodes; 0 for none but this one.
        report: Told what is being done, and how far it is.
    """
    task = find_task(job.task, limits=job.limits[0])
    dataset = task.dataset() if data is None else read_dsrl(data)
    task.check(dataset)
    work = _Work(job, suite, task, dataset, directory, device, workers, report)
    rows = [row for limit in job.limits for row in _life(work, limit)] if job.method == PLS else _baseline(work)
    versions = tuple(f"{package} {version(package)}" for package in _PACKAGES if _installed(package))
    name, source = ("", "") if data is None else (data.name, read_source(data))
    return [
        replace(
            row,
            data=name,
            fingerprint=dataset.fingerprint,
            source=source,
            settings=suite.fingerprint(job),
            versions=versions,
        )
        for row in rows
    ]


@dataclass(frozen=True)
class _Work:
    """A job and all that it needs."""

    job: Job
    suite: Suite
    task: Task
    dataset: Dataset
    directory: Path
    device: str
    workers: int
    report: Report

    def train(self, directory: Path) -> Policy:
        """Return the policy of a directory, trained as far as needed."""
        config, told = self.suite.config(self.job), on_training(self.report)
        return train(
            config,
            self.dataset,
            seed=self.job.seed,
            directory=directory,
            device=self.device,
            threads=torch.get_num_threads(),  # as the suite has set them
            report=told,
        )

    def run(
        self, policy: Policy, task: Task, target: Returns, stop_at: Sequence[float] | None = None
    ) -> Float[np.ndarray, "m r"]:
        """Return what the episodes at the end returned."""
        targets = [target] * self.suite.grid.episodes
        self.report(Progress(f"episodes under {task.limits[0]:g}", 0, len(targets)))
        with Evaluator(policy, task, workers=self.workers, stop_at=stop_at) as evaluator:
            seeds = episode_seeds(integer(self.job.seed, "evaluation"), len(targets))
            return returns_array(evaluator.run(targets, seeds).returns)


def _baseline(work: _Work) -> list[Row]:
    """Train, and run the policy under every limit."""
    job, config = work.job, work.suite.config(work.job)
    policy = work.train(work.directory)
    best = float(work.dataset.returns[:, 0].max())
    rows = []
    for limit in job.limits:
        start = time.monotonic()
        target = Returns(best, limit)
        task = work.task.with_limits(limit)
        returns = work.run(policy, task, target)
        rows.append(
            _row(
                job,
                job.method,
                task,
                returns,
                target=tuple(target) if METHODS[job.method].asked != "nothing" else (),
                steps=config.steps,
                training_seconds=_training_seconds(work.directory),
                seconds=time.monotonic() - start,
            )
        )
    return rows


def _life(work: _Work, limit: float) -> list[Row]:
    """Train, and search; return the row of the safe search, and that of the policy without it."""
    job, config = work.job, work.suite.config(work.job)
    task = work.task.with_limits(limit)
    place = work.directory / f"limit-{limit:g}"
    first = work.directory / f"limit-{job.limits[0]:g}"
    policy = work.train(first)
    if place != first and not (place / "policy").exists():  # one training serves all limits
        place.mkdir(parents=True, exist_ok=True)
        shutil.copytree(first / "policy", place / ".policy", dirs_exist_ok=True)
        (place / ".policy").rename(place / "policy")
    resumed = (place / JOURNAL).exists()
    start = time.monotonic()
    search = work.suite.search.under(limit)
    searched, best = _search(work, task, place, search)
    plain = Returns(float(work.dataset.returns[:, 0].max()), limit)
    rows = []
    more: dict[str, Any]
    for method, target, stop_at, more in ((PLS, best, search.stop_at, searched), ("cdt", plain, None, {})):
        returns = None if target is None else work.run(policy, task, target, stop_at)
        seconds, start = time.monotonic() - start, time.monotonic()
        rows.append(
            _row(
                job,
                method,
                task,
                returns,
                target=() if target is None else tuple(target),
                steps=config.steps,
                training_seconds=_training_seconds(first),
                seconds=None if method == PLS and resumed else seconds,
                **more,
            )
        )
    return rows


def _search(work: _Work, task: Task, place: Path, search: Search) -> tuple[dict[str, Any], Returns | None]:
    """Live until the search is done; return what it took, and the best target.

    Where nothing is safe there is no target, and where the logs tell of none to begin with nothing was tried either.
    """
    job, limit = work.job, task.limits[0]
    config, doing = work.suite.config(job), f"search under {limit:g}"
    about = {"promise": search.promise, "stop_at": None if search.stop_at is None else search.stop_at[0]}
    try:
        plan = Plan(task=task, method=config, search=search, seed=job.seed)
        life = Lifetime.open(place, plan, data=work.dataset, workers=work.workers)
    except NoSafeTargetError:
        return about, None
    with life:
        try:
            recommended = life.optimize(lambda state: work.report(replace(state, doing=doing)))
        except NoSafeTargetError:
            recommended = None
        trials = [trial.episodes[:, 1] for trial in life.optimizer.trials]
    means = tuple(float(costs.mean()) for costs in trials)
    return about | {
        "trials": len(trials),
        "online_episodes": sum(map(len, trials)),
        "violations": sum(mean > limit for mean in means),
        "clear_violations": sum(_is_clearly_above(costs, limit) for costs in trials),
        "trial_costs": means,
        "ended": 0 if search.stop_at is None else sum(int((costs >= search.stop_at[0]).sum()) for costs in trials),
    }, None if recommended is None else asked(recommended.target)


def _is_clearly_above(costs: Float[np.ndarray, " m"], limit: float) -> bool:
    """Return whether the mean is above a limit by more than two standard errors."""
    return len(costs) > 1 and bool(costs.mean() - 2 * costs.std(ddof=1) / len(costs) ** 0.5 > limit)


def _row(job: Job, method: str, task: Task, returns: Float[np.ndarray, "m r"] | None, **more: Any) -> Row:
    if returns is None:
        means = deviations = [None, None]
    else:
        means, deviations = returns.mean(axis=0).tolist(), returns.std(axis=0).tolist()
    return Row(
        task=job.task,
        method=method,
        limit=task.limits[0],
        seed=job.seed,
        reward=means[0],
        cost=means[1],
        reward_deviation=deviations[0],
        cost_deviation=deviations[1],
        episodes=0 if returns is None else len(returns),
        references=task.reference,
        **more,
    )


def _training_seconds(directory: Path) -> float:
    """Return how long a training took, by its log."""
    with (directory / "training" / "log.csv").open(newline="") as stream:
        return float([row["seconds"] for row in csv.DictReader(stream)][-1])


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
