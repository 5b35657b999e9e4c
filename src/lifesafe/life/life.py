"""Lifetime: train, optimize, operate; resumable at any moment, from what is on disk.

The directory holds `run.toml` (what the run was begun with), `policy/` and `training/` (see `lifesafe.policies.train`)
and `journal.sqlite` (every trial and every episode served). In which phase a life is follows from them; nothing else
is remembered, so there is nothing to get out of step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from lifesafe._config import from_plain, to_plain
from lifesafe._random import integer
from lifesafe.data import Dataset, read_dsrl
from lifesafe.errors import ConfigError, DatasetError, TrialError
from lifesafe.interfaces import Policy
from lifesafe.journal.store import JOURNAL, read_records
from lifesafe.life import manifest as manifests
from lifesafe.life.search import Search
from lifesafe.life.trials import asked, run_trial
from lifesafe.operation import Alarm, Operation
from lifesafe.policies import Progress as TrainingProgress
from lifesafe.policies import load, train
from lifesafe.policies.checkpoint import MANIFEST as POLICY_MANIFEST
from lifesafe.policies.checkpoint import config_class, kind_of_config
from lifesafe.policies.learner import LearnerConfig
from lifesafe.policies.training import trained_as
from lifesafe.policies.training_state import Identity
from lifesafe.preparation.limits import change_limits
from lifesafe.returns import Returns
from lifesafe.safety import Problem, Recommendation, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS
from lifesafe.safety.beliefs import opened_problem
from lifesafe.safety.problem import Target, floats
from lifesafe.systems import Evaluator, Task, check_costs, from_recipe, recipe
from lifesafe.systems import task as find_task

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
class Served:
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
    alarm: Alarm | None
    next_target: Target | None


class Lifetime:
    """A life in a directory. Use it as a context, or close it: the record on disk has one writer at a time.

    Made by `Lifetime.open`.
    """

    def __init__(
        self,
        directory: Path,
        task: Task,
        config: LearnerConfig,
        *,
        data: Dataset | Path | None,
        seed: int,
        search: Search,
        workers: int,
    ) -> None:
        self.directory, self.task, self.config, self.seed = directory, task, config, seed
        self.search = search
        self._data, self._workers = data, workers
        self._fingerprint: str | None = None
        self._policy: Policy | None = None
        self._optimizer: SafeOptimizer | None = None
        self._evaluator: Evaluator | None = None

    @classmethod
    def open(
        cls,
        directory: str | Path,
        task: Task | None = None,
        config: LearnerConfig | None = None,
        *,
        data: Dataset | str | Path | None = None,
        seed: int | None = None,
        search: Search | None = None,
        workers: int = 0,
    ) -> Self:
        """Begin a life in a directory, or go on with the one there.

        To go on, only the directory is needed; what else is given must be what the life was begun with. A cost that is
        a function, and options of an environment, have no name: lifesafe cannot check that they are the same; you must.

        Args:
            directory: Where everything is kept.
            task: What to do, and under which limits.
            config: The method that trains the policy, and its settings: `CDTConfig()` unless given.
            data: The logs: a dataset, or a file in DSRL's layout; the task's own data unless given.
            seed: Decides everything that is random; 0 unless given.
            search: How the target is searched, and what is promised on the way: `Search()` unless given.
            workers: Processes that run episodes; 0 for none but this one.

        Raises:
            ConfigError: If there is no run and no task is given, the run was begun otherwise, or the policy in the
                directory was trained otherwise.
            CheckpointError: If that policy does not say how it was trained.
            DatasetError: If the logs are too few to search by, none keeps the limits, or a step in them costs less
                than nothing or more than the task says is possible.
            NoSafeTargetError: If the logs tell of no target to begin with.
        """
        directory = Path(directory)
        recorded = manifests.read_manifest(directory)
        known = None
        if recorded is not None:
            known = recorded["data"]["fingerprint"]
            task, config = task or _task_of(recorded, directory), config or _config_of(recorded)
            data = data if data is not None else recorded["data"].get("file")
            seed = recorded["run"]["seed"] if seed is None else seed
            search = search or from_plain(Search, recorded["search"], manifests.NAME)
        if task is None and (directory / JOURNAL).exists():
            raise ConfigError(
                f"The run in {directory} was begun by `lifesafe ask` or SafeOptimizer, and knows no environment to run"
                " episodes in. Go on with `lifesafe ask` and `lifesafe tell`, or in Python: SafeOptimizer.change_limits"
                " for other limits, Operation to serve its best target."
            )
        if task is None:
            raise ConfigError(f"There is no run in {directory}; give a task to begin one.")
        if config is None:
            from lifesafe.policies import CDTConfig

            config = CDTConfig()
        life = cls(
            directory,
            task,
            config,
            data=Path(data) if isinstance(data, str) else data,
            seed=0 if seed is None else seed,
            search=(search or Search()).for_costs(len(task.limits)),
            workers=workers,
        )
        life._fingerprint = known or life._dataset().fingerprint
        if recorded is None:  # what cannot be searched is refused now, and not after hours of training
            life._check_record(life._problem())
            check_costs(task)
            life._check_policy()
        manifests.begin(directory, life._manifest())
        life._check_policy()
        return life

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

    def train(self, progress: Callable[[TrainingProgress], None] | None = None, **options: Any) -> Policy:
        """Return the trained policy, training it first or going on with that if needed.

        Args:
            progress: Called as training goes on.
            **options: Further ones of `lifesafe.policies.train`: device, compile, log.
        """
        if self._policy is None:
            if self._has_policy():
                self._check_policy()
                self._policy = load(self.directory / "policy")
            else:
                self._policy = train(
                    self.config,
                    self._dataset(),
                    seed=self.seed,
                    directory=self.directory,
                    progress=progress,
                    **options,
                )
        return self._policy

    def optimize(self, progress: Callable[[SafeOptimizer, int, int], None] | None = None) -> Recommendation | None:
        """Try targets until the search is done or held, and return the one to operate; none if none is fit for it.

        Args:
            progress: Called with the optimizer and, within a trial, the episodes done and asked for; 0 and 0 when a
                trial has been told.

        Raises:
            NoSafeTargetError: If every start has failed.
        """
        evaluator, optimizer = self.evaluator, self.optimizer
        self._operation().settle()  # what an alarm has shown decides what is tried
        while trial := optimizer.ask():
            episodes = run_trial(
                evaluator,
                optimizer,
                trial,
                self.seed,
                None if progress is None else lambda done, asked: progress(optimizer, done, asked),
            )
            optimizer.tell(trial, episodes)
            if progress is not None:
                progress(optimizer, 0, 0)
        return optimizer.best

    def change_limits(self, limits: float | Sequence[float]) -> None:
        """Go on under other limits with everything observed so far; `optimize` then finds the best target for them.

        Under lower limits the search starts from the targets that were tried and are known to keep them.

        Raises:
            ConfigError: If the limits are impossible, or not one per cost.
            NoSafeTargetError: If no target that was tried is known to keep the new limits.
            TrialError: If a trial is open.
        """
        values = floats(limits)
        if len(values) != len(self.task.limits):
            raise ConfigError(f"Got {len(values)} limits for {len(self.task.limits)} costs; give one limit per cost.")
        if values != self.optimizer.problem.limits:
            change_limits(self.optimizer, values)

    def operate(self, episodes: int | None = None, *, together: int = _CHUNK) -> Iterator[Served]:
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
            seeds = [integer(self.seed, "operate", first + i) for i in range(count)]
            returns = self.evaluator.run([target] * count, seeds).returns
            verdict = operation.tell(returns)
            left = None if left is None else left - count
            for i, each in enumerate(returns):
                last = i == count - 1
                yield Served(first + i + 1, target, each, verdict.alarm if last else None, verdict.next_target)

    @property
    def served(self) -> int:
        """Episodes of operation so far."""
        return self.optimizer.history.served

    @property
    def evaluator(self) -> Evaluator:
        """Runs episodes of the trained policy, ended where the search says so."""
        if self._evaluator is None:
            stop_at = self.search.stop_at
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
        own = Identity(type(self.config).__name__, to_plain(self.config), self._fingerprint, self.seed)
        trained = trained_as(self.directory)
        if trained.method == own.method:  # settings that came later have their defaults there
            config = to_plain(from_plain(type(self.config), trained.config, str(self.directory / "policy")))
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
        return Operation(self.optimizer, self.search.level)

    def _problem(self) -> Problem:
        return self.search.problem(self.task, self._dataset(), relabeled=_relabels(self.config), seed=self.seed)

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

    def _manifest(self) -> dict[str, Any]:
        file = None if self._data is None or isinstance(self._data, Dataset) else str(self._data)
        return {
            "run": {
                "task": self.task.name,
                "limits": list(self.task.limits),
                "horizon": self.task.horizon,
                "largest_costs": list(self.task.largest_costs),
                "seed": self.seed,
            },
            **_environment(self.task),
            "search": to_plain(self.search),
            "data": {"file": file, "fingerprint": self._fingerprint},
            "policy": {"kind": kind_of_config(self.config), "config": to_plain(self.config)},
        }


def _environment(task: Task) -> dict[str, Any]:
    made = recipe(task)
    return {} if made is None else {"environment": made}


def _relabels(config: LearnerConfig) -> bool:
    """Return whether a policy learns from relabeled episodes to keep the cost when asked for all reward at none.

    OSRL's rule relabels hardly any of a few hundred episodes.
    """
    from lifesafe.policies import CDTConfig

    return isinstance(config, CDTConfig) and config.augmentation.fraction > 0 and config.augmentation.rule == "front"


def _task_of(recorded: Mapping[str, Any], directory: Path) -> Task:
    limits = tuple(recorded["run"]["limits"])
    if "environment" in recorded:
        return from_recipe(recorded["environment"], limits)
    try:
        return find_task(recorded["run"]["task"], limits=limits)
    except LookupError as error:
        raise ConfigError(
            f"The run in {directory} is about the task {recorded['run']['task']!r}, which is not registered here;"
            " give the task, or register it first."
        ) from error


def _config_of(recorded: Mapping[str, Any]) -> LearnerConfig:
    cls = config_class(recorded["policy"]["kind"])
    config: LearnerConfig = from_plain(cls, recorded["policy"]["config"], manifests.NAME)
    return config
