"""Worker processes that hold a policy and environments of their own, and play whole episodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from lifesafe.errors import EpisodeError
from lifesafe.interfaces import Policy
from lifesafe.systems.backend import Backend, open_vector
from lifesafe.systems.rollout import Job, Outcome, play
from lifesafe.systems.task import Task
from lifesafe.systems.vector import Vector
from lifesafe.systems.worker import ATTEMPTS, Worker, WorkerLost, silent

_logger = logging.getLogger(__name__)

_HEARTBEAT = 0.2  # s between two signs of life


class Players:
    """Workers that play whole episodes, spread evenly over them.

    Attributes:
        replaced: How many workers had to be replaced so far.
    """

    def __init__(
        self,
        policy: Policy,
        task: Task,
        *,
        workers: int,
        rows: int,
        backend: Backend,
        timeout: float,
        stop_at: Sequence[float] | None = None,
    ) -> None:
        self._task, self._timeout = task, timeout
        self._build = _BuildPlayer(policy, task, rows, backend, stop_at)
        self._preload = [__name__, type(policy).__module__]
        self._workers: dict[int, Worker] = {}
        self._size, self._rows = workers, rows
        self.replaced = 0
        for number in range(workers):
            self._worker(number)

    @property
    def pids(self) -> list[int | None]:
        """Numbers of the processes."""
        return [worker.pid for worker in self._workers.values()]

    def play(self, jobs: Sequence[Job], *, record: bool = False) -> Iterator[tuple[int, dict[int, Outcome]]]:
        """Run the jobs; now and then, give all steps taken so far and the outcomes of the jobs that just ended."""
        numbered = dict(enumerate(jobs))
        shares = [dict(list(numbered.items())[number :: self._size]) for number in range(self._size)]
        busy = {number: _Share(share, record, self._rows) for number, share in enumerate(shares) if share}
        taken = 0
        try:
            for number, share in busy.items():
                self._give(number, share)
            while busy:
                for number, (steps, finished) in self._messages(busy):
                    taken += steps
                    for job in finished:
                        del busy[number].jobs[job]
                    if finished:
                        busy[number].attempts = 0
                    if not busy[number].jobs:
                        del busy[number]
                    yield taken, finished
        finally:
            for number in busy:  # left in the middle: what they still say must not meet the next jobs
                if number in self._workers:
                    self._workers.pop(number).kill()

    def close(self) -> None:
        """End the processes; closing twice does no harm."""
        while self._workers:
            self._workers.popitem()[1].close()

    def _worker(self, number: int) -> Worker:
        if number not in self._workers:
            self._workers[number] = Worker(self._build, timeout=self._timeout, preload=self._preload)
        return self._workers[number]

    def _messages(self, busy: dict[int, _Share]) -> Iterator[tuple[int, Any]]:
        """Give what the busy workers say now, and replace those that will say no more."""
        silence = min(share.heard + self._patience(share) for share in busy.values()) - time.monotonic()
        ready = wait([self._worker(number).connection for number in busy], timeout=max(silence, 0.0))
        for number, share in list(busy.items()):
            worker = self._worker(number)
            if worker.connection in ready:
                try:
                    message = worker.receive()
                except WorkerLost as reason:
                    self._replace(number, share, reason)
                else:
                    share.heard = time.monotonic()
                    yield number, message
            elif time.monotonic() - share.heard > self._patience(share) and not worker.connection.poll():
                self._replace(number, share, silent(self._patience(share)))

    def _patience(self, share: _Share) -> float:
        """Return for how long a worker may be silent: it speaks when all its environments have made a step."""
        return self._timeout * share.under_way

    def _give(self, number: int, share: _Share) -> None:
        try:
            self._worker(number).send((share.jobs, share.record, share.rows))
            share.heard = time.monotonic()
        except WorkerLost as reason:
            self._replace(number, share, reason)

    def _replace(self, number: int, share: _Share, reason: WorkerLost) -> None:
        """Let a new worker run what is left of a share, one episode at a time."""
        if share.under_way == 1:
            self._count(share, reason)
        share.rows = 1  # of several nobody knows which it was
        _logger.warning(
            "Worker %d of task %s is replaced, %d episodes are run again: %s.",
            number, self._task.name, len(share.jobs), reason,
        )  # fmt: skip
        self.replaced += 1
        self._workers.pop(number).kill()
        self._give(number, share)

    def _count(self, share: _Share, reason: WorkerLost) -> None:
        """Count a worker lost over the only episode under way, and give that up if it was the last attempt."""
        share.attempts += 1
        if share.attempts >= ATTEMPTS:
            seed = next(iter(share.jobs.values())).seed
            raise EpisodeError(
                f"Task {self._task.name!r} lost {ATTEMPTS} workers over the episode with seed {seed}: {reason}."
            )


@dataclass
class _Share:
    """What one worker has to do still."""

    jobs: dict[int, Job]
    record: bool
    rows: int  # how many episodes run side by side, at most
    heard: float = 0.0  # when it gave its last sign of life
    attempts: int = 0  # workers lost over the first of the jobs, while it ran alone

    @property
    def under_way(self) -> int:
        return min(self.rows, len(self.jobs))


class _BuildPlayer:
    """Makes the handler of one worker."""

    def __init__(
        self, policy: Policy, task: Task, rows: int, backend: Backend, stop_at: Sequence[float] | None
    ) -> None:
        self._policy, self._task, self._rows, self._backend, self._stop_at = policy, task, rows, backend, stop_at

    def __call__(self) -> _Player:
        return _Player(self._policy, open_vector(self._task, self._rows, backend=self._backend, stop_at=self._stop_at))


class _Player:
    """Plays episodes inside a worker."""

    def __init__(self, policy: Policy, vector: Vector) -> None:
        self._policy, self._vector = policy, vector

    def handle(self, command: tuple[dict[int, Job], bool, int]) -> Iterator[tuple[int, dict[int, Outcome]]]:
        jobs, record, rows = command
        numbers = list(jobs)
        told, spoke = 0, time.monotonic()
        for taken, finished in play(self._policy, self._vector, list(jobs.values()), record=record, rows=rows):
            if finished or time.monotonic() - spoke > _HEARTBEAT:
                yield taken - told, {numbers[i]: outcome for i, outcome in finished.items()}
                told, spoke = taken, time.monotonic()

    def close(self) -> None:
        self._vector.close()
