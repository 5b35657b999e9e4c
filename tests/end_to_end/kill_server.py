"""A warm process that forks one life of a run per line on its standard input, so that lives need no imports.

A line is: kind of kill, moment of the kill, run directory, file for acknowledgements, seed of the run.
The answer is the process id of the life, and its exit status after it has ended.

A life opens the run, and asks, evaluates and tells until there is nothing left, writing down each step once it is
done. It may be killed by the parent (`timer`), or kill itself: at the n-th call or return anywhere in the Python code,
counted from its start (`open`) or from when the run is open (`call`), or at the n-th SQL statement since then (`sql`).
"""

import os
import signal
import sys
import warnings

import numpy as np

from lifesafe.optimizer import SafeOptimizer, Stage
from properties.runs import lively, quick


class Killer:
    """Counts down to SIGKILL."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def live(place: str, log: int, kind: str, killer: Killer, seed: int) -> None:
    system = lively(np.random.default_rng(seed), size=6)

    def note(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    if kind == "open":
        sys.setprofile(killer)
    with SafeOptimizer.open(place, system.problem, quick(trials=7, surprises=99)) as optimizer:
        if kind == "sql":
            optimizer._journal._connection.set_trace_callback(killer)  # type: ignore[union-attr]
        elif kind == "call":
            sys.setprofile(killer)
        for trial in optimizer.open_trials:
            note("open", trial.number, trial.index)
        while optimizer.stage is not Stage.DONE:
            trial = optimizer.ask()
            if trial is None:
                break
            note("asked", trial.number, trial.index)
            rng = np.random.default_rng([seed, trial.number])
            episodes = system.episodes(trial.index, trial.episodes, rng)
            note("evaluated", trial.number)
            optimizer.tell(trial, episodes)
            note("told", trial.number)
    note("done", 0)


def serve() -> None:
    warnings.simplefilter("ignore")
    SafeOptimizer(lively(np.random.default_rng(0), size=6).problem, quick()).ask()  # import all there is
    for line in sys.stdin:
        kind, moment, place, acknowledgements, seed = line.rstrip("\n").split("\t")
        process = os.fork()
        if process == 0:
            log = os.open(acknowledgements, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            live(place, log, kind, Killer(int(moment)), int(seed))
            os._exit(0)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
