"""Environments in worker processes, several in each.

A worker that is lost takes nothing with it: an episode is its seed and its actions, so a new worker runs the
episodes of the old one again up to where they were.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from lifesafe.errors import ConfigError, EpisodeError
from lifesafe.systems.task import Task
from lifesafe.systems.vector import InProcess, OnRows, Rows, Step
from lifesafe.systems.worker import ATTEMPTS, Worker, WorkerLost

_logger = logging.getLogger(__name__)


class Workers(OnRows):
    """Gymnasium environments in worker processes, several in each (a `Vector`).

    A worker that crashes or hangs is replaced, and its episodes are run again from their seeds up to where they
    were, so the caller sees the same steps as if nothing had happened; a warning is logged.

    Attributes:
        replaced: How many workers had to be replaced so far.
    """

    def __init__(self, task: Task, size: int, *, workers: int, timeout: float = 60.0) -> None:
        if workers < 1:
            raise ConfigError(f"Give at least 1 worker; got {workers}.")
        self._task = task
        self._rows = Rows(task, size)
        self._timeout = timeout
        self._owner = np.arange(size) % min(workers, size)
        self._local = np.arange(size) // min(workers, size)
        self._seeds: dict[int, int] = {}
        self._actions: dict[int, list[np.ndarray]] = {}
        self._workers = [self._start(number) for number in range(min(workers, size))]
        self.replaced = 0

    @property
    def pids(self) -> list[int | None]:
        """Numbers of the processes."""
        return [worker.pid for worker in self._workers]

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float32[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        self._rows.begin(rows, seeds)
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            self._seeds[row], self._actions[row] = int(seed), []
        observations = np.empty((len(rows), self._task.observations), dtype=np.float32)
        given = np.asarray([int(seed) for seed in seeds])
        for mine, answer in self._ask("reset", rows, given):
            observations[mine] = answer
        return observations

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        taken = self._rows.check(rows, actions)
        m = len(rows)
        step = Step(
            observations=np.empty((m, self._task.observations), dtype=np.float32),
            rewards=np.empty(m),
            costs=np.empty((m, len(self._task.limits))),
            terminated=np.zeros(m, dtype=bool),
            truncated=np.zeros(m, dtype=bool),
        )
        for mine, answer in self._ask("step", rows, taken):
            for name, values in vars(answer).items():
                getattr(step, name)[mine] = values
        for row, action in zip(rows.tolist(), taken, strict=True):
            self._actions[row].append(action)
        self._rows.end(rows, step.terminated, step.truncated)
        return step

    def close(self) -> None:
        """End the processes; closing twice does no harm."""
        while self._workers:
            self._workers.pop().close()

    def _start(self, number: int) -> Worker:
        mine = int((self._owner == number).sum())
        return Worker(_BuildRows(self._task, mine), timeout=self._timeout)

    def _ask(
        self, name: str, rows: Int[np.ndarray, " m"], values: np.ndarray
    ) -> Iterator[tuple[Int[np.ndarray, " mine"], Any]]:
        """Give each worker its part of a command, and the answers with the places of their rows."""
        if not self._workers:
            raise ConfigError("These environments are closed; open new ones.")
        shares = [np.flatnonzero(self._owner[rows] == number) for number in range(len(self._workers))]
        commands = [(name, self._local[rows[mine]], values[mine]) for mine in shares]
        lost: dict[int, WorkerLost] = {}
        for number, mine in enumerate(shares):
            if len(mine):
                try:
                    self._workers[number].send(commands[number])
                except WorkerLost as reason:
                    lost[number] = reason
        for number, mine in enumerate(shares):
            if len(mine):
                yield mine, self._answer(number, commands[number], lost.get(number), fresh=name == "reset")

    def _answer(self, number: int, command: Any, lost: WorkerLost | None, *, fresh: bool) -> Any:
        """Return the answer to a command already given, through as many replacements as it takes."""
        for _ in range(ATTEMPTS):
            try:
                if lost is not None:
                    self._replace(number, lost)
                    self._replay(number, set(command[1].tolist()) if fresh else set())
                    self._workers[number].send(command)
                return self._workers[number].receive(len(command[1]))
            except WorkerLost as reason:
                lost = reason
        raise EpisodeError(f"Task {self._task.name!r} lost {ATTEMPTS} workers at the same step: {lost}.")

    def _replace(self, number: int, reason: WorkerLost) -> None:
        _logger.warning("Worker %d of task %s is replaced: %s.", number, self._task.name, reason)
        self._workers[number].kill()
        self._workers[number] = self._start(number)
        self.replaced += 1

    def _replay(self, number: int, beginning: set[int]) -> None:
        """Bring the running episodes of a new worker to where they were, but for those about to begin."""
        worker = self._workers[number]
        mine = [row for row in self._rows.running if self._owner[row] == number and self._local[row] not in beginning]
        if not mine:
            return
        rows = np.array(mine)
        worker.send(("reset", self._local[rows], np.array([self._seeds[row] for row in mine])))
        worker.receive(len(rows))
        for t in range(max(len(self._actions[row]) for row in mine)):
            moving = np.array([row for row in mine if len(self._actions[row]) > t])
            worker.send(("step", self._local[moving], np.stack([self._actions[row][t] for row in moving])))
            worker.receive(len(moving))


class _BuildRows:
    """Makes the handler of the environments of one worker."""

    def __init__(self, task: Task, size: int) -> None:
        self._task, self._size = task, size

    def __call__(self) -> _RowsHandler:
        return _RowsHandler(InProcess(self._task, self._size))


class _RowsHandler:
    """Resets and steps environments inside a worker."""

    def __init__(self, environments: InProcess) -> None:
        self._environments = environments

    def handle(self, command: tuple[str, np.ndarray, np.ndarray]) -> Iterator[Any]:
        name, rows, values = command
        if name == "reset":
            yield self._environments.reset(rows, values.tolist())
        else:
            yield self._environments.step(rows, values)

    def close(self) -> None:
        self._environments.close()
