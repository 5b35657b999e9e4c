"""Collect a dataset: train a behavior for all limits at once, log every episode, keep an even choice.

A run's directory holds `training/` (the last checkpoint), `shards/` (every episode so far) and, at the end, the
dataset. A shard counts once a checkpoint names it, so a process that is killed at any time loses the
seconds since the last checkpoint, and nothing appears twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from lifesafe._config import to_plain
from lifesafe._random import generator, integer
from lifesafe.data import Dataset, Episode
from lifesafe.data.dsrl import write_dsrl
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress, Report
from lifesafe.lab.collection.config import CollectionConfig
from lifesafe.lab.collection.pool import EnvPool, supports
from lifesafe.lab.collection.ppo import Learner
from lifesafe.lab.collection.sampler import Explorer
from lifesafe.lab.collection.selection import select
from lifesafe.lab.collection.shards import read_episodes, read_returns, shard_path, write_shard
from lifesafe.lab.collection.workers import Workers
from lifesafe.policies.training_state import Identity, TrainingDirectory, TrainingState
from lifesafe.systems import Task, Vector, open_vector, recipe

_METHOD = "PPO-Lagrangian"
_MAY_CHANGE = ("steps", "stop", "episodes", "kept", "cost_cells", "reward_cells", "save_seconds")


def collect(
    task: Task,
    config: CollectionConfig,
    directory: str | Path,
    *,
    seed: int,
    workers: int = 2,
    progress: Report | None = None,
) -> Path:
    """Return the file of a dataset, in DSRL's layout, made by training a behavior in simulation.

    Call it again with the same arguments to go on after an interruption, or with more `steps` to collect more. A cost
    that is a function, and options of an environment, have no name by which another one would be noticed then.

    Args:
        task: What to do; its limits only matter for what is reported.
        config: The settings.
        directory: Where the run keeps its files; made if it is missing.
        seed: Decides everything that is random.
        workers: Processes to spread environments over, where neither EnvPool nor the task's own vector serves;
            0 for none.
        progress: Called after every update.

    Raises:
        ConfigError: If the directory belongs to a run with other settings or another task, or no episode ended.
        DatasetError: If episodes of before are missing.
        CheckpointError: If another process collects there, or a checkpoint is damaged or cannot be written.
    """
    directory = Path(directory)
    training = TrainingDirectory(directory / "training", _identity(task, config, seed))
    with training.open(), _one_thread():
        run = _Run(task, config, directory, seed, training)
        if run.counts.steps < run.end:
            with closing(_opened(task, config.rows + config.exhibits, workers)) as vector:
                run.go_on(vector, progress)
        return run.dataset()


@dataclass(kw_only=True)
class _Counts:
    """How far a run is, as its checkpoint holds it."""

    updates: int = 0
    steps: int = 0
    begun: int = 0
    episodes: int = 0
    shards: int = 0
    best: float | None = None
    seconds: float = 0.0


class _Run:
    """A collection under way."""

    def __init__(
        self, task: Task, config: CollectionConfig, directory: Path, seed: int, training: TrainingDirectory
    ) -> None:
        self.task, self.config, self.seed = task, config, seed
        self.directory, self.training = directory, training
        self.end = config.stop or config.steps
        self.learner = Learner(task, config, integer(seed, "weights"))
        self.counts = _Counts()
        self.fresh: list[Episode] = []
        self.returns: list[np.ndarray] = []  # of the episodes in each shard
        (directory / "shards").mkdir(exist_ok=True)
        state = training.read()
        if state is not None:
            self.learner.load_state(state.tensors)
            self.counts = _Counts(**state.plain)
            self.returns = [read_returns(self._shard(number)) for number in range(self.counts.shards)]

    def go_on(self, vector: Vector, progress: Report | None) -> None:
        """Collect until all steps are taken."""
        config, counts = self.config, self.counts
        saved = time.monotonic()
        sampler = Explorer(self.task, vector, config.exhibits, self.seed, counts.begun)
        while counts.steps < self.end:
            self._update(sampler)
            now = time.monotonic()
            if progress is not None:
                progress(self._progress())
            if now - saved > config.save_seconds or counts.steps >= self.end:
                counts.begun, counts.seconds, saved = sampler.begun, counts.seconds + now - saved, now
                self._save()

    def _update(self, sampler: Explorer) -> None:
        learner, config, counts = self.learner, self.config, self.counts
        random = generator(self.seed, "update", counts.updates)
        segment = sampler.segment(learner.act, learner.deviation, config.segment, random)
        learner.update(segment, sampler.finished, counts.steps / config.steps, random)
        episodes = [one.episode for one in sampler.finished]
        counts.updates += 1
        counts.steps += config.segment * (config.rows + config.exhibits)
        counts.episodes += len(episodes)
        self.fresh += episodes
        safe = [episode.returns.reward for episode in episodes if self._is_safe(episode)]
        counts.best = max([*safe, *([] if counts.best is None else [counts.best])], default=None)

    def _is_safe(self, episode: Episode) -> bool:
        return all(cost <= limit for cost, limit in zip(episode.returns.costs, self.task.limits, strict=True))

    def _progress(self) -> Progress:
        figures = {"episodes": float(self.counts.episodes)}
        if self.counts.best is not None:
            figures["best within the limits"] = self.counts.best
        return Progress("steps", self.counts.steps, self.end, figures=figures)

    def _save(self) -> None:
        if self.fresh:
            path = self._shard(self.counts.shards)
            write_shard(path, self.fresh)
            self.returns.append(read_returns(path))
            self.counts.shards += 1
            self.fresh = []
        self.training.write(TrainingState(self.counts.updates, self.learner.state(), asdict(self.counts)))

    def dataset(self) -> Path:
        """Write the dataset and return its file."""
        config = self.config
        if not self.counts.shards:
            raise ConfigError(
                f"No episode ended within {self.end} steps; a horizon of {self.task.horizon} in"
                f" {config.rows + config.exhibits} rows needs more."
            )
        chosen = select(
            np.concatenate(self.returns),
            highest=config.kept * config.loosest,
            episodes=config.episodes,
            cost_cells=config.cost_cells,
            reward_cells=config.reward_cells,
            seed=integer(self.seed, "select"),
        )
        firsts = np.cumsum([0] + [len(part) for part in self.returns])
        episodes: list[Episode] = []
        for number, (first, last) in enumerate(pairwise(firsts)):
            inside = chosen[(chosen >= first) & (chosen < last)] - first
            if len(inside):
                episodes += read_episodes(self._shard(number), inside)
        file = self.directory / f"{self.task.name.replace('/', '-')}.hdf5"
        source = f"lifesafe data collect {self.task.name}, seed {self.seed}, {self.counts.steps:,} steps"
        write_dsrl(Dataset.from_episodes(episodes), file, source=source)
        return file

    def _shard(self, number: int) -> Path:
        return shard_path(self.directory / "shards", number)


def _identity(task: Task, config: CollectionConfig, seed: int) -> Identity:
    """Return what decides the data: settings, seed and, as far as it has a name, what a task is and costs."""
    plain = {name: value for name, value in to_plain(config).items() if name not in _MAY_CHANGE}
    system = recipe(task) or {"horizon": task.horizon, "largest_costs": list(task.largest_costs)}
    return Identity(_METHOD, plain | system, task.name, seed)


def _opened(task: Task, size: int, workers: int) -> Vector:
    """Return many environments in the fastest way there is: EnvPool's threads, processes, or the task's own vector."""
    if supports(task):
        return EnvPool(task, size)
    return Workers(task, size, workers=workers) if task.vector is None and workers else open_vector(task, size)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread: the networks are so small that more would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
