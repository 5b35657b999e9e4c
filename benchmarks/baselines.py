"""Time the baselines beside OSRL's: python benchmarks/baselines.py.

Needs an environment with OSRL, which `make bench-baselines` makes. Each contestant is a process in its own
environment, and they take turns, measurement by measurement, so that what else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cdt import CLOCKS, random_data
from contest import Worker, machine, where

HERE = Path(__file__).resolve().parent
CONTESTANTS = {
    "lifesafe": (Path(sys.executable), HERE / "ours_baselines.py"),
    "OSRL": (HERE.parent / ".venv-osrl" / "bin" / "python", HERE / "rivals" / "osrl_baselines_worker.py"),
}
REMEDY = "`make bench-baselines` makes it"
METHODS = {"bcq-lag": "BCQ-Lag", "bear-lag": "BEAR-Lag", "cpq": "CPQ", "coptidice": "COptiDICE"}
OURS = ("as OSRL", "default")

HOW = """\
One gradient step on {batch} transitions: random data of the size of the Hopper velocity task (11 observations, 3
actions, 100 episodes of 1000 steps), two hidden layers of 256, of 400 in VAEs. The contestants took turns in one run:
median of {repetitions} repetitions after a warm-up, each the mean of {steps} steps, on {threads} thread(s), in {clock}.
The ratio is OSRL's time to ours in the same repetition (median). Products are the floating point operations of all
matrix products of a step, most of its work: where OSRL's are as many as ours, only what is around them can be saved.

- OSRL: `train_one_step` of its trainer on a batch that is there already, so without its loading.
- as OSRL: `.osrl()` of each method's settings, the same mathematics (tests/reference/test_baselines_osrl.py) but for
  the noise behind the targets of reward and cost, which is drawn once for both; the step includes loading.
- default: the method as its authors define it. BCQ-Lag and BEAR-Lag have 2 critics of each return instead of 4; CPQ
  has a conservative term with a gradient, COptiDICE draws first observations besides the batch.
""".splitlines()


def main() -> None:
    options = arguments()
    workers = {
        name: Worker(name, *place, threads=options.threads, remedy=REMEDY) for name, place in CONTESTANTS.items()
    }
    try:
        versions = {name: worker("versions") for name, worker in workers.items()}
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "data.npz"
            np.savez(path, **random_data())
            for worker in workers.values():
                worker("prepare", path=str(path), threads=options.threads, clock=options.clock)
        rows = [row for method in options.methods for row in contest(workers, method, options)]
    finally:
        for worker in workers.values():
            worker.close()
    results = {
        "how": [line.format(**vars(options) | {"clock": CLOCKS[options.clock]}) for line in HOW],
        "versions": versions,
        "machine": machine(),
        "load": os.getloadavg(),
        "rows": rows,
    }
    options.directory.mkdir(parents=True, exist_ok=True)
    (options.directory / "baselines.json").write_text(json.dumps(results, indent=2) + "\n")
    text = page(results)
    (options.directory / "baselines.md").write_text(text)
    print(text)


def contest(workers: dict[str, Worker], method: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of one method: the times of each contestant, in turns."""

    def ask(name: str, do: str, **arguments: Any) -> Any:
        preset = {} if name == "OSRL" else {"preset": name}
        worker = workers["OSRL" if name == "OSRL" else "lifesafe"]
        return worker(do, method=method, batch=options.batch, **arguments, **preset)

    times: dict[str, list[float]] = {name: [] for name in ("OSRL", *OURS)}
    for repetition in range(options.repetitions + 1):
        for name, measured in times.items():
            seconds = ask(name, "measure", steps=options.steps)
            print(f"{method} {name}: {1000 * seconds:.1f} ms", file=sys.stderr, flush=True)
            if repetition:
                measured.append(seconds)
    return [
        {
            "what": METHODS[method],
            "contestant": name,
            "products": ask(name, "count"),
            "median": statistics.median(measured),
            "min": min(measured),
            "max": max(measured),
            "ratio": statistics.median(a / b for a, b in zip(times["OSRL"], measured, strict=True)),
        }
        for name, measured in times.items()
    ]


def page(results: dict[str, Any]) -> str:
    """Return the results in Markdown."""
    lines = ["# Baselines beside OSRL's", "", "Made by `python benchmarks/baselines.py`.", ""]
    lines += [*results["how"], "", where(results), ""]
    lines += ["| method | contestant | products | median | min - max | ratio |", "|---|---|---:|---:|---:|---:|"]
    for row in results["rows"]:
        median, low, high = (f"{1000 * row[name]:.3g} ms" for name in ("median", "min", "max"))
        products = f"{row['products'] / 1e9:.3g} GFLOP"
        who = f"{row['what']} | {row['contestant']}"
        lines.append(f"| {who} | {products} | {median} | {low} - {high} | {row['ratio']:.3g}x |")
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="gradient steps per measurement")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--directory", type=Path, default=HERE / "results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
