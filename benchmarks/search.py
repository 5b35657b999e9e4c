"""Time one ask + tell of our search beside SafeOpt's, and count what runs in it: `make bench`.

Each contestant is a process in its own environment, on one thread, and they take turns, measurement by measurement, so
that what else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

import lifesafe
from contest import THREADS, Worker, machine, where
from lifesafe.lab.coverage.deployment import CoverageRow, draw_world
from ours_search import FAMILIES, TIMED, TRIALS
from safeopt_client import PYTHON, open_safeopt

HERE = Path(__file__).resolve().parent
CLOCKS = {"wall": "wall-clock time", "cpu": "processor time, which other jobs on the machine disturb less"}
GRIDS = {1: (40, 100), 3: (10,)}
"""Targets along each axis of SafeOpt's grids, by the number of costs; there is an axis for the reward as well."""
ROOMS = ("journal", "safety", "operation")
OURS, RIVAL = "lifesafe", "SafeOpt"
GOALS = {"ask + tell": 0.020, "import": 0.3, "lines": 3500, "files": 14, "functions": 70}

HOW = """\
One ask + tell after {trials} trials, the median of the next {timed}; then the median of {repetitions} repetitions, in
{clock}, on one thread. The contestants took turns in one run. The ratio is to our search on disk with as many costs,
in the same repetition (median).

- lifesafe: `SafeOptimizer(problem)` in memory, and `SafeOptimizer.open(directory, problem)`, where every event is on
  disk before a call returns. The machines are `{one}` and `{three}` of `lifesafe theory coverage`. There is no grid.
- SafeOpt: its safe-UCB, `optimize(ucb=True)` and `add_new_data_point`, with the settings of its own examples, on grids
  of the same machines. It looks for no expanders there; its `optimize()` does, and takes longer.
- import: a fresh interpreter, less one that imports nothing.
""".splitlines()


def main() -> None:
    options = arguments()
    ours = Worker(OURS, Path(sys.executable), HERE / "ours_search.py", threads=1, remedy="`make bench` makes it")
    rival = open_safeopt()
    try:
        rows = contest(measurements(ours, rival, options.clock), options.repetitions)
        versions = {OURS: ours("versions"), RIVAL: rival("versions")}
        house = {promise: ours("house", promise=promise) for promise in ("trial", "total")}
    finally:
        ours.close()
        rival.close()
    how = {"trials": TRIALS, "timed": TIMED, "one": FAMILIES[1], "three": FAMILIES[3]}
    how |= {"repetitions": options.repetitions, "clock": CLOCKS[options.clock]}
    lines = lines_of_rooms()
    found = {
        "how": [line.format(**how) for line in HOW],
        "machine": machine(),
        "load": list(os.getloadavg()),
        "versions": versions,
        "rows": rows,
        "lines": lines,
        "house": house,
        "goals": goals(rows, lines, house["trial"]),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "search.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "search.md").write_text(page(found))
    print(page(found))


def measurements(ours: Worker, rival: Worker, clock: str) -> dict[tuple[str, str], Callable[[], float]]:
    """Return what is measured, by contestant and name."""
    found: dict[tuple[str, str], Callable[[], float]] = {}
    for costs, sizes in GRIDS.items():
        words = "1 cost" if costs == 1 else f"{costs} costs"
        for on_disk, place in ((False, "in memory"), (True, "on disk")):
            found[OURS, f"{words}, {place}"] = lambda costs=costs, on_disk=on_disk: ours(
                "measure", costs=costs, on_disk=on_disk, clock=clock
            )
        for size in sizes:
            scene = scene_of(costs, size)
            name = f"{words}, {len(scene['means']):,} targets"
            found[RIVAL, name] = lambda scene=scene: rival("measure", clock=clock, **scene)
    found[OURS, "import lifesafe"] = lambda: importing(Path(sys.executable), "import lifesafe", clock)
    shims = "import collections, collections.abc, numpy as np; collections.Sequence = collections.abc.Sequence"
    shims += "; np.bool = bool; np.float = float"  # as rivals/safeopt_search.py
    found[RIVAL, "import safeopt, GPy"] = lambda: importing(PYTHON, f"{shims}; import safeopt, GPy", clock)
    return found


def scene_of(costs: int, size: int) -> dict[str, Any]:
    """Return what SafeOpt is given: targets on a grid of the machine, the means there, the start and the limits."""
    world = draw_world(CoverageRow(family=FAMILIES[costs]), 0)
    ends = [np.linspace(low, high, size) for low, high in world.axes.values()]
    grid = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, len(ends))
    targets = np.concatenate([grid, np.array([world.start])])
    return {
        "candidates": targets.tolist(),
        "means": world.means(targets).tolist(),
        "starts": [len(grid)],
        "limits": list(world.limits),
        "trials": TRIALS,
        "repetitions": TIMED,
    }


