"""One worker process: started, given commands, watched.

A worker takes one command at a time and answers with messages. It is lost when it dies, when its answer is
an error, or when it says nothing for too long; then it is for the caller to start another.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from lifesafe.errors import ConfigError, LifesafeError

ATTEMPTS = 3
"""How often a command may lose its worker before it is given up."""

_START_TIMEOUT = 120.0  # s; importing PyTorch on a busy machine takes a while


class Handler(Protocol):
    """What runs inside a worker."""

    def handle(self, command: Any) -> Iterator[Any]:
        """Give the messages that answer a command."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class WorkerLost(Exception):  # noqa: N818 - no error for callers: it is caught, and the worker replaced
    """A worker died, failed or hangs."""


def silent(seconds: float) -> WorkerLost:
    """Return how a worker that hangs is told of."""
    return WorkerLost(
        f"it said nothing for {seconds:g} s; if it is slow rather than stuck, give a larger timeout, or workers = 0,"
        " which waits as long as it takes"
    )


class Worker:
    """One process that answers commands.

    Args:
        build: Makes the handler, inside the process; must be picklable, as must all commands and answers.
        timeout: Seconds for one step of one environment; after as many without a word the worker counts as hanging.
        preload: Modules that the handler will need, to start faster.
    """

    def __init__(self, build: Callable[[], Handler], *, timeout: float, preload: Sequence[str] = ()) -> None:
        self._timeout = timeout
        # Plain pickle, since PyTorch makes multiprocessing's own move weights into shared memory.
        payload = _pickled(build)
        context = _context(preload)
        self._connection: Connection[Any, Any]
        self._connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, payload), daemon=True)
        self._process.start()
        theirs.close()
        self._ready = False
        self._commands = 0

    @property
    def connection(self) -> Connection[Any, Any]:
        """What to wait for when several workers are at work."""
        return self._connection

    @property
    def pid(self) -> int | None:
        """Number of the process."""
        return self._process.pid

    def send(self, command: Any) -> None:
        """Give a command; its answer is received message by message."""
        try:
            if not self._ready:
                self._receive(max(self._timeout, _START_TIMEOUT))
                self._ready = True
            self._commands += 1
            self._connection.send_bytes(_pickled((self._commands, command)))
        except OSError as error:
            raise WorkerLost(self._death()) from error

    def receive(self, steps: int = 1) -> Any:
        """Return the next message of the answer.

        Args:
            steps: How many environments are stepped before it comes, one after the other.

        Raises:
            WorkerLost: If there will be none.
            LifesafeError: If the handler raised one: a mistake of the caller, which no other worker would mend.
        """
        return self._receive(steps * self._timeout)

    def _receive(self, timeout: float) -> Any:
        try:
            number = -1
            while number != self._commands:  # answers to earlier commands are left over from an interruption
                if not self._connection.poll(timeout):
                    raise silent(timeout)
                number, kind, value = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise WorkerLost(self._death()) from error
        if kind == "refused":
            raise value
        if kind == "failed":
            raise WorkerLost(f"it raised an error:\n{value}")
        return value

    def _death(self) -> str:
        self._process.join(5.0)
        code = self._process.exitcode
        if not self._ready:
            return (
                f"it ended with exit code {code} before it was ready; its own words are on the error output. A script"
                ' that uses workers must do so under `if __name__ == "__main__":`'
            )
        return f"signal {-code} ended it" if code is not None and code < 0 else f"it ended with exit code {code}"

    def close(self) -> None:
        """End the process, politely if it listens; closing twice does no harm."""
        self._connection.close()
        if self._ready:
            self._process.join(1.0)
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


def _pickled(thing: Any) -> bytes:
    try:
        return pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Cannot send this to a worker process: {error}. Define functions and classes at the top of a module,"
            " or use workers = 0."
        ) from error


def _context(preload: Sequence[str]) -> Any:
    """Return how processes are started: not by forking this one, which may have threads (PyTorch's, OpenMP's).

    Where there is one, a server that has imported what is needed forks them instead: in a hundredth of a second
    rather than in one, or in three with PyTorch.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, f"{__package__}._wrappers", *preload])  # heeded when the server starts
    return context


def _serve(connection: Connection[Any, Any], payload: bytes) -> None:
    """Answer commands until the parent closes the connection, or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the connection
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the parallelism
    handler: Handler | None = None
    number = 0  # of the command that is answered; starting is number 0
    try:
        handler = pickle.loads(payload)()
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        _answer(connection, number, "ready", None)
        while True:
            number, command = _command(connection)
            for message in handler.handle(command):
                _answer(connection, number, "message", message)
    except _ParentGone:
        pass
    except LifesafeError as error:
        _answer(connection, number, "refused", error)
    except Exception:
        _answer(connection, number, "failed", traceback.format_exc())
    finally:
        if handler is not None:
            handler.close()


class _ParentGone(Exception):  # noqa: N818 - the usual way in which a worker's life ends
    pass


def _command(connection: Connection[Any, Any]) -> tuple[int, Any]:
    try:
        number, command = pickle.loads(connection.recv_bytes())
        return number, command
    except (EOFError, OSError) as error:
        raise _ParentGone from error


def _answer(connection: Connection[Any, Any], number: int, kind: str, value: Any) -> None:
    message = pickle.dumps((number, kind, value), protocol=pickle.HIGHEST_PROTOCOL)
    with contextlib.suppress(OSError):  # a parent that has gone is found out at the next command
        connection.send_bytes(message)
