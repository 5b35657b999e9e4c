"""Worker processes that play whole episodes, by `concurrent.futures`.

Every process holds a copy of the policy and environments of its own, and plays a share of the episodes side by side.
A seed decides its episode, so an episode may be played again at any time, in any process. Hence a pool of processes
that crashed, hangs or raised an error is thrown away; a new one plays what is unfinished. The episodes that were under
way then go one at a time, so that the one to blame is found: after three lost pools of its own it is given up.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.util import Finalize
from typing import Any

from lifesafe.errors import ConfigError, EpisodeError, LifesafeError
from lifesafe.interfaces import Policy
from lifesafe.systems.rollout import Assignment, Outcome, play
from lifesafe.systems.task import Task
from lifesafe.systems.vector import open_vector

_logger = logging.getLogger(__name__)

_ATTEMPTS = 3
_START_TIMEOUT = 120.0  # s; importing PyTorch on a busy machine takes a while
_CLOSE_TIMEOUT = 5.0  # s; for environments that close themselves slowly

_Share = list[int]  # numbers of the jobs that one process plays side by side


class _Lost(Exception):  # noqa: N818 - no error for callers: it is caught, and the episodes are run again
    """A pool that plays no further, and the jobs that were under way."""

    def __init__(self, jobs: _Share, reason: str) -> None:
        super().__init__(reason)
        self.jobs = jobs


class Players:
    """Processes that play episodes.

    Attributes:
        restarts: How often the processes were lost and started again so far.
    """

    def __init__(
        self,
        policy: Policy,
        task: Task,
        *,
        workers: int,
        rows: int,
        timeout: float,
        stop_at: Sequence[float] | None = None,
    ) -> None:
        self._task, self._workers, self._rows, self._timeout = task, workers, rows, timeout
        self._begin = pickled((policy, task, rows, stop_at))
        self._preload = [__name__, f"{__package__}._wrappers", type(policy).__module__]
        self._executor: ProcessPoolExecutor | None = None
        self.restarts = 0

    @property
    def pids(self) -> list[int | None]:
        """Numbers of the processes."""
        return [process.pid for process in _processes(self._executor)]

    def play(self, jobs: Sequence[Assignment], *, record: bool = False) -> Generator[dict[int, Outcome], None, None]:
        """Run the jobs; give the outcomes of each share that ends."""
        rounds = -(-len(jobs) // (self._workers * self._rows))
        size = -(-len(jobs) // (self._workers * rounds))
        left = deque(list(range(len(jobs)))[first : first + size] for first in range(0, len(jobs), size))
        while left:
            try:
                yield from self._finish(left, jobs, record)
            except _Lost as lost:
                self._note(lost)
                for number in lost.jobs:
                    yield from self._alone(number, jobs, record, _ATTEMPTS - (len(lost.jobs) == 1))

    def close(self, *, at_once: bool = False) -> None:
        """End the processes; closing twice does no harm."""
        executor, self._executor = self._executor, None
        if executor is not None:
            processes = _processes(executor)
            overdue = threading.Timer(0.0 if at_once else _CLOSE_TIMEOUT, lambda: [each.kill() for each in processes])
            overdue.start()
            executor.shutdown(cancel_futures=True)
            overdue.cancel()

    def _finish(
        self, left: deque[_Share], jobs: Sequence[Assignment], record: bool
    ) -> Generator[dict[int, Outcome], None, None]:
        """Run shares until none is left.

        Raises:
            _Lost: If the pool is lost on the way; the shares not begun are still in `left`.
            LifesafeError: If an episode raised one: a mistake of the caller, which no other attempt would mend.
        """
        under_way: dict[Future[list[Outcome]], tuple[_Share, float]] = {}
        executor = self._open()
        try:
            while left or under_way:
                while left and len(under_way) < self._workers:
                    future = executor.submit(_play, [jobs[number] for number in left[0]], record)
                    under_way[future] = left[0], time.monotonic() + self._timeout * len(left.popleft())
                due = min(moment for _, moment in under_way.values())
                done, _ = wait(under_way, max(due - time.monotonic(), 0.0), FIRST_COMPLETED)
                if not done:
                    raise TimeoutError
                for future in done:
                    outcomes = future.result()
                    share, _ = under_way.pop(future)
                    yield dict(zip(share, outcomes, strict=True))
        except LifesafeError:
            raise
        except Exception as error:
            reason = self._reason(error)
            self.close(at_once=True)
            raise _Lost([number for share, _ in under_way.values() for number in share], reason) from error
        finally:
            if under_way:
                self.close(at_once=True)

    def _alone(
        self, number: int, jobs: Sequence[Assignment], record: bool, attempts: int
    ) -> Generator[dict[int, Outcome], None, None]:
        """Run one job by itself, with so many attempts.

        Raises:
            EpisodeError: If all of them fail.
        """
        for attempt in range(attempts):
            try:
                yield from self._finish(deque([[number]]), jobs, record)
                return
            except _Lost as lost:
                if attempt == attempts - 1:
                    raise EpisodeError(
                        f"The episode of task {self._task.name!r} with seed {jobs[number].seed} failed"
                        f" {_ATTEMPTS} times by itself: {lost}."
                    ) from lost
                self._note(lost)

    def _note(self, lost: _Lost) -> None:
        self.restarts += 1
        _logger.warning(
            "The workers of task %s are started again, %d episodes are run again: %s.",
            self._task.name, len(lost.jobs), lost,
        )  # fmt: skip

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return (
                f"a worker took longer than {self._timeout:g} s an episode; if it is slow rather than stuck, give a"
                " larger timeout, or workers = 0, which waits as long as it takes"
            )
        if isinstance(error, BrokenProcessPool):
            codes = [process.exitcode for process in _processes(self._executor)]
            code = next((code for code in codes if code not in (None, -signal.SIGTERM)), None)  # the pool ends the rest
            return f"signal {-code} ended a worker" if code and code < 0 else f"a worker ended with exit code {code}"
        return f"a worker raised {type(error).__name__}: {error}"

    def _open(self) -> ProcessPoolExecutor:
        """Return the pool, once its processes can play.

        Raises:
            EpisodeError: If they cannot be started.
        """
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self._workers, mp_context=process_context(self._preload), initializer=_begin, initargs=(self._begin,)
            )
            try:
                for future in [self._executor.submit(_ready) for _ in range(self._workers)]:
                    future.result(timeout=_START_TIMEOUT)
            except Exception as error:
                self.close(at_once=True)
                raise EpisodeError(
                    f"The workers of task {self._task.name!r} cannot begin ({type(error).__name__}: {error}); their own"
                    " words are on the error output. A script that uses workers must do so under"
                    ' `if __name__ == "__main__":`'
                ) from error
        return self._executor


def _processes(executor: ProcessPoolExecutor | None) -> list[Any]:
    # NOTE: private until Python 3.14, which can end the processes of a pool itself.
    return [] if executor is None else list((executor._processes or {}).values())


def pickled(thing: Any) -> bytes:
    """Return it pickled plainly: PyTorch makes multiprocessing's own pickling move weights into shared memory."""
    try:
        return pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Cannot send this to a worker process: {error}. Define functions and classes at the top of a module,"
            " or use workers = 0."
        ) from error


def process_context(preload: Sequence[str]) -> Any:
    """Return how processes are started: not by forking this one, which may have threads (PyTorch's, OpenMP's).

    Where there is one, a server that has imported what is needed forks them instead: in a hundredth of a second
    rather than in one, or in three with PyTorch.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))  # heeded when the server starts
    return context


# Inside a worker

_player: dict[str, Any] = {}


def _begin(pickled: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the workers
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the parallelism
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    _player["pickled"] = pickled


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _ready() -> None:
    if "pickled" in _player:
        policy, task, rows, stop_at = pickle.loads(_player.pop("pickled"))
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        vector = open_vector(task, rows, stop_at=stop_at)
        _player.update(policy=policy, vector=vector)
        Finalize(None, vector.close, exitpriority=1)


def _play(jobs: list[Assignment], record: bool) -> list[Outcome]:
    _ready()
    finished: dict[int, Outcome] = {}
    for outcomes in play(_player["policy"], _player["vector"], jobs, record=record):
        finished |= outcomes
    return [finished[number] for number in range(len(jobs))]