def importing(python: Path, code: str, clock: str) -> float:
    """Return how long a fresh interpreter takes for some imports, less what it takes for none."""
    took = []
    for each in (code, "pass"):
        timer = "perf_counter" if clock == "wall" else "process_time"
        script = (
            "import subprocess, sys, time, resource\n"
            "now = time.perf_counter()\n"
            f"subprocess.run([{str(python)!r}, '-W', 'ignore', '-c', {each!r}], check=True)\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            f"print(time.perf_counter() - now if {timer!r} == 'perf_counter' else used.ru_utime + used.ru_stime)"
        )
        environment = os.environ | dict.fromkeys(THREADS, "1")
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        took.append(float(done.stdout))
    return took[0] - took[1]


def contest(measured: dict[tuple[str, str], Callable[[], float]], repetitions: int) -> list[dict[str, Any]]:
    """Return the rows: the times of everything, measured in turns after a warm-up."""
    times: dict[tuple[str, str], list[float]] = {key: [] for key in measured}
    for repetition in track(range(repetitions + 1), "repetitions", console=Console(stderr=True)):
        for key, measure in measured.items():
            seconds = measure()
            if repetition:
                times[key].append(seconds)
    return [
        {
            "contestant": key[0],
            "what": key[1],
            "median": statistics.median(taken),
            "min": min(taken),
            "max": max(taken),
            "ratio": statistics.median(a / b for a, b in zip(taken, times[reference(key[1])], strict=True)),
        }
        for key, taken in times.items()
    ]


def reference(what: str) -> tuple[str, str]:
    """Return what a measurement is compared with."""
    return (OURS, "import lifesafe") if what.startswith("import") else (OURS, f"{what.split(',')[0]}, on disk")


def lines_of_rooms() -> dict[str, int]:
    """Return how many lines the rooms have that a trial passes through."""
    source = Path(lifesafe.__file__).parent
    return {
        room: sum(len(file.read_text().splitlines()) for file in sorted((source / room).rglob("*.py")))
        for room in ROOMS
    }


def goals(rows: list[dict[str, Any]], lines: dict[str, int], house: dict[str, Any]) -> list[str]:
    """Return one line for each goal."""
    seconds = {row["what"]: row["median"] for row in rows if row["contestant"] == OURS}
    reached = {
        "ask + tell": max(value for what, value in seconds.items() if not what.startswith("import")),
        "import": seconds["import lifesafe"],
        "lines": sum(lines.values()),
        "files": house["files"],
        "functions": house["functions"],
    }
    words = {
        "ask + tell": "ask + tell after 30 trials, the slowest: {:.3f} s",
        "import": "import lifesafe: {:.3f} s",
        "lines": "lines of journal, safety and operation: {}",
        "files": "files of ours in one ask + tell on disk: {}",
        "functions": "functions of ours in one ask + tell on disk: {}",
    }
    return [
        ("met: " if reached[name] <= goal else "MISSED: ") + words[name].format(reached[name]) + f", goal {goal:g}"
        for name, goal in GOALS.items()
    ]


def page(found: dict[str, Any]) -> str:
    """Return the results in Markdown."""
    lines = ["# One ask + tell beside SafeOpt's", "", "Made by `make bench`.", "", *found["how"], "", where(found), ""]
    lines += ["| contestant | what | median | min - max | ratio |", "|---|---|---:|---:|---:|"]
    for row in found["rows"]:
        median, low, high = (f"{1000 * row[name]:.3g} ms" for name in ("median", "min", "max"))
        lines.append(f"| {row['contestant']} | {row['what']} | {median} | {low} - {high} | {row['ratio']:.3g}x |")
    lines += ["", "## Goals", "", *(f"- {line}" for line in found["goals"])]
    counts = ", ".join(f"{room} {count}" for room, count in found["lines"].items())
    lines += ["", "## What runs in one ask + tell on disk", "", f"Lines: {counts}.", ""]
    lines += ["Comprehensions, lambdas and generators are not counted as functions.", ""]
    for promise, house in found["house"].items():
        files = ", ".join(
            f"{path} {sum(not name.endswith('>') for name in names)}" for path, names in house["path"].items()
        )
        lines += [
            f'- Promise "{promise}", a trial of stage {house["stage"]}: {house["files"]} files, {house["functions"]}'
            f" functions: {files}."
        ]
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=5, help="after a warm-up (default 5)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="directory of search.json and search.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
