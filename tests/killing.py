"""Lives of a program in forked children that die at a chosen moment; the servers in end_to_end fork them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TESTS = Path(__file__).parent
KILLED = -signal.SIGKILL


class Server:
    """A warm process that starts a life for each line it is sent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._in, self._out = process.stdin, process.stdout

    def life(self, *asked: object, kind: str = "none", moment: float = 0) -> int:
        """Run one life and return its exit code.

        Args:
            *asked: What the server wants to know.
            kind: How it dies; `timer` is seen to from here.
            moment: When: seconds for a timer, else a number of events.
        """
        assert self._in is not None
        assert self._out is not None
        print(kind, 0 if kind == "timer" else int(moment), *asked, sep="\t", file=self._in, flush=True)
        process = int(self._out.readline())
        if kind == "timer":
            time.sleep(moment)
            with suppress(ProcessLookupError):  # if it has ended by itself
                os.kill(process, signal.SIGKILL)
        return int(self._out.readline())


@contextmanager
def serving(script: str) -> Iterator[Server]:
    """Run a server of this directory; it must end in peace."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, str(TESTS / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0
