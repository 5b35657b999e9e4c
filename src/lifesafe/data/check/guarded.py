"""The same check in a process of its own: a damaged file may crash the HDF5 library, or ask for all memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lifesafe._config import from_plain
from lifesafe.data.check.checks import check
from lifesafe.data.check.episodes import TaskSizes
from lifesafe.data.check.finding import Finding, found

_PATIENCE = 600  # seconds of work; two million transitions take a few
_SIZES = ("name", "observations", "actions", "horizon", "limits", "largest_costs")


def check_in_child(
    path: str | Path, *, limits: Sequence[float] | None = None, task: TaskSizes | None = None
) -> list[Finding]:
    """Return what `check` finds in a file; if reading it crashes or does not end, that is the finding."""
    sizes = {name: getattr(task, name) for name in _SIZES} if task else None
    order = {"path": str(path), "limits": limits, "task": sizes}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lifesafe.data.check"], input=json.dumps(order).encode(), capture_output=True
    )
    if done.returncode == 0:
        return [from_plain(Finding, plain) for plain in json.loads(done.stdout)]
    return [found("error", "unreadable", f"{path} cannot be checked: {_reason(done)}.")]


def serve() -> None:
    """Do what standard input asks for, as the child."""
    _limit_resources()
    order = json.loads(sys.stdin.read())
    task: Any = SimpleNamespace(**order["task"]) if order["task"] else None
    print(json.dumps([asdict(finding) for finding in check(order["path"], limits=order["limits"], task=task)]))


def _limit_resources() -> None:
    with contextlib.suppress(ValueError, OSError):  # some systems do not let us
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (_PATIENCE, _PATIENCE + 10))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode == -signal.SIGXCPU:
        return f"it took more than {_PATIENCE // 60} minutes"
    if done.returncode == -signal.SIGKILL:
        return "the system killed the check, probably for want of memory"
    if done.returncode < 0:
        return f"it crashes the HDF5 library ({signal.Signals(-done.returncode).name}), so it is damaged"
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return "there is not enough memory for it" if "MemoryError" in last else last
