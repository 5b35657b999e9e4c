"""lifesafe as a contestant of benchmarks/search.py: one ask + tell, and which of our files and functions run in it.

The machines are two of the coverage study, with one cost and with three. A search has 30 trials behind it; the next
five are timed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import lifesafe
from lifesafe import Returns, SafeOptimizer
from lifesafe.lab.coverage.deployment import CoverageRow, draw_world, drawn_episodes, problem_for
from lifesafe.lab.coverage.worlds import World
from lifesafe.safety import Trial
from rivals.protocol import serve, timed

TRIALS, TIMED = 30, 5
FAMILIES = {1: "overshoot", 3: "costs_3"}  # by the number of costs
SOURCE = Path(lifesafe.__file__).parent


class Run:
    """A search on a known machine, from trial to trial."""

    def __init__(self, costs: int, directory: Path | None = None, promise: str = "trial") -> None:
        stop = 3.0 if promise == "total" else None
        self.row = CoverageRow(family=FAMILIES[costs], promise=promise, stop=stop, episodes=600)  # type: ignore[arg-type]
        self.world: World = draw_world(self.row, 0)
        problem = problem_for(self.row, self.world, 0)
        self.optimizer = SafeOptimizer(problem) if directory is None else SafeOptimizer.open(directory, problem)

    def episodes(self, trial: Trial) -> list[Returns]:
        """Return what the episodes of a trial return."""
        points = tuple(map(self.optimizer.problem.point, trial.targets))
        drawn = drawn_episodes(self.row, self.world, 0, trial.number, points)
        return [Returns(reward, costs) for reward, *costs in drawn.tolist()]

    def ask(self) -> Trial:
        """Return the next trial, which there must be."""
        trial = self.optimizer.ask()
        if trial is None:
            raise RuntimeError(f"The search ended before trial {TRIALS}: {self.optimizer.done}. Change the machine.")
        return trial

    def step(self, clock: str = "wall") -> float:
        """Run a trial; return how long ask and tell took."""
        trial, ask = timed(self.ask, clock)
        episodes = self.episodes(trial)
        _, tell = timed(lambda: self.optimizer.tell(trial, episodes), clock)
        return ask + tell

    def warm(self) -> None:
        """Run the trials that come before those of interest."""
        for _ in range(TRIALS):
            self.step()


class LifesafeContestant:
    """Our search."""

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("lifesafe", "numpy", "scipy")}

    def measure(self, costs: int, on_disk: bool, clock: str) -> float:
        """Return the median time of one ask + tell, of five after 30 trials."""
        with begun(costs, on_disk) as run:
            run.warm()
            return float(np.median([run.step(clock) for _ in range(TIMED)]))

    def house(self, promise: str) -> dict[str, Any]:
        """Return which of our files and functions run in one ask + tell on disk, after 30 trials."""
        with begun(1, True, promise) as run:
            run.warm()
            found: set[CodeType] = set()
            with traced(found):
                trial = run.ask()
            episodes = run.episodes(trial)
            with traced(found):
                run.optimizer.tell(trial, episodes)
        functions: dict[str, list[str]] = {}
        for code in sorted(found, key=lambda code: (code.co_filename, code.co_firstlineno)):
            path = str(Path(code.co_filename).relative_to(SOURCE))
            functions.setdefault(path, []).append(code.co_qualname)
        named = [name for names in functions.values() for name in names if not name.endswith(">")]
        return {"stage": trial.stage, "files": len(functions), "functions": len(named), "path": functions}


@contextmanager
def begun(costs: int, on_disk: bool, promise: str = "trial") -> Iterator[Run]:
    """Begin a search, in memory or in a directory that goes with it."""
    with tempfile.TemporaryDirectory() as place:
        run = Run(costs, Path(place) / "run" if on_disk else None, promise)
        with run.optimizer:
            yield run


@contextmanager
def traced(found: set[CodeType]) -> Iterator[None]:
    """Collect the code of ours that runs; comprehensions, lambdas and generators are told apart by their names."""
    ours = str(SOURCE)

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            found.add(frame.f_code)

    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    serve(LifesafeContestant())
