"""What collections reached, beside the public datasets: `python benchmarks/collection.py runs/collect-*`.

Reads the directories of finished or unfinished runs and writes a table, the numbers and a picture of all logged and
all chosen episodes to benchmarks/results/collection. Nothing is run: `lifesafe data collect TASK` does that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from lifesafe._files import write_atomic
from lifesafe.data.dsrl import read_dsrl
from lifesafe.lab.collection.shards import read_returns

RESULTS = Path(__file__).resolve().parent / "results" / "collection"
LEVELS = (0, 10, 20, 40)
PUBLIC = {  # reward at cost 0, about 20 and about 40, read off the plots of the public datasets; highest of all
    "AntRun": (700, 700, 700, 955),
    "AntCircle": (260, 290, 310, 461),
    "CarCircle": (425, 475, 475, 534),
    "DroneRun": (420, 430, 480, 683),
    "DroneCircle": (680, 700, 775, 996),
    "AntVelocity": (2750, 2800, 2850, 2976),
    "HalfCheetahVelocity": (2700, 2700, 2700, 2807),
    "HopperVelocity": (1700, 1730, 1730, 1911),
    "Walker2dVelocity": (2830, 2830, 2830, 3418),
}


def main() -> None:
    """Read the runs named on the command line and write the results."""
    rows = [row for path in sys.argv[1:] if (row := measure(Path(path))) is not None]
    if not rows:
        raise SystemExit("Give directories of runs that have a checkpoint: runs/collect-*")
    RESULTS.mkdir(parents=True, exist_ok=True)
    known = {row["task"]: row for row in previous()} | {row["task"]: row for row in rows}
    table = [known[task] for task in PUBLIC if task in known]
    write_atomic(RESULTS / "collection.json", json.dumps(table, indent=2) + "\n")
    write_atomic(RESULTS / "README.md", page(table))
    print(page(table))


def previous() -> list[dict[str, Any]]:
    """Return the rows of earlier results, for the tasks that are not measured now."""
    path = RESULTS / "collection.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def measure(run: Path) -> dict[str, Any] | None:
    """Return what a run reached, or nothing before its first checkpoint."""
    path = run / "training" / "state.json"
    if not path.exists():
        return None
    body = json.loads(path.read_text())
    task, state = body["identity"]["dataset"], body["plain"]
    shards = sorted((run / "shards").glob("shard-*.npz"))[: state["shards"]]
    returns = np.concatenate([read_returns(shard) for shard in shards])
    dataset = run / f"{task}.hdf5"
    chosen = read_dsrl(dataset).returns if dataset.exists() else None
    draw(task, returns, chosen)
    return {
        "task": task,
        "steps": state["steps"],
        "minutes": round(state.get("seconds", 0) / 60, 1),
        "logged": len(returns),
        "chosen": None if chosen is None else len(chosen),
        "best": {str(level): best(returns, level) for level in LEVELS},
        "highest": round(float(returns[:, 0].max()), 1),
        "steady": {str(level): steady(returns, level) for level in LEVELS},
    }


def best(returns: np.ndarray, level: float) -> float | None:
    """Return the highest reward of an episode within a cost."""
    within = returns[returns[:, 1] <= level, 0]
    return round(float(within.max()), 1) if len(within) else None


def steady(returns: np.ndarray, level: float) -> float | None:
    """Return the reward that twenty episodes within a cost reach: no lucky one."""
    within = np.sort(returns[returns[:, 1] <= level, 0])
    return round(float(within[-20]), 1) if len(within) >= 20 else None


def draw(task: str, returns: np.ndarray, chosen: np.ndarray | None) -> None:
    """Draw the plane of cost and reward."""
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axes.plot(returns[:, 1], returns[:, 0], ".", ms=1, color="0.75", label=f"{len(returns)} logged", rasterized=True)
    if chosen is not None:
        axes.plot(chosen[:, 1], chosen[:, 0], ".", ms=2, color="tab:blue", label=f"{len(chosen)} chosen")
    axes.plot((0, 20, 40), PUBLIC[task][:3], "x-", color="tab:red", label="public frontier")
    axes.set(xlabel="cost", ylabel="reward", title=task)
    for handle in axes.legend(fontsize=7).legend_handles:
        handle.set_markersize(5)
    figure.savefig(RESULTS / f"{task}.png", dpi=110)
    plt.close(figure)


def page(table: list[dict[str, Any]]) -> str:
    """Return the results in Markdown."""
    lines = [
        "# What collections reached",
        "",
        "Highest reward of an episode within a cost; in brackets what the twentieth best reaches. The public numbers",
        "are read off the plots of the public datasets, at cost 0, 20 and 40 and over all.",
        "",
        "| task | steps | minutes | logged | chosen | cost 0 | 10 | 20 | 40 | any | public | at 20 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    for row in table:
        public = PUBLIC[row["task"]]
        levels = [f"{text(row['best'][str(level)])} ({text(row['steady'][str(level)])})" for level in LEVELS]
        share = f"{row['best']['20'] / public[1]:.0%}" if row["best"]["20"] is not None else "-"
        cells = [
            row["task"],
            f"{row['steps'] / 1e6:.2f} M",
            f"{row['minutes']:.0f}",
            str(row["logged"]),
            text(row["chosen"]),
            *levels,
            text(row["highest"]),
            " / ".join(map(str, public)),
            share,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def text(number: float | None) -> str:
    return "-" if number is None else f"{number:.0f}"


if __name__ == "__main__":
    main()
