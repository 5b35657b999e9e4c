"""A warm process that forks one life of a training per line on its standard input, so that lives need no imports.

A line is: kind of kill, moment of the kill, directory, method. The answer is the process id of the life, and its exit
status after it has ended. A life may be killed by the parent (`timer`), or kill itself at the n-th event, as Python's
profiler counts them, in the code that writes files (`write`).
"""

import os
import signal
import sys
from dataclasses import replace
from types import FrameType

import torch

from lifesafe.policies import train
from small_data import small_dataset
from small_methods import METHODS

WRITERS = ("_files.py", "checkpoint.py", "training_state.py")
STEPS = 12


class Killer:
    """Counts down to SIGKILL."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.endswith(WRITERS):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def live(directory: str, method: str, kind: str, moment: int) -> None:
    config, dataset = replace(METHODS[method], steps=STEPS), small_dataset()
    if kind == "write":
        sys.setprofile(Killer(moment))
    train(config, dataset, seed=1, directory=directory, checkpoint_every=0, log_every=2, validate_every=5)


def serve() -> None:
    torch.set_num_threads(1)  # the threads of a pool do not survive a fork
    for config in METHODS.values():
        train(replace(config, steps=1), small_dataset())  # imports all there is: PyTorch loads much of itself late
    for line in sys.stdin:
        kind, moment, directory, method = line.rstrip("\n").split("\t")
        process = os.fork()
        if process == 0:
            live(directory, method, kind, int(moment))
            os._exit(0)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
