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
from typing import Any, Literal, Self

from lifesafe._config import from_plain, to_plain
from lifesafe._random import integer
from lifesafe.data import Dataset, read_dsrl
from lifesafe.environments import Evaluator, Task, check_costs, from_recipe, recipe
from lifesafe.environments import task as find_task
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.interfaces import Policy
from lifesafe.lifetime import manifest as manifests
from lifesafe.lifetime.seeds import problem_of, seeds_under, skilled
from lifesafe.lifetime.simulation import check_simulator, simulate
from lifesafe.lifetime.trials import DITHER, check_largest_costs, cost_bounds, default_schedule, run_trial
from lifesafe.operation import Alarm, MonitorConfig, Operation
from lifesafe.optimizer import Problem, Recommendation, SafeOptimizer, Schedule, Stage
from lifesafe.optimizer.decision import check_steps
from lifesafe.optimizer.journal import JOURNAL, read_events
from lifesafe.policies import Progress as TrainingProgress
from lifesafe.policies import load, train
from lifesafe.policies.checkpoint import MANIFEST as POLICY_MANIFEST
from lifesafe.policies.checkpoint import config_class, kind_of_config
from lifesafe.policies.learner import LearnerConfig
from lifesafe.policies.training import trained_as
from lifesafe.policies.training_state import Identity
from lifesafe.returns import Returns

Start = Literal["data", "calm", "paper"]
_CHUNK = 10  # episodes of operation that run side by side


