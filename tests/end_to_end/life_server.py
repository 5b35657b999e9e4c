"""A warm process that forks one whole life per line on its standard input, so that lives need no imports.

A line is: kind of kill, moment of the kill, directory, what is promised. The answer is the process id of the life, and
its exit status after it has ended. A life may be killed by the parent (`timer`), or kill itself at the n-th event, as
Python's profiler counts them, in lifesafe's own code (`call`).
"""

import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

import torch

from lifesafe.life import Search
from small_life import small_life

PROMISES = {
    "trial": Search(episodes=60),
    "total": Search(episodes=30, stop_at=30.0, promise="total"),
}
EPISODES = 25


class Killer:
    """Counts down to SIGKILL."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if "/lifesafe/" in frame.f_code.co_filename:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def live(directory: Path, promised: str) -> None:
    with small_life(directory, search=PROMISES[promised]) as life:
        life.train(checkpoint_every=0.05)
        if life.phase != "operate":  # what is served may show that there is more to gain; a life serves on
            life.optimize()
        for _ in life.operate(EPISODES - life.served):
            pass


def serve() -> None:
    torch.set_num_threads(1)  # the threads of a pool do not survive a fork
    with tempfile.TemporaryDirectory() as place:
        live(Path(place), "trial")  # imports all there is
    for line in sys.stdin:
        kind, moment, directory, promised = line.rstrip("\n").split("\t")
        process = os.fork()
        if process == 0:
            if kind == "call":
                sys.setprofile(Killer(int(moment)))
            live(Path(directory), promised)
            os._exit(0)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
