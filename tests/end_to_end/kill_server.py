"""A warm process that forks one life of a run per line on its standard input, so that lives need no imports.

A line is: kind of kill, moment of the kill, run directory, file for acknowledgements, what is promised, seed of the
run. The answer is the process id of the life, and its exit status after it has ended.

A life opens the run, asks, evaluates and tells until the search is over, then operates, writing down each step once it
is done. It may be killed by the parent (`timer`), or kill itself: at the n-th call or return anywhere in the Python
code, counted from its start (`open`) or from when the run is open (`call`), or at the n-th SQL statement since then
(`sql`).
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lifesafe.errors import NoSafeTargetError
from lifesafe.operation import Operation
from lifesafe.safety import SafeOptimizer
from properties.runs import System, system

PROMISES: dict[str, dict[str, Any]] = {
    "trial": {"episodes": 80},
    "trial with a stop": {"episodes": 80, "stop_at": 40.0},
    "total": {"episodes": 44, "stop_at": 24.0, "promise": "total"},
}
SERVED = 1200  # over a snapshot
QUIET = 1100  # from then on the system is worn, and every target costs more than it did


class Killer:
    """Counts down to SIGKILL."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def live(place: str, log: int, kind: str, killer: Killer, promised: str, seed: int) -> None:
    plant = system(seed, steep=1.5, **PROMISES[promised])

    def note(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    if kind == "open":
        sys.setprofile(killer)
    with SafeOptimizer.open(place, plant.problem) as optimizer:
        if kind == "sql":
            optimizer.journal._connection.set_trace_callback(killer)  # type: ignore[union-attr]
        elif kind == "call":
            sys.setprofile(killer)
        search(optimizer, plant, seed, note)
        operate(optimizer, plant, seed, note)
    note("done", 0)


def search(optimizer: SafeOptimizer, plant: System, seed: int, note: Callable[..., None]) -> None:
    if optimizer.history.services:  # what is served may teach the search something, and it would go on
        return
    while (trial := optimizer.ask()) is not None:
        note("asked", trial.number)
        episodes = plant.episodes(trial.targets, np.random.default_rng([seed, trial.number]))
        note("evaluated", trial.number)
        optimizer.tell(trial, episodes)
        note("told", trial.number)


def operate(optimizer: SafeOptimizer, plant: System, seed: int, note: Callable[..., None]) -> None:
    operation = Operation(optimizer)
    try:
        operation.begin()
    except NoSafeTargetError:
        return
    while operation.target is not None and (done := operation.episodes) < SERVED:
        targets = [operation.target] * (100 if done < QUIET else 10)
        if done < QUIET:
            episodes = plant.episodes(targets, np.random.default_rng([seed, 10**6 + done]))
        else:
            worn = System(plant.problem, tuple(8.0 for _ in plant.slopes))
            episodes = worn.episodes([(400.0, 60.0)] * len(targets), np.random.default_rng([seed, 10**6 + done]))
        operation.tell(episodes)
        note("served", done)


def serve() -> None:
    warnings.simplefilter("ignore")
    SafeOptimizer(system(0).problem).ask()  # import all there is
    for line in sys.stdin:
        kind, moment, place, acknowledgements, promised, seed = line.rstrip("\n").split("\t")
        process = os.fork()
        if process == 0:
            log = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            live(place, log, kind, Killer(int(moment)), promised, int(seed))
            os._exit(0)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