class Phase(StrEnum):
    """Where a life is."""

    TRAIN = "train"
    """There is no policy yet."""
    OPTIMIZE = "optimize"
    """Targets are being tried."""
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
        alarm: The alarm that the monitor raised with the episodes of this batch, on the last of them.
        next_target: What is asked for from now on; none once halted.
    """

    episode: int
    target: Returns
    returns: Returns
    alarm: Alarm | None
    next_target: Returns | None


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
        delta: float,
        schedule: Schedule,
        monitor: MonitorConfig,
        start: Start,
        dither: float,
        simulator: Task | None,
        workers: int,
    ) -> None:
        self.directory, self.task, self.config, self.seed = directory, task, config, seed
        self._data, self._delta, self._schedule = data, delta, schedule
        self._monitor, self._start, self._workers = monitor, start, workers
        self._dither, self._simulator = dither, simulator
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
        delta: float | None = None,
        schedule: Schedule | None = None,
        monitor: MonitorConfig | None = None,
        start: Start | None = None,
        dither: float | None = None,
        simulator: Task | None = None,
        workers: int = 0,
    ) -> Self:
        """Begin a life in a directory, or go on with the one there.

        To go on, only the directory is needed; what else is given must be what the life was begun with. A cost that is
        a function, and options of an environment, have no name: that they are the same is yours to see to.

        Args:
            directory: Where everything is kept.
            task: What to do, and under which limits.
            config: The method that trains the policy, and its settings: `CDTConfig()` unless given.
            data: The logs: a dataset, or a file in DSRL's layout; the task's own data unless given.
            seed: Decides everything that is random; 0 unless given.
            delta: Probability with which any trial at all may exceed a limit; 0.1 unless given.
            schedule: How targets are searched; seeds are certified by betting unless given.
            monitor: How easily operation raises an alarm.
            start: Where the search begins. With "data" a CDT that was trained on relabeled episodes is first asked
                for all reward at no cost, others as with "calm": for a middling reward of the cheap episodes, at no
                cost; that suits a CDT, too, if its training was short. The "paper" names a box for each of its tasks.
                All are certified before anything else is tried.
            dither: How much what is asked for differs from episode to episode, as a fraction of each axis; 0.05
                unless given. It lets a trial tell how near an edge is beyond which costs jump, even on a machine that
                repeats itself exactly: see `lifesafe.optimizer.dither`. A schedule of your own should have a `reach`
                no longer than it.
            simulator: A task that stands for the real one. The trained policy is run there first, and what it
                returns is the prior of the search; see `lifesafe.lifetime.simulation`.
            workers: Processes that run episodes; 0 for none but this one.

        Raises:
            ConfigError: If there is no run and no task is given, the run was begun otherwise, or the policy in the
                directory was trained otherwise.
            CheckpointError: If that policy does not say how it was trained.
            DatasetError: If the logs are too few to search by, or none keeps the limits.
            NoSafeTargetError: If the logs tell of no target to begin with.
        """
        directory = Path(directory)
        recorded = manifests.read_manifest(directory)
        known = None
        if recorded is not None:
            manifests.check_whole(recorded, directory)
            known = recorded["data"]["fingerprint"]
            task, config = task or _task_of(recorded, directory), config or _config_of(recorded)
            data = data if data is not None else _data_of(recorded)
            seed = recorded["run"]["seed"] if seed is None else seed
            delta = recorded["run"]["delta"] if delta is None else delta
            start = recorded["run"]["start"] if start is None else start
            dither = recorded["run"]["dither"] if dither is None else dither
            schedule = schedule or from_plain(Schedule, recorded.get("schedule", {}), manifests.NAME)
            monitor = monitor or from_plain(MonitorConfig, recorded.get("monitor", {}), manifests.NAME)
        if task is None and (directory / JOURNAL).exists():
            raise ConfigError(
                f"The run in {directory} was begun by `lifesafe ask` or SafeOptimizer, and knows no environment to run"
                " episodes in. Go on with `lifesafe ask` and `lifesafe tell`, or in Python: SafeOptimizer.change_limits"
                " for other limits, Operation to serve its best target."
            )
        if task is None:
            raise ConfigError(f"There is no run in {directory}; give a task to begin one.")
        if simulator is not None:
            check_simulator(simulator, task)
        if config is None:
            from lifesafe.policies import CDTConfig

            config = CDTConfig()
        dither = DITHER if dither is None else dither
        life = cls(
            directory,
            task,
            config,
            data=Path(data) if isinstance(data, str) else data,
            seed=0 if seed is None else seed,
            delta=0.1 if delta is None else delta,
            schedule=schedule or default_schedule(task, dither),
            monitor=monitor or MonitorConfig(),
            start=start or "data",
            dither=dither,
            simulator=simulator,
            workers=workers,
        )
        life._fingerprint = known or life._dataset().fingerprint
        if recorded is None:  # what cannot be searched is refused now, and not after hours of training
            check_steps(life._from_logs(), life._schedule)
            check_largest_costs(task, life._dataset())
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
        if self.optimizer.stage is not Stage.DONE:
            return Phase.OPTIMIZE
        operation = Operation(self.optimizer)
        served = operation.target is not None or self.optimizer.best is not None
        return Phase.OPERATE if served and operation.halted is None else Phase.HALTED

    @property
    def optimizer(self) -> SafeOptimizer:
        """What decides which target is tried; its record is in the directory."""
        if self._optimizer is None:
            begun = (self.directory / JOURNAL).exists()
            problem = None if begun and self._has_events() else self._problem()
            schedule = None if problem is None else self._schedule
            self._optimizer = SafeOptimizer.open(self.directory, problem, schedule)
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
        """Try targets until the search is done, and return the one to operate; none if none is fit for it.

        Args:
            progress: Called with the optimizer and, within a trial, the episodes done and asked for; 0 and 0 when a
                trial has been told.

        Raises:
            NoSafeTargetError: If every seed has failed.
        """
        evaluator, optimizer = self.evaluator, self.optimizer
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

        Under lower limits the search starts from the targets that were tried and cost least.

        Raises:
            ConfigError: If the limits are impossible, or not one per cost.
            NoSafeTargetError: If no target that was tried is known to keep the new limits.
        """
        values = tuple(float(b) for b in limits) if isinstance(limits, Sequence) else (float(limits),)
        if len(values) != len(self.task.limits):
            raise ConfigError(f"Got {len(values)} limits for {len(self.task.limits)} costs; give one limit per cost.")
        if values != self.optimizer.problem.limits:
            problem = self.optimizer.problem
            problem.with_limits(values, problem.seeds)  # refuses impossible ones
            self.optimizer.change_limits(values, seeds_under(self.optimizer, values))

    def operate(self, episodes: int | None = None, *, together: int = _CHUNK) -> Iterator[Served]:
        """Serve the best target, episode by episode, and fall back to safer ones when the monitor raises an alarm.

        Ends after so many episodes, or when operation has halted; without a number, only then.

        Args:
            episodes: How many further episodes; unless given, for ever.
            together: How many run side by side; the monitor judges them when all have ended.

        Raises:
            NoSafeTargetError: If no target is fit to be operated.
        """
        operation, left = Operation(self.optimizer, self._monitor), episodes
        operation.begin()
        while operation.target is not None and left != 0:
            count = together if left is None else min(together, left)
            first, target = operation.episodes, operation.target
            seeds = [integer(self.seed, "operate", first + i) for i in range(count)]
            returns = self.evaluator.run(operation.targets(count), seeds).returns
            verdict = operation.tell(returns)
            left = None if left is None else left - count
            for i, each in enumerate(returns):
                last = i == count - 1
                yield Served(first + i + 1, target, each, verdict.alarm if last else None, verdict.next_target)

    @property
    def served(self) -> int:
        """Episodes of operation so far."""
        return Operation(self.optimizer).episodes

    @property
    def evaluator(self) -> Evaluator:
        """Runs episodes of the trained policy."""
        if self._evaluator is None:
            self._evaluator = Evaluator(self.train(), self.task, workers=self._workers)
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

    def _has_events(self) -> bool:
        return bool(read_events(self.directory / JOURNAL))

    def _from_logs(self) -> Problem:
        problem = problem_of(
            self.task,
            self._dataset().returns,
            delta=self._delta,
            bounds=cost_bounds(self.task),
            start=self._start,
            relabeled=_relabels(self.config),
            dither=self._dither,
            seed=self.seed,
        )
        return problem if self._start == "paper" else skilled(problem, self._dataset())

    def _problem(self) -> Problem:
        problem = self._from_logs()
        # Found only now: once the search has begun, what was simulated is in its record.
        recorded = (manifests.read_manifest(self.directory) or {}).get("simulator")
        simulator = self._simulator or (None if recorded is None else _task_of(recorded, self.directory))
        if simulator is None:
            return problem
        check_simulator(simulator, self.task)
        seed = integer(self.seed, "simulation")
        return problem.with_simulated(simulate(self.train(), simulator, problem, seed=seed, workers=self._workers))

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
                "delta": self._delta,
                "start": self._start,
                "dither": self._dither,
            },
            **_environment(self.task),
            # Only if there is one: runs without it keep the manifests that they had before it existed.
            **({} if self._simulator is None else {"simulator": _simulator(self._simulator)}),
            "data": {"file": file, "fingerprint": self._fingerprint},
            "policy": {"kind": kind_of_config(self.config), "config": to_plain(self.config)},
            "schedule": to_plain(self._schedule),
            "monitor": to_plain(self._monitor),
        }


def _environment(task: Task) -> dict[str, Any]:
    made = recipe(task)
    return {} if made is None else {"environment": made}


def _simulator(task: Task) -> dict[str, Any]:
    """Return what `_task_of` finds a simulator by: the same keys as for the task of the run."""
    return {"run": {"task": task.name, "limits": list(task.limits)}, **_environment(task)}


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
    config: LearnerConfig = from_plain(
        config_class(recorded["policy"]["kind"]), recorded["policy"]["config"], manifests.NAME
    )
    return config


def _data_of(recorded: Mapping[str, Any]) -> Path | None:
    file = recorded["data"]["file"]
    return None if file == "none" else Path(file)
