"""How lucky the cheap episodes of logs look at the rewards where a search would begin.

    python benchmarks/luck.py data/AntCircle.hdf5 data/Walker2dVelocity.hdf5

PointCircle needs no file. Writes benchmarks/results/luck.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lifesafe._files import write_atomic
from lifesafe.data import Dataset, read_dsrl
from lifesafe.data.luck import MOST, luck
from lifesafe.safety import Problem
from lifesafe.systems import task as find_task

RESULT = Path(__file__).resolve().parent / "results" / "luck.md"
LIMITS = (10.0, 20.0, 40.0)
EMBEDDED = "PointCircle"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("files", type=Path, nargs="*", metavar="TASK[-NAME].hdf5")
    lines = [
        "# Luck at the rewards where a search would begin",
        "",
        "Made by `python benchmarks/luck.py FILE ...`. For each start of a CDT, in order: the reward that is asked for",
        "at no cost, and how lucky the cheap episodes look that earned about so much. Luck is the mean cost, in",
        "limits, of the other halves of episodes that are like them by one half.",
        f"Bold: above {MOST}, left out. [Decision 0015](../../docs/decisions/0015-luck.md) says why.",
        "",
        "| data | episodes | " + " | ".join(f"limit {limit:g}" for limit in LIMITS) + " |",
        "|---|---:|" + "---|" * len(LIMITS),
    ]
    lines += [row(file.stem, read_dsrl(file)) for file in words.parse_args().files]
    lines.append(row(EMBEDDED, find_task(EMBEDDED).dataset()))
    write_atomic(RESULT, "\n".join(lines) + "\n")
    print(RESULT.read_text())


def row(stem: str, dataset: Dataset) -> str:
    """Return the row of a dataset: what its starts ask for, and how lucky that is, under each limit."""
    cells = [f"{stem} {dataset.fingerprint[:8]}", str(len(dataset))]
    for limit in LIMITS:
        problem = Problem.from_returns(dataset.returns, limits=limit)
        rewards = [float(problem.low[0] + problem.extents[0]), *(start[0] for start in problem.starts)]
        told = zip(rewards, luck(dataset, [limit], rewards), strict=True)
        cells.append(", ".join(f"{r:.0f}: **{x:.2f}**" if x > MOST else f"{r:.0f}: {x:.2f}" for r, x in told))
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
