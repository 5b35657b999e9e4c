"""Time the Constrained Decision Transformer beside OSRL's: python benchmarks/cdt.py.

Needs an environment with OSRL, which `make bench-cdt` makes. Each contestant is a process in its
own environment, and they take turns, measurement by measurement, so that what else the machine does hits all alike.
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

from contest import Worker, machine, where

HERE = Path(__file__).resolve().parent
CONTESTANTS = {
    "lifesafe": (Path(sys.executable), HERE / "ours_cdt.py"),
    "OSRL": (HERE.parent / ".venv-osrl" / "bin" / "python", HERE / "rivals" / "osrl_worker.py"),
}
REMEDY = "`make bench-cdt` makes it"
OURS = ("as OSRL", "default")
CLOCKS = {"wall": "wall-clock time", "cpu": "processor time, which other jobs on the machine disturb less"}
WHAT = {
    "step": "gradient step, {batch} segments of 10 steps",
    "load": "loading {batch} segments of 10 steps",
    "act": "one step of {batch} episodes",
}

HOW = """\
Random data of the size of the Hopper velocity task (11 observations, 3 actions, 100 episodes of 1000 steps); width 128,
3 layers, 8 heads, context 10, dropout 0.1. The contestants took turns in one run: median of {repetitions} repetitions
after a warm-up, on {threads} thread(s), in {clock}. The ratio is OSRL's time to ours in the same repetition (median).

- OSRL: `CDTTrainer.train_one_step` on a batch that is there already; `DataLoader` over `SequenceDataset`;
  `CDTTrainer.rollout` of one episode, times the number of episodes, since it runs one after the other.
- as OSRL: `lifesafe.lab.osrl`, the same mathematics (tests/reference/test_cdt_osrl.py); the step includes loading.
- default: `CDTConfig()`: one token a step instead of four, segments of 20 steps, half as many; so as many steps.
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
        rows = [
            *(contest(workers, "step", batch, options.repetitions) for batch in options.batches),
            *(contest(workers, "load", batch, options.repetitions) for batch in options.batches[:1]),
            contest(workers, "act", 20, options.repetitions),
        ]
    finally:
        for worker in workers.values():
            worker.close()
    results = {
        "how": [
            line.format(repetitions=options.repetitions, threads=options.threads, clock=CLOCKS[options.clock])
            for line in HOW
        ],
        "versions": versions,
        "machine": machine(),
        "load": os.getloadavg(),
        "rows": [row for part in rows for row in part],
    }
    options.directory.mkdir(parents=True, exist_ok=True)
    (options.directory / "cdt.json").write_text(json.dumps(results, indent=2) + "\n")
    text = page(results)
    (options.directory / "cdt.md").write_text(text)
    print(text)


def contest(workers: dict[str, Worker], what: str, batch: int, repetitions: int) -> list[dict[str, Any]]:
    """Return the rows of one measurement: the times of each contestant, in turns."""
    times: dict[str, list[float]] = {name: [] for name in ("OSRL", *OURS)}
    for repetition in range(repetitions + 1):
        for name, measured in times.items():
            worker = workers["OSRL" if name == "OSRL" else "lifesafe"]
            config = {} if name == "OSRL" else {"config": name}
            seconds = worker("measure", what=what, batch=batch, **config)
            print(f"{what} {batch} {name}: {1000 * seconds:.1f} ms", file=sys.stderr, flush=True)
            if repetition:
                measured.append(seconds)
    return [
        {
            "what": WHAT[what].format(batch=batch),
            "contestant": name,
            "median": statistics.median(measured),
            "min": min(measured),
            "max": max(measured),
            "ratio": statistics.median(a / b for a, b in zip(times["OSRL"], measured, strict=True)),
        }
        for name, measured in times.items()
    ]


def random_data(episodes: int = 100, length: int = 1000) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    n = episodes * length
    return {
        "observations": random.normal(size=(n, 11)).astype(np.float32),
        "next_observations": random.normal(size=(n, 11)).astype(np.float32),
        "actions": random.uniform(-1, 1, size=(n, 3)).astype(np.float32),
        "rewards": random.uniform(0, 2, size=n).astype(np.float32),
        "costs": (random.random(n) < 0.03).astype(np.float32),
        "terminals": np.zeros(n),
        "timeouts": (np.arange(n) % length == length - 1).astype(float),
    }


def page(results: dict[str, Any]) -> str:
    """Return the results in Markdown."""
    lines = ["# Constrained Decision Transformer beside OSRL's", "", "Made by `python benchmarks/cdt.py`.", ""]
    lines += [*results["how"], "", where(results), ""]
    lines += ["| what | contestant | median | min - max | ratio |", "|---|---|---:|---:|---:|"]
    for row in results["rows"]:
        median, low, high = (f"{1000 * row[name]:.3g} ms" for name in ("median", "min", "max"))
        lines.append(f"| {row['what']} | {row['contestant']} | {median} | {low} - {high} | {row['ratio']:.3g}x |")
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 2048])
    parser.add_argument("--directory", type=Path, default=HERE / "results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
