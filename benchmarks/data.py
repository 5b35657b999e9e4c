"""Make the data of the comparison again: `python benchmarks/data.py [TASK ...]`, into data/TASK.hdf5.

A collection depends on its settings, its seed, the kind of processor and whether EnvPool is installed, as it was, so
what a clean run of the same steps gives on such a machine is the file that the committed rows name, to the last bit;
this script says whether it is. Hopper's file is a sample that was not collected here. Runs may be interrupted and go
on, but an interruption begins new episodes, and what follows differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from lifesafe.data import read_dsrl

ROWS = Path(__file__).resolve().parent / "results" / "bench-cpu" / "rows"
SETTINGS = {  # beyond the presets: how far each was run, and how much of it is kept
    "DroneRun": ["stop=1568768"],
    "HalfCheetahVelocity": ["stop=2718720"],
    "AntVelocity": ["stop=4746240"],
    "Walker2dVelocity": [],
    "CarCircle": [],
    "AntRun": ["stop=1869824"],
    "AntCircle": [],
    "DroneCircle": [],
}


def main() -> int:
    """Collect the tasks named on the command line and compare fingerprints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(SETTINGS)}; all, unless given")
    parser.add_argument("--out", type=Path, default=Path("data"), help="directory of the files (data)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="directory of the collections' runs (runs)")
    chosen = parser.parse_args()
    if unknown := set(chosen.tasks) - SETTINGS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(SETTINGS)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    same = [make(task, chosen.runs, chosen.out) for task in chosen.tasks or SETTINGS]
    return 0 if all(same) else 1


def make(task: str, runs: Path, out: Path) -> bool:
    """Collect a task's data and return whether they are those of the committed rows."""
    run = runs / f"collect-{task}"
    settings = [word for setting in SETTINGS[task] for word in ("--set", setting)]
    command = [sys.executable, "-m", "lifesafe.cli", "data", "collect", task, *settings, "--out", str(run)]
    subprocess.run(command, check=True)
    shutil.copy(run / f"{task}.hdf5", out)
    made, known = read_dsrl(out / f"{task}.hdf5").fingerprint, fingerprint(task)
    print(f"{task}: {made[:8]}, {'as in' if made == known else f'not {known[:8]} as in'} the committed rows")
    return made == known


def fingerprint(task: str) -> str:
    """Return the fingerprint of the data behind the committed rows of a task."""
    path = next(ROWS.glob(f"{task}-*.json"))
    row: dict[str, str] = json.loads(path.read_text())[0]
    return row["fingerprint"]


if __name__ == "__main__":
    sys.exit(main())
