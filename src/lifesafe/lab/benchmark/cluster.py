"""Jobs on Ray: this machine, or all machines of a cluster.

Nothing has to be shared between machines: data travel through Ray's object store to those that do not see the file, and
rows travel back. Where the directory of the suite is on a file system that all machines see, trainings are kept
there, and go on wherever they are tried again; else on the machine that ran them.
"""

from __future__ import annotations

import hashlib
import secrets
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lifesafe._config import fingerprint, from_plain, to_plain
from lifesafe._files import write_atomic
from lifesafe._optional import require
from lifesafe.lab.benchmark.results import Row, write_rows
from lifesafe.lab.benchmark.runner import ERROR, job_directory, reporter
from lifesafe.lab.benchmark.suite import Job, Suite

Work = Callable[[Job, Suite, Path | None, list[Any], str, str, str], tuple[list[dict[str, Any]], str | None]]
"""Runs one job on some machine, with the arguments of `run_remotely`; returns its rows, or its error."""


class RayTasks:
    """A pool of Ray tasks.

    Args:
        suite: What the jobs belong to.
        directory: Of the suite, on this machine.
        data: The file to learn from, by task; the tasks' own data for those not given.
        address: Of a cluster: "auto", "ray://host:10001"; this machine alone unless given.
        cpus: Processors that each job asks for; may be a fraction.
        gpus: GPUs that each job asks for; may be a fraction. If any, it trains on one.
        work: What a job does on its machine, for simulations; `run_remotely` unless given.
    """

    def __init__(
        self,
        suite: Suite,
        directory: str | Path,
        *,
        data: Mapping[str, Path] | None = None,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        work: Work | None = None,
    ) -> None:
        self._ray = require("ray", name="Ray", extra="ray", user="A suite with --ray")
        self._suite, self._root = suite, Path(directory)
        self.data: Mapping[str, Path] = dict(data or {})
        self._cpus, self._gpus = cpus, gpus
        self._begun_here = not self._ray.is_initialized()
        if self._begun_here:
            self._ray.init(address=address, log_to_driver=False, configure_logging=False, include_dashboard=False)
        self._root.mkdir(parents=True, exist_ok=True)
        self._token = self._root / f".ray-{secrets.token_hex(8)}"  # who sees it shares the directory
        self._token.touch()
        self._sent: dict[str, Any] = {}
        self._running: dict[Any, Job] = {}
        # NOTE: a task that died is tried again by the runner, which tells of it, and not by Ray.
        self._remote = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(work or run_remotely)

    def room(self) -> int:
        resources = self._ray.cluster_resources()
        rooms = [resources.get("CPU", 0.0) / self._cpus] if self._cpus else []
        rooms += [resources.get("GPU", 0.0) / self._gpus] if self._gpus else []
        return int(min(rooms)) if rooms else 1

    def start(self, job: Job) -> None:
        path = self.data.get(job.task)
        if path is not None and job.task not in self._sent:
            self._sent[job.task] = self._ray.put(path.read_bytes())
        device = "cuda" if self._gpus else "cpu"
        sent = [self._sent[job.task]] if path is not None else []  # in a list, so that it is fetched only where needed
        reference = self._remote.remote(job, self._suite, path, sent, str(self._root), self._token.name, device)
        self._running[reference] = job

    def ended(self) -> list[tuple[Job, str | None]]:
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [(self._running[each], self._outcome(each, self._running.pop(each))) for each in ready]

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._token.unlink(missing_ok=True)
        if self._begun_here:
            self._ray.shutdown()

    def _outcome(self, reference: Any, job: Job) -> str | None:
        """Write the rows of a job that has ended, and return why it failed if it did."""
        try:
            rows, error = self._ray.get(reference)
        except self._ray.exceptions.RayError as problem:  # its process died, or its machine
            return str(problem).strip().splitlines()[0]
        if error is None:
            write_rows(self._root, job.name, [from_plain(Row, row, source=job.name) for row in rows])
            return None
        job_directory(self._root, job).mkdir(parents=True, exist_ok=True)
        write_atomic(job_directory(self._root, job) / ERROR, error)
        return str(error).strip().splitlines()[-1]


def run_remotely(
    job: Job, suite: Suite, data: Path | None, sent: list[Any], root: str, token: str, device: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Run one job on some machine; return its rows, or its error."""
    import ray
    import torch

    from lifesafe.lab.benchmark.jobs import run_job

    torch.set_num_threads(1)
    shared = (Path(root) / token).exists()
    apart = f"lifesafe-{suite.name}-{fingerprint(root, 8)}"  # suites of one name may come from several directories
    home = Path(root) if shared else Path(tempfile.gettempdir()) / apart
    directory = job_directory(home, job)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        if data is not None and not (shared and data.exists()):
            content = ray.get(sent[0])
            data = home / "data" / hashlib.sha256(content).hexdigest()[:16] / data.name
            if not data.exists():
                data.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(data, content)
        rows = run_job(job, suite, data, directory, device=device, report=reporter(home, job))
    except Exception:
        return [], traceback.format_exc()
    return [to_plain(row) for row in rows], None
