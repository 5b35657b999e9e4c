"""Our search on measured planes of real policies: regret, broken promises and use of the limit.

    .venv/bin/python benchmarks/planes.py                                    # hours on two cores
    .venv/bin/python benchmarks/planes.py --tasks CarCircle AntRun --repeats 1 --out /tmp/planes

A world is the plane of one trained policy, its mean returns at a grid of targets (benchmarks/results/alignment), and
one limit. `measured.py` says how it is interpolated, and which law its episodes follow. Every outcome
is in `--outcomes` when it is known, so a study that was stopped goes on: run it again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lifesafe._config import fingerprint, to_plain
from lifesafe.console.progress import progress
from lifesafe.errors import GuaranteeWarning
from lifesafe.lab.coverage.deployment import CoverageRow, Deployment, Judge, problem_for, search
from lifesafe.lab.coverage.simulation import simulate
from lifesafe.lab.coverage.table import RowSummary, summarize_row
from lifesafe.lab.coverage.worlds import World
from lifesafe.safety import SafeOptimizer
from measured import TASKS, plane

RESULTS = Path(__file__).resolve().parent / "results"
PLANES = RESULTS / "alignment"
LIMITS, SEEDS = (20.0, 40.0), (0, 1, 2)
EDGE = "DroneRun"
"""The task with an edge that nothing foretells; it stands apart, as in the figures of the prototype."""
HEADER = (
    "| worlds | search | deployments | violated | at most | above | operates unsafe | regret | use | episodes | held |"
)

HOW = """\
Worlds are planes of trained policies, measured at a grid of targets and interpolated: tasks x limits 20 and 40 x three
seeds, less those whose grid is incomplete or that have no cheap target. Costs are negative binomial with k = 2; in
AntCircle they come in lumps of 150, more than the 3 limits that a search without a stop assumes. delta is 0.1.
Violated: "trial", the mean cost of a trial was above the limit; "total", a target above it was certified. Above: share
of trials, with "total" of episodes, whose mean cost was above the limit. Regret: what the recommendation misses of the
best safe reward, as a share of the range; with "trial" of what is connected with the start. Use: its mean cost in
limits. The promise "trial" paces itself, so each budget is a search of its own; "total" is judged on the way.
""".splitlines()


@dataclass(frozen=True)
class Place:
    """Which plane, and under which limit."""

    task: str
    limit: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class PlaneRow(CoverageRow):
    """A row on planes: deployment n is the n-th of its places, and begins again with the first after the last."""

    family: str = "planes"
    places: tuple[Place, ...]

    def __post_init__(self) -> None:  # planes are no family
        if not self.places:
            raise SystemExit("None of these planes is complete and has a cheap target.")

    @property
    def name(self) -> str:
        """A name of its own for every choice of places, since numbers mean other worlds then."""
        return f"{super().name}-{fingerprint([to_plain(place) for place in self.places], 8)}"


def rows_on(places: tuple[Place, ...]) -> list[PlaneRow]:
    """Return what is simulated: the promise "trial" with two budgets, "total" with two stops."""
    rows = [PlaneRow(places=places, episodes=episodes) for episodes in (150, 300)]
    return rows + [PlaneRow(places=places, promise="total", stop=stop, episodes=600) for stop in (2.0, 3.0)]


@cache
def world_at(place: Place) -> World | None:
    """Return the world of a place; none if its plane will not do."""
    return plane(PLANES, place.task, place.seed, place.limit)


def run(row: CoverageRow, number: int) -> Deployment:
    """Return what one deployment came to."""
    assert isinstance(row, PlaneRow)
    world = world_at(row.places[number % len(row.places)])
    assert world is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # a search that is held ends; the outcome says so
        return search(SafeOptimizer(problem_for(row, world, number)), Judge(row, world), number)


def groups(row: PlaneRow) -> dict[str, list[int]]:
    """Return the indices of places to be summed up together: all but the edge, then each task."""
    tasks = dict.fromkeys(place.task for place in row.places)
    smooth = [task for task in tasks if task != EDGE]
    wanted = {f"all but {EDGE}": smooth} if len(smooth) > 1 else {}
    wanted |= {task: [task] for task in tasks}
    return {
        name: [i for i, place in enumerate(row.places) if place.task in members] for name, members in wanted.items()
    }


def summaries(found: Mapping[PlaneRow, Sequence[Deployment]]) -> list[tuple[str, RowSummary]]:
    """Return a summary of each group of worlds and row."""
    rows = list(found)
    return [
        (name, summarize_row(row, [each for each in found[row] if each.number % len(row.places) in indices]))
        for name, indices in groups(rows[0]).items()
        for row in rows
    ]


def page(lines: Sequence[tuple[str, RowSummary]]) -> str:
    """Return the results in Markdown."""
    head = ["# Our search on planes of real policies", "", "Made by `make planes`.", "", *HOW, ""]
    table = [HEADER, "|---" * (HEADER.count("|") - 1) + "|", *(line(name, summary) for name, summary in lines)]
    return "\n".join([*head, *table]) + "\n"


def line(name: str, s: RowSummary) -> str:
    """Return one line of the table."""
    row = s.row
    stop = f"stop at {row.stop:g} limits" if row.stop is not None else "no stop"
    marks = [f"{regret:.3f} at {at}" for regret, at in zip(s.regrets, row.checkpoints, strict=True)]
    cells = (
        name, f"{row.promise}, {stop}", f"{s.deployments}", f"{s.violated:.1%}", f"{s.upper:.1%}", f"{s.above:.1%}",
        f"{s.operates_unsafe:.1%}", ", ".join(marks), f"{s.use:.2f}", f"{s.episodes:.0f} of {row.episodes}",
        f"{s.held:.0%}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def plain(name: str, summary: RowSummary) -> dict[str, Any]:
    """Return a line as JSON values."""
    found = summary.to_plain()
    found["row"].pop("places")
    return {"worlds": name} | {key: value for key, value in found.items() if key != "verdict"}


def main() -> None:
    options = arguments()
    every = (Place(task, limit, seed) for task in options.tasks for limit in LIMITS for seed in options.seeds)
    rows = rows_on(tuple(place for place in every if world_at(place) is not None))
    count = len(rows[0].places) * options.repeats
    with progress(f"{len(rows[0].places)} worlds") as report:
        found = simulate(rows, count, options.outcomes, workers=options.workers, report=report, run=run)
    lines = summaries({row: found[row] for row in rows})
    text = page(lines)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "planes.md").write_text(text)
    (options.out / "planes.json").write_text(json.dumps([plain(*each) for each in lines], indent=1) + "\n")
    print(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, metavar="TASK")
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=SEEDS, metavar="SEED")
    parser.add_argument("--repeats", type=int, default=5, help="deployments on each world (default 5)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--outcomes", type=Path, default=Path("runs/planes"), help="directory of what was simulated")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of planes.md and planes.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
