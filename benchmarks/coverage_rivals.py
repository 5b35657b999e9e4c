"""Coverage of the suite "rivals", SafeOpt included: one table of ours, the paper's search and SafeOpt.

    make .venv-rivals/.installed
    .venv/bin/python benchmarks/coverage_rivals.py                       # hours on two cores
    .venv/bin/python benchmarks/coverage_rivals.py --family overshoot --deployments 4 --out /tmp/rivals.md

`lifesafe theory coverage rivals` simulates all of these rows but SafeOpt's. With the same `--out`, both share their
outcomes, and a study that was stopped goes on.

SafeOpt is its own safe-UCB with the settings of its own examples; rivals/safeopt_search.py names them. It chooses on
the grid that the paper's search has, in trials of as many episodes.
"""

from __future__ import annotations

import argparse
import atexit
import json
from functools import cache
from pathlib import Path

import numpy as np

from contest import Worker
from lifesafe.console.progress import progress
from lifesafe.lab.coverage.deployment import CoverageRow, Deployment, deploy, deploy_rival
from lifesafe.lab.coverage.simulation import simulate
from lifesafe.lab.coverage.suite import SUITES
from lifesafe.lab.coverage.table import markdown, summarize_row
from lifesafe.lab.coverage.worlds import World
from safeopt_client import SafeOptSearch, open_safeopt

SUITE = "rivals"
RESULT = Path("runs/coverage") / f"{SUITE}.md"
"""Where `lifesafe theory coverage rivals` has its table, too."""
LENGTHSCALES = (None, 0.3)
"""Of SafeOpt's kernel, as a share of each axis: that of its examples, and one that fits these machines better."""


def rows_of(family: str | None) -> list[CoverageRow]:
    """Return the rows of the suite, SafeOpt's after those of the same family."""
    suite = [row for row in SUITES[SUITE][0] if family in (None, row.family)]
    found = []
    for name in dict.fromkeys(row.family for row in suite):
        found += [row for row in suite if row.family == name]
        found += [CoverageRow(family=name, search="safeopt", lengthscale=length) for length in LENGTHSCALES]
    return found


def run(row: CoverageRow, number: int) -> Deployment:
    """Return what one deployment came to."""
    return deploy_rival(row, number, begin) if row.search == "safeopt" else deploy(row, number)


def begin(row: CoverageRow, targets: np.ndarray, start: int, world: World) -> SafeOptSearch:
    """Begin a search of SafeOpt."""
    return SafeOptSearch(targets, (start,), world.limits, lengthscale=row.lengthscale, worker=shared())


@cache
def shared() -> Worker:
    """Return the process of SafeOpt that all searches of this process share."""
    worker = open_safeopt()
    atexit.register(worker.close)
    return worker


def main() -> None:
    options = arguments()
    rows, count = rows_of(options.family), options.deployments or SUITES[SUITE][1]
    if not rows:
        raise SystemExit(f"The suite {SUITE} has no family {options.family!r}.")
    open_safeopt().close()  # so that what is missing is said at once, and not by a worker
    with progress(f"{len(rows)} rows") as report:
        found = simulate(rows, count, options.out.with_suffix(""), workers=options.workers, report=report, run=run)
    text = markdown(found)
    options.out.write_text(text)
    numbers = [summarize_row(row, outcomes).to_plain() for row, outcomes in found.items()]
    options.out.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", help="only the rows on machines of this family")
    parser.add_argument("--deployments", type=int, help="of each row; as many as the suite needs unless given")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULT, help="the table; numbers and outcomes are beside it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
