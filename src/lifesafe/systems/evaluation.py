"""Evaluate a policy: the returns of many episodes for each target, in this process or in workers.

Each worker holds a copy of the policy and environments of its own, and plays whole episodes. Simulators that compute
in Python, as Bullet's do, leave nothing to gain from any closer cooperation.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, overload

from lifesafe._random import integer
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Policy
from lifesafe.returns import Returns
from lifesafe.systems.backend import Backend, open_vector
from lifesafe.systems.players import Players
from lifesafe.systems.rollout import Progress, Rollout, collect, jobs_of, play
from lifesafe.systems.stop import checked_stop
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Vector


@overload
def evaluate(
    policy: Policy,
    task: Task,
    target: Returns,
    episodes: int = 20,
    *,
    seed: int = 0,
    workers: int = 0,
    backend: Backend = "auto",
    timeout: float = 60.0,
    stop_at: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> list[Returns]: ...


@overload
def evaluate(
    policy: Policy,
    task: Task,
    target: Sequence[Returns],
    episodes: int = 20,
    *,
    seed: int = 0,
    workers: int = 0,
    backend: Backend = "auto",
    timeout: float = 60.0,
    stop_at: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> list[list[Returns]]: ...


def evaluate(
    policy: Policy,
    task: Task,
    target: Returns | Sequence[Returns],
    episodes: int = 20,
    *,
    seed: int = 0,
    workers: int = 0,
    backend: Backend = "auto",
    timeout: float = 60.0,
    stop_at: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> list[Returns] | list[list[Returns]]:
    """Return what each of some episodes earned and cost, for one target or for several of them at once.

    To evaluate again and again, keep an `Evaluator` open instead: it keeps its workers and environments.

    Args:
        policy: Who acts.
        task: Where.
        target: What is asked for. Several targets give one list each, and all run in one batch.
        episodes: How many, for each target.
        seed: Decides all that is random. Episode i is the same for every target: differences between targets are
            not blurred by different starts. Give another seed to every trial of a deployment.
        workers: How many processes to use; 0 for none but this one.
        backend: How to run the environments; see `open_vector`.
        timeout: Seconds for one step of one environment, or for making it; a worker is replaced that says nothing for
            longer than all its episodes side by side may take together.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.
        progress: Called with the episodes and the steps done so far.

    Raises:
        ConfigError: If there is no target or no episode, or the task cannot be run in that way.
        EpisodeError: If an episode cannot be run.
    """
    with Evaluator(policy, task, workers=workers, backend=backend, timeout=timeout, stop_at=stop_at) as evaluator:
        return evaluator.evaluate(target, episodes, seed=seed, progress=progress)


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """Return the seeds of the episodes of an evaluation, for `Evaluator.run`."""
    return [integer(seed, "evaluate", number) for number in range(episodes)]


class Evaluator:
    """Runs episodes of one policy on one task, again and again, and keeps open what is slow to open.

    A worker that crashes or hangs is replaced, its unfinished episodes are run again from their seeds, and a warning
    tells how often that happened. They are run one at a time then, and one that loses three workers by itself is given
    up. The results do not depend on it, nor on the number of workers.

    Args:
        policy: Who acts. With workers, it must be picklable.
        task: Where.
        workers: How many processes to use; 0 for none but this one.
        rows: How many episodes run side by side in each process, at most.
        backend: How to run the environments in each process; see `open_vector`.
        timeout: Seconds for one step of one environment, or for making it; a worker is replaced that says nothing for
            longer than all its episodes side by side may take together.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.

    Examples:
        >>> from lifesafe.systems.simulators.behaviors import Behavior
        >>> from lifesafe.systems.registry import task
        >>> with Evaluator(Behavior(boldness=0.0), task("PointCircle")) as evaluator:
        ...     episodes = evaluator.evaluate(Returns(300, 10), episodes=5, seed=1)
        >>> [episode.costs for episode in episodes]
        [(0.0,), (0.0,), (0.0,), (0.0,), (0.0,)]
    """

    def __init__(
        self,
        policy: Policy,
        task: Task,
        *,
        workers: int = 0,
        rows: int = 32,
        backend: Backend = "auto",
        timeout: float = 60.0,
        stop_at: Sequence[float] | None = None,
    ) -> None:
        stop = None if stop_at is None else checked_stop(stop_at, len(task.limits))
        if workers < 0 or rows < 1 or timeout <= 0:
            raise ConfigError(
                "An evaluator needs workers >= 0, rows >= 1 and timeout > 0;"
                f" got workers = {workers}, rows = {rows}, timeout = {timeout}."
            )
        self._policy, self._task = policy, task
        self._vector: Vector | None = None
        self._players: Players | None = None
        if workers:
            self._players = Players(
                policy, task, workers=workers, rows=rows, backend=backend, timeout=timeout, stop_at=stop
            )
        else:
            self._vector = open_vector(task, rows, backend=backend, stop_at=stop)

    @property
    def pids(self) -> list[int | None]:
        """Numbers of the worker processes."""
        return [] if self._players is None else self._players.pids

    @overload
    def evaluate(
        self, target: Returns, episodes: int = 20, *, seed: int = 0, progress: Progress | None = None
    ) -> list[Returns]: ...

    @overload
    def evaluate(
        self, target: Sequence[Returns], episodes: int = 20, *, seed: int = 0, progress: Progress | None = None
    ) -> list[list[Returns]]: ...

    @overload
    def evaluate(
        self,
        target: Returns | Sequence[Returns],
        episodes: int = 20,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> list[Returns] | list[list[Returns]]: ...

    def evaluate(
        self,
        target: Returns | Sequence[Returns],
        episodes: int = 20,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> list[Returns] | list[list[Returns]]:
        """Return what each of some episodes earned and cost; see the function `evaluate`."""
        if episodes < 1:
            raise ConfigError(f"Give at least 1 episode; got {episodes}.")
        targets = [target] if isinstance(target, Returns) else list(target)
        seeds = episode_seeds(seed, episodes)
        asked = [each for each in targets for _ in range(episodes)]
        returns = self.run(asked, seeds * len(targets), progress=progress).returns
        if isinstance(target, Returns):
            return returns
        return [returns[first : first + episodes] for first in range(0, len(returns), episodes)]

    def run(
        self,
        targets: Sequence[Returns],
        seeds: Sequence[int],
        *,
        record: bool = False,
        progress: Progress | None = None,
    ) -> Rollout:
        """Return how one episode per target and seed goes; see `rollout`."""
        jobs = jobs_of(targets, seeds, len(self._task.limits))
        if self._players is not None:
            return collect(self._players.play(jobs, record=record), len(jobs), self._players, progress)
        if self._vector is not None:
            return collect(play(self._policy, self._vector, jobs, record=record), len(jobs), self._vector, progress)
        raise ConfigError("This evaluator is closed; open a new one.")

    def close(self) -> None:
        """End the workers and close the environments; closing twice does no harm."""
        for opened in (self._players, self._vector):
            if opened is not None:
                opened.close()
        self._players = self._vector = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
