"""Lifetime: train, optimize, operate; resumable at any moment, from what is on disk.

The directory holds `run.toml` (what the run was begun with), `policy/` and `training/` (see `lifesafe.policies.train`)
and `journal.sqlite` (every trial and every episode served). In which phase a life is follows from them; nothing else
is remembered, so there is nothing to get out of step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from lifesafe._config import from_plain, to_plain
from lifesafe._random import integer
from lifesafe.data import Dataset, read_dsrl
from lifesafe.errors import ConfigError, DatasetError, TrialError
from lifesafe.interfaces import Policy, Report
from lifesafe.journal.store import JOURNAL, read_records
from lifesafe.life import manifest as manifests
from lifesafe.life.plan import Plan
from lifesafe.life.trials import asked, run_trial, searched
from lifesafe.operation import Excess, Operation
from lifesafe.policies import load, train
from lifesafe.policies.checkpoint import MANIFEST as POLICY_MANIFEST
from lifesafe.policies.training import trained_as
from lifesafe.policies.training_state import Identity
from lifesafe.preparation.limits import change_limits
from lifesafe.returns import Returns, per_cost
from lifesafe.safety import Problem, Recommendation, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS
from lifesafe.safety.beliefs import opened_problem
from lifesafe.safety.problem import Target
from lifesafe.systems import Evaluator, Task, check_costs

_CHUNK = 10  # episodes of operation that run side by side


class Phase(StrEnum):
    """Where a life is."""

    TRAIN = "train"
    """There is no policy yet."""
    OPTIMIZE = "optimize"
    """Targets are being tried, and none is served yet."""
    OPERATE = "operate"
    """A certified target can be served."""
    HALTED = "halted"
    """No target may be served."""


@dataclass(frozen=True)
class ServedEpisode:
    """One episode of operation.

    Attributes:
        episode: Its number, from 1.
        target: What was asked for.
        returns: What it returned.
        alarm: The alarm that the watch raised with the episodes of this batch, on the last of them.
        next_target: What is asked for from now on; none once halted.
    """

    episode: int
    target: Returns
    returns: Returns
    alarm: Excess | None
    next_target: Target | None


class Lifetime:
    """A life in a directory. Use it as a context, or close it: the record on disk has one writer at a time.

    Made by `Lifetime.open`.
    """

    def __init__(self, directory: Path, plan: Plan, data: Dataset | Path | None, workers: int) -> None:
        self.directory, self.plan = directory, plan
        self._data, self._workers = data, workers
        self._fingerprint: str | None = None
        self._policy: Policy | None = None
        self._optimizer: SafeOptimizer | None = None
        self._evaluator: Evaluator | None = None

    @classmethod
    def open(
        cls,
        directory: str | Path,
        plan: Plan | None = None,
        *,
        data: Dataset | str | Path | None = None,
        workers: int = 0,
    ) -> Self:
        """Begin a life in a directory, or go on with the one there.

        To go on, only the directory is needed; what else is given must be what the life was begun with. A cost that is
        a function, and options of an environment, have no name: lifesafe cannot check that they are the same; you must.

        Args:
            directory: Where everything is kept.
            plan: What to do, and all settings.
            data: The logs: a dataset, or a file in DSRL's layout; the task's own data unless given.
            workers: Processes that run episodes; 0 for none but this one.

        Raises:
            ConfigError: If there is no run and no plan is given, the run was begun otherwise, or the policy in the
                directory was trained otherwise.
            CheckpointError: If that policy does not say how it was trained.
            DatasetError: If the logs are too few to search by, none keeps the limits, or a step in them costs less
                than nothing or more than the task says is possible.
            NoSafeTargetError: If the logs tell of no target to begin with.
        """
        directory = Path(directory)
        recorded = manifests.read_run_toml(directory)
        if recorded is not None:
            plan = plan or Plan.from_plain(recorded, str(directory / manifests.NAME))
            data = data if data is not None else recorded["data"].get("file")
        if plan is None and (directory / JOURNAL).exists():
            raise ConfigError(
                f"The run in {directory} was begun by `lifesafe ask` or SafeOptimizer, and knows no environment to run"
                " episodes in. Go on with `lifesafe ask` and `lifesafe tell`, or in Python: SafeOptimizer.change_limits"
                " for other limits, Operation to serve its best target."
            )
        if plan is None:
            raise ConfigError(f"There is no run in {directory}; give a plan to begin one.")
        life = cls(directory, plan, Path(data) if isinstance(data, str) else data, workers)
        if recorded is None:  # what cannot be searched is refused now, and not after hours of training
            life._fingerprint = life._dataset().fingerprint
            life._check_record(life._problem())
            check_costs(plan.task)
            life._check_policy()
        else:
            life._fingerprint = recorded["data"]["fingerprint"]
        file = None if life._data is None or isinstance(life._data, Dataset) else str(life._data)
        manifests.begin(directory, plan.to_plain() | {"data": {"file": file, "fingerprint": life._fingerprint}})
        life._check_policy()
        return life

    @property
    def task(self) -> Task:
        """What to do, and under which limits."""
        return self.plan.task

    @property
    def phase(self) -> Phase:
        """Where the life is."""
        if not self._has_policy():
            return Phase.TRAIN
        operation = self._operation()
        if operation.target is None and self.optimizer.stage not in ("done", "held"):
            return Phase.OPTIMIZE
        served = operation.target is not None or self.optimizer.best is not None
        return Phase.OPERATE if served and operation.halted is None else Phase.HALTED

    @property
    def problem(self) -> Problem:
        """What is searched, and what is promised on the way; before the search has begun, as it will be."""
        return self.optimizer.problem if self.has_search else self._problem()

    @property
    def has_search(self) -> bool:
        """Whether the search has begun."""
        journal = self.directory / JOURNAL
        return self._optimizer is not None or (journal.exists() and bool(read_records(journal, everything=False)))

    @property
    def optimizer(self) -> SafeOptimizer:
        """What decides which target is tried; its record is in the directory."""
        if self._optimizer is None:
            self._optimizer = SafeOptimizer.open(self.directory, None if self.has_search else self._problem())
        return self._optimizer

    def train(self, report: Report | None = None, **options: Any) -> Policy:
        """Return the trained policy, training it first or going on with that if needed.

        Args:
            report: Called as training goes on.
            **options: Further ones of `lifesafe.policies.train`: device, compile, threads.
        """
        if self._policy is None:
            if self._has_policy():
                self._check_policy()
                self._policy = load(self.directory / "policy")
            else:
                self._policy = train(
                    self.plan.method,
                    self._dataset(),
                    seed=self.plan.seed,
                    directory=self.directory,
                    report=report,
                    **options,
                )
        return self._policy

    def optimize(self, progress: Report | None = None) -> Recommendation | None:
        """Try targets until the search is done or held, and return the one to operate; none if none is fit for it.

        Args:
            progress: Called within a trial, and after it was told, with the episodes that were searched in all.

        Raises:
            NoSafeTargetError: If every start has failed.
        """
        evaluator, optimizer = self.evaluator, self.optimizer
        self._operation().settle()  # what an alarm has shown decides what is tried
        while trial := optimizer.ask():
            optimizer.tell(trial, run_trial(evaluator, optimizer, trial, self.plan.seed, progress))
            if progress is not None:
                progress(searched(optimizer))
        return optimizer.best

    def change_limits(self, limits: float | Sequence[float]) -> None:
        """Go on under other limits with everything observed so far; `optimize` then finds the best target for them.

        Under lower limits the search starts from the targets that were tried and are known to keep them.

        Raises:
            ConfigError: If the limits are impossible, or not one per cost.
            NoSafeTargetError: If no target that was tried is known to keep the new limits.
            TrialError: If a trial is open.
        """
        values = per_cost("limits", limits)
        if len(values) != len(self.task.limits):
            raise ConfigError(f"Got {len(values)} limits for {len(self.task.limits)} costs; give one limit per cost.")
        if values != self.optimizer.problem.limits:
            change_limits(self.optimizer, values)

    def operate(self, episodes: int | None = None, *, together: int = _CHUNK) -> Iterator[ServedEpisode]:
        """Serve the best target, episode by episode, and fall back to safer ones when the watch raises an alarm.

        Ends after so many episodes, or when operation has halted; without a number, only then.

        Args:
            episodes: How many further episodes; unless given, for ever.
            together: How many run side by side; the watch judges them when all have ended.

        Raises:
            NoSafeTargetError: If no target is fit to be operated.
            TrialError: If a trial is open that the account pays for.
        """
        opened = self.optimizer.history.open
        if opened is not None and opened.asked.stage in NEWCOMERS:
            raise TrialError(
                f"Trial {opened.number} is open and may spend what the account holds; call optimize() first, which runs"
                " it again and tells it."
            )
        operation, left = self._operation(), episodes
        operation.begin()
        while operation.target is not None and left != 0:
            count = together if left is None else min(together, left)
            first, target = operation.episodes, asked(operation.target)
            seeds = [integer(self.plan.seed, "operate", first + i) for i in range(count)]
            returns = self.evaluator.run([target] * count, seeds).returns
            verdict = operation.tell(returns)
            left = None if left is None else left - count
            for i, each in enumerate(returns):
                last = i == count - 1
                yield ServedEpisode(first + i + 1, target, each, verdict.alarm if last else None, verdict.next_target)

    @property
    def served(self) -> int:
        """Episodes of operation so far."""
        return self.optimizer.history.served

    @property
    def evaluator(self) -> Evaluator:
        """Runs episodes of the trained policy, ended where the search says so."""
        if self._evaluator is None:
            stop_at = self.plan.search.stop_at
            self._evaluator = Evaluator(self.train(), self.task, workers=self._workers, stop_at=stop_at)
        return self._evaluator

    def close(self) -> None:
        """Close the record and the environments."""
        if self._optimizer is not None:
            self._optimizer.close()
        if self._evaluator is not None:
            self._evaluator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _has_policy(self) -> bool:
        return (self.directory / "policy" / POLICY_MANIFEST).exists()

    def _check_policy(self) -> None:
        """Refuse a policy that another training has left here: what trials have shown would not hold for it."""
        if not self._has_policy():
            return
        assert self._fingerprint is not None
        method = self.plan.method
        own = Identity(type(method).__name__, to_plain(method), self._fingerprint, self.plan.seed)
        trained = trained_as(self.directory)
        if trained.method == own.method:  # settings that came later have their defaults there
            config = to_plain(from_plain(type(method), trained.config, str(self.directory / "policy")))
            trained = replace(trained, config=config)
        own.check(trained.plain(), self.directory / "policy")

    def _check_record(self, problem: Problem) -> None:
        """Refuse the record of another search: its trials say nothing about this life."""
        journal = self.directory / JOURNAL
        records = read_records(journal, everything=False)[:1] if journal.exists() else []
        if records and opened_problem(records).fingerprint != problem.fingerprint:
            raise ConfigError(
                f"{self.directory} holds the record of another search, begun by `lifesafe ask` or SafeOptimizer. Give"
                " another directory to begin a life in."
            )

    def _operation(self) -> Operation:
        return Operation(self.optimizer, self.plan.level)

    def _problem(self) -> Problem:
        return self.plan.problem(self._dataset())

    def _dataset(self) -> Dataset:
        if not isinstance(self._data, Dataset):
            self._data = self.task.dataset() if self._data is None else read_dsrl(self._data)
        self.task.check(self._data)
        if self._fingerprint is not None and self._data.fingerprint != self._fingerprint:
            raise DatasetError(
                f"The run in {self.directory} was begun with the data {self._fingerprint[:8]}; those given are"
                f" {self._data.fingerprint[:8]}. Give the original data, or another directory."
            )
        return self._data
