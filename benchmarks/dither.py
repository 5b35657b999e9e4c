"""Search again with policies that are already trained, with and without dither: how often and how far do they fall?

    lifesafe bench run cpu --tasks DroneRun --methods pls cdt --data data --out runs/bench-drone
    python benchmarks/dither.py runs/bench-drone --data data --widths 0 0.05

Every search is a life of its own in OUT, with the policy of a job of that comparison, and goes on after an
interruption. The policy, the limits and the seeds of the episodes are the same for all widths.
"""

from __future__ import annotations

import argparse
import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lifesafe._files import write_atomic
from lifesafe._random import integer
from lifesafe.benchmark.suite import Job, load_suite
from lifesafe.data import Dataset, read_dsrl
from lifesafe.environments import task as find_task
from lifesafe.errors import GuaranteeWarning, NoSafeTargetError
from lifesafe.lifetime import Lifetime
from lifesafe.optimizer import Stage
from lifesafe.optimizer.dither import dithered
from lifesafe.returns import returns_array

EPISODES = 60
HEADINGS = (
    "task", "seed", "limit", "dither", "trials", "of seeds above", "others above", "clearly", "costliest / limit",
    "reward", "cost / limit",
)  # fmt: skip


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("run", type=Path, help="directory of a `lifesafe bench run` that has trained PLS")
    words.add_argument("--data", type=Path, required=True, help="directory with TASK.hdf5")
    words.add_argument("--suite", default="cpu", help="suite that the run is of")
    words.add_argument(
        "--seeds", type=int, help="how many trainings of each task there may be; the suite's unless given"
    )
    words.add_argument("--widths", type=float, nargs="+", default=[0.0, 0.05])
    words.add_argument("--out", type=Path, default=Path("runs/dither"), help="directory of the searches")
    words.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    given = words.parse_args()
    suite = load_suite(given.suite)
    suite = replace(suite, grid=replace(suite.grid, seeds=given.seeds or suite.grid.seeds))
    trained = [job for job in suite.jobs() if job.method == "pls" and policy_of(given.run, job).exists()]
    jobs = sorted(trained, key=lambda job: (job.task, job.seed))
    if not jobs:
        raise SystemExit(f"{given.run} holds no trained policy of the suite {given.suite}; run PLS there first.")
    rows = []
    for job in jobs:
        data = read_dsrl(given.data / f"{job.task}.hdf5")
        for limit in job.limits:
            for width in given.widths:
                rows.append(searched(given, suite.config(job), data, job, limit, width))
                print(" | ".join(cells(rows[-1])), flush=True)
    write_atomic(given.results / "dither.json", json.dumps(rows, indent=1) + "\n")
    write_atomic(given.results / "dither.md", page(rows))


def policy_of(run: Path, job: Job) -> Path:
    return run / "jobs" / job.name / f"limit-{job.limits[0]:g}" / "policy"


def searched(
    given: argparse.Namespace, config: Any, data: Dataset, job: Job, limit: float, width: float
) -> dict[str, Any]:
    """Search, and return what came of it."""
    task = find_task(job.task, limits=limit)
    place = given.out / f"{job.task}-{job.seed}-{limit:g}-{width:g}"
    if not (place / "policy").exists():
        shutil.copytree(policy_of(given.run, job), place / "policy")
    with (
        warnings.catch_warnings(),
        Lifetime.open(place, task, config, data=data, seed=job.seed, dither=width) as life,
    ):
        warnings.simplefilter("ignore", GuaranteeWarning)  # they are counted
        try:
            best = life.optimize()
        except NoSafeTargetError:
            best = None
        means = [(each, float(each.episodes[:, 1].mean())) for each in life.optimizer.trials]
        seeds = [mean for each, mean in means if each.trial.stage is Stage.SEED]
        others = [(each, mean) for each, mean in means if each.trial.stage is not Stage.SEED]
        row: dict[str, Any] = {
            "task": job.task,
            "seed": job.seed,
            "limit": limit,
            "dither": width,
            "data": data.fingerprint,
            "trials": len(means),
            "seeds_above": sum(mean > limit for mean in seeds),
            "above": sum(mean > limit for _, mean in others),
            "clear": sum(each.violated for each, _ in others),
            "costliest": max((mean for _, mean in others), default=None),
            "reward": None,
            "cost": None,
        }
        if best is not None:
            targets = dithered(life.optimizer.problem, best.target, range(EPISODES), "evaluation")
            chosen = [integer(job.seed, "dither", episode) for episode in range(EPISODES)]
            reward, cost = np.mean(returns_array(life.evaluator.run(targets, chosen).returns), axis=0)
            row |= {"reward": task.normalize(float(reward)), "cost": float(cost)}
    return row


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    def share(value: float | None) -> str:
        return "–" if value is None else f"{value / row['limit']:.2f}"

    counts = (str(row[name]) for name in ("trials", "seeds_above", "above", "clear"))
    reward = "–" if row["reward"] is None else f"{row['reward']:.3f}"
    place = (row["task"], str(row["seed"]), f"{row['limit']:g}", f"{row['dither']:g}")
    return (*place, *counts, share(row["costliest"]), reward, share(row["cost"]))


def page(rows: list[dict[str, Any]]) -> str:
    """Return the rows in Markdown, and what each width adds up to."""
    lines = [
        "# Searches with and without dither",
        "",
        "Made by `benchmarks/dither.py`: the same policies, searched again.",
    ]
    lines += [f"Rewards and costs of what is operated are means of {EPISODES} episodes. –: nothing is operated.", ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "|---" * 4 + "|---:" * (len(HEADINGS) - 4) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    for width in sorted({row["dither"] for row in rows}):
        own = [row for row in rows if row["dither"] == width]
        fallen = sum(row["clear"] > 0 for row in own)
        lines += ["", f"Dither {width:g}: {len(own)} searches, {fallen} with a clear violation that is not a seed's."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
