"""Evaluate a policy: the returns of many episodes for each target, in this process or in workers.

Each worker holds a copy of the policy and environments of its own, and plays whole episodes. Simulators that compute
in Python, as Bullet's do, leave nothing to gain from any closer cooperation.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from typing import Self

from lifesafe._random import integer
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Policy, Report
from lifesafe.returns import Returns
from lifesafe.systems.processes import Players
from lifesafe.systems.rollout import Rollout, gather, jobs_of, rollout
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Vector, checked_stop, open_vector


def evaluate(
    policy: Policy,
    task: Task,
    target: Returns,
    episodes: int = 20,
    *,
    seed: int = 0,
    workers: int = 0,
    stop_at: float | Sequence[float] | None = None,
    progress: Report | None = None,
) -> list[Returns]:
    """Return what each of some episodes earned and cost; see `evaluate_many`."""
    (returns,) = evaluate_many(
        policy, task, [target], episodes, seed=seed, workers=workers, stop_at=stop_at, progress=progress
    )
    return returns


def evaluate_many(
    policy: Policy,
    task: Task,
    targets: Sequence[Returns],
    episodes: int = 20,
    *,
    seed: int = 0,
    workers: int = 0,
    stop_at: float | Sequence[float] | None = None,
    progress: Report | None = None,
) -> list[list[Returns]]:
    """Return what each of some episodes earned and cost, a list for each of several targets.

    To evaluate again and again, keep an `Evaluator` open instead: it keeps its workers and environments.

    Args:
        policy: Who acts. With workers, it must be picklable.
        task: Where.
        targets: What is asked for.
        episodes: How many, for each target.
        seed: Decides all that is random. Episode i is the same for every target: differences between targets are
            not blurred by different starts. Give another seed to every trial of a deployment.
        workers: How many processes to use; 0 for none but this one.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.
        progress: Called whenever episodes have ended.

    Raises:
        ConfigError: If there is no target or no episode, or the task cannot be run in that way.
        EpisodeError: If an episode cannot be run.
    """
    if episodes < 1:
        raise ConfigError(f"Give at least 1 episode; got {episodes}.")
    asked = [target for target in targets for _ in range(episodes)]
    with Evaluator(policy, task, workers=workers, stop_at=stop_at) as evaluator:
        returns = evaluator.run(asked, episode_seeds(seed, episodes) * len(targets), progress=progress).returns
    return [returns[first : first + episodes] for first in range(0, len(returns), episodes)]


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """Return the seeds of the episodes of an evaluation, for `Evaluator.run`."""
    return [integer(seed, "evaluate", number) for number in range(episodes)]


class Evaluator:
    """Runs episodes of one policy on one task, again and again, and keeps open what is slow to open.

    When a worker crashes or hangs, all are started again, what was unfinished is run again from its seeds, and a
    warning tells how often that happened. An episode that fails three times by itself is given up. The results do not
    depend on it, nor on the number of workers.

    Args:
        policy: Who acts. With workers, it must be picklable.
        task: Where.
        workers: How many processes to use; 0 for none but this one.
        rows: How many episodes run side by side in each process, at most.
        timeout: Seconds that a worker may take for an episode, on average over those that it runs side by side.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.

    Examples:
        >>> from lifesafe.systems import task
        >>> from lifesafe.systems.simulators.behaviors import Behavior
        >>> with Evaluator(Behavior(boldness=0.0), task("PointCircle")) as evaluator:
        ...     episodes = evaluator.run([Returns(300, 10)] * 3, seeds=[1, 2, 3])
        >>> [returns.costs for returns in episodes.returns]
        [(0.0,), (0.0,), (0.0,)]
    """

    def __init__(
        self,
        policy: Policy,
        task: Task,
        *,
        workers: int = 0,
        rows: int = 32,
        timeout: float = 300.0,
        stop_at: float | Sequence[float] | None = None,
    ) -> None:
        stop = None if stop_at is None else checked_stop(stop_at, len(task.limits))
        if workers < 0 or rows < 1 or timeout <= 0:
            raise ConfigError(
                "An evaluator needs workers >= 0, rows >= 1 and timeout > 0;"
                f" got workers = {workers}, rows = {rows}, timeout = {timeout}."
            )
        self._policy, self._task = policy, task
        self._runner: Players | Vector | None
        if workers:
            self._runner = Players(policy, task, workers=workers, rows=rows, timeout=timeout, stop_at=stop)
        else:
            self._runner = open_vector(task, rows, stop_at=stop)

    @property
    def pids(self) -> list[int | None]:
        """Numbers of the worker processes."""
        return self._runner.pids if isinstance(self._runner, Players) else []

    def run(
        self,
        targets: Sequence[Returns],
        seeds: Sequence[int],
        *,
        record: bool = False,
        progress: Report | None = None,
    ) -> Rollout:
        """Return how one episode per target and seed goes; see `rollout`."""
        if self._runner is None:
            raise ConfigError("This evaluator is closed; open a new one.")
        if not isinstance(self._runner, Players):
            return rollout(self._policy, self._runner, targets, seeds, record=record, progress=progress)
        jobs, before = jobs_of(targets, seeds, len(self._task.limits)), self._runner.restarts
        with closing(self._runner.play(jobs, record=record)) as shares:
            done = gather(shares, len(jobs), progress)
        restarts = self._runner.restarts - before
        if restarts:
            warnings.warn(
                f"Worker processes crashed or hung {restarts} time(s) and were started again; what was unfinished was"
                " run again from its seeds, so the results are whole. The log has the reasons.",
                RuntimeWarning,
                stacklevel=2,
            )
        return done

    def close(self) -> None:
        """End the workers and close the environments; closing twice does no harm."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
