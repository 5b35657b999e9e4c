"""What the contests share: a process for each contestant, and what is said of the machine they ran on.

Each contestant is a process in its own environment; they take turns, measurement by measurement, so that what else
the machine does hits all alike.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Worker:
    """A contestant's process, asked one thing at a time (rivals/protocol.py answers).

    Args:
        name: Of the contestant, for messages.
        python: The interpreter of its environment.
        script: What it runs.
        threads: How many threads it may use.
        remedy: How to make its environment.
    """

    def __init__(self, name: str, python: Path, script: Path, *, threads: int, remedy: str) -> None:
        if not python.exists():
            raise SystemExit(f"{name} has no environment yet; {remedy}.")
        self.name = name
        self.process = subprocess.Popen(
            [python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | dict.fromkeys(THREADS, str(threads)),
        )

    def __call__(self, do: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended before it answered {do!r}; its own message is above.")
        answer = json.loads(line)
        if "error" in answer:
            raise SystemExit(f"{self.name} could not {do}:\n{answer['error']}")
        return answer["answer"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def where(results: dict[str, Any]) -> str:
    """Return the line that says on which machine, under which load and with which versions it was."""
    versions = "; ".join(
        f"{name}: {', '.join(f'{package} {v}' for package, v in pairs.items())}"
        for name, pairs in results["versions"].items()
    )
    load = ", ".join(f"{value:.1f}" for value in results["load"])
    return f"{results['machine']}; load averages at the end {load}. {versions}."
