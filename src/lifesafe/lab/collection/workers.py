"""Environments in processes of their own, several in each, for a collection.

A process that ends or hangs ends the collection with an error; the same command goes on from the last checkpoint.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from lifesafe.errors import ConfigError, EpisodeError, LifesafeError
from lifesafe.systems.processes import pickled, process_context
from lifesafe.systems.task import Task
from lifesafe.systems.vector import InProcess, Rows, Step

_TIMEOUT = 120.0  # s without an answer; making environments on a busy machine takes a while

_ON = "Collect again: that goes on from the last checkpoint."


class Workers(Rows):
    """Gymnasium environments in processes, several in each (a `Vector`)."""

    def __init__(self, task: Task, size: int, *, workers: int, timeout: float = _TIMEOUT) -> None:
        if workers < 1:
            raise ConfigError(f"Give at least 1 worker; got {workers}.")
        super().__init__(task, size)
        self._timeout = timeout
        workers = min(workers, size)
        self._owner, self._local = np.arange(size) % workers, np.arange(size) // workers
        self._processes: list[tuple[Any, Connection[Any, Any]]] = []
        payload, context = pickled(task), process_context([__name__])
        for number in range(workers):
            ours, theirs = context.Pipe()
            rows = int((self._owner == number).sum())
            process = context.Process(target=_serve, args=(theirs, payload, rows), daemon=True)
            process.start()
            theirs.close()
            self._processes.append((process, ours))

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float32[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        self._begin(rows, seeds)
        observations = np.empty((len(rows), self._task.observations), dtype=np.float32)
        for mine, answer in self._ask("reset", rows, np.asarray([int(seed) for seed in seeds])):
            observations[mine] = answer
        return observations

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        taken, m = self._check(rows, actions), len(rows)
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
        self._end(rows, step.terminated, step.truncated)
        return step

    def close(self) -> None:
        """End the processes; closing twice does no harm."""
        for _, connection in self._processes:
            connection.close()
        while self._processes:
            process, _ = self._processes.pop()
            process.join(1.0)
            process.kill()
            process.join()

    def _ask(self, name: str, rows: Int[np.ndarray, " m"], values: np.ndarray) -> list[tuple[np.ndarray, Any]]:
        """Give each process its part of a command, and return the answers with the places of their rows."""
        if not self._processes:
            raise ConfigError("These environments are closed; open new ones.")
        parts = [
            (connection, np.flatnonzero(self._owner[rows] == number))
            for number, (_, connection) in enumerate(self._processes)
        ]
        asked = [(connection, mine) for connection, mine in parts if len(mine)]
        answers: list[tuple[np.ndarray, Any]] = []
        try:
            for connection, mine in asked:
                connection.send_bytes(pickled((name, self._local[rows[mine]], values[mine])))
            for connection, mine in asked:
                answers.append((mine, self._receive(connection)))
        except BaseException:  # what the others still say must not meet the next command
            self.close()
            raise
        return answers

    def _receive(self, connection: Connection[Any, Any]) -> Any:
        try:
            answer = pickle.loads(connection.recv_bytes()) if connection.poll(self._timeout) else None
        except (EOFError, OSError):
            answer = None
        if answer is None:
            raise EpisodeError(
                f"A process with environments of task {self._task.name!r} has ended, or said nothing for"
                f" {self._timeout:g} s. {_ON}"
            )
        if isinstance(answer, LifesafeError):
            raise answer
        return answer


def _serve(connection: Connection[Any, Any], payload: bytes, rows: int) -> None:
    """Reset and step environments until the parent closes the connection, or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the connection
    environments = InProcess(pickle.loads(payload), rows)
    try:
        while True:
            name, chosen, values = pickle.loads(connection.recv_bytes())
            try:
                answer = getattr(environments, name)(chosen, values)
            except LifesafeError as error:
                answer = error
            except Exception as error:
                answer = EpisodeError(f"An environment failed: {type(error).__name__}: {error}. {_ON}")
            connection.send_bytes(pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL))
    except (EOFError, OSError):
        pass  # the parent has gone
    finally:
        environments.close()
