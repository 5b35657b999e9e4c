"""Whole searches with trained policies in their simulators, beside a dense evaluation of the same policies.

    .venv/bin/python benchmarks/real.py PointCircle                      # an hour on one core
    .venv/bin/python benchmarks/real.py HopperVelocity --data FILE.hdf5
    .venv/bin/python benchmarks/real.py --table                          # from what is in --out, nothing is run

Policies are those of the suite "cpu", so where the data are the same they are those that version 0.1 searched with
(benchmarks/results/bench-cpu); PointCircle has the policy of `lifesafe demo`. Every search is a life of its own, as a
user begins it. What it recommends is then run in 100 further episodes that no search has seen.

The *oracle* is the best target that a dense evaluation knows: a grid over the box of the search, 20 episodes a target,
and 60 fresh ones at the most rewarding of those that seem to keep the limit. Episodes are recorded step by step, so
one grid tells what every stop does. *Regret* is what a recommendation misses of its reward, as a share of the range
from the lowest of the grid.

What is done is in `--runs`, so a study that was stopped goes on: run it again.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from lifesafe._random import integer
from lifesafe.data import Dataset, read_dsrl
from lifesafe.errors import NoSafeTargetError
from lifesafe.journal import JOURNAL, read_records
from lifesafe.lab.benchmark.suite import Job, load_suite
from lifesafe.lab.methods import PLS
from lifesafe.life import Lifetime, Search
from lifesafe.life import Plan as LifePlan
from lifesafe.policies import CDTConfig, LearnerConfig, load, train
from lifesafe.returns import Returns, mean_returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.systems import Evaluator, Task
from lifesafe.systems import task as find_task
from lifesafe.systems.evaluation import episode_seeds

RESULTS = Path(__file__).resolve().parent / "results"
TASKS = ("PointCircle", "HopperVelocity", "CarCircle", "AntCircle")
LIMITS = (20.0, 40.0)
GRID, EPISODES, BEST, FRESH = 8, 20, 5, 60  # targets along each axis, episodes at each; refined targets, theirs
JUDGED = 100
"""Episodes at every recommended target that no search has seen."""
_DEMO = CDTConfig(steps=2000, batch=64, width=64, layers=2, heads=4, context=2)


@dataclass(frozen=True)
class Plan:
    """How a search is made."""

    name: str
    promise: str
    episodes: int
    stop: float | None
    """In limits."""

    def search(self, limit: float, start: str) -> Search:
        stop = None if self.stop is None else (self.stop * limit,)
        return Search(promise=self.promise, episodes=self.episodes, stop_at=stop, start=start)  # type: ignore[arg-type]


PLANS = (
    Plan("trial, 150", "trial", 150, None),
    Plan("trial, 300", "trial", 300, None),
    Plan("trial, stop, 150", "trial", 150, 2.0),
    Plan("total, stop, 300", "total", 300, 2.0),
)
MARKS = (150, 300)
"""Episodes after which a recommendation is judged, if the search has so many."""


@dataclass(frozen=True)
class Place:
    """One policy."""

    task: Task
    dataset: Dataset
    config: LearnerConfig
    seed: int
    start: str
    directory: Path

    def policy(self) -> Any:
        directory = self.directory / "policy"
        return load(directory) if directory.exists() else train(
            self.config, self.dataset, seed=self.seed, directory=self.directory
        )  # fmt: skip


def places(name: str, data: Path | None, runs: Path, seeds: Sequence[int]) -> list[Place]:
    """Return the policies of a task."""
    task = find_task(name, limits=LIMITS[0])
    dataset = task.dataset() if data is None else read_dsrl(data)
    found = []
    for seed in seeds:
        demo = name == "PointCircle"
        config = _DEMO if demo else load_suite("cpu").config(Job(name, PLS, LIMITS, seed))
        found.append(Place(task, dataset, config, seed, "calm" if demo else "data", runs / name / f"seed-{seed}"))
    return found


def searched(place: Place, plan: Plan, limit: float) -> dict[str, Any]:
    """Return what a search came to, running what is left of it."""
    directory = place.directory / f"{plan.name.replace(', ', '-')}-{limit:g}"
    file = directory / "outcome.json"
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    if not (directory / "policy").exists():  # one training serves all
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(place.directory / "policy", directory / ".policy", dirs_exist_ok=True)
        (directory / ".policy").rename(directory / "policy")
    search, task = plan.search(limit, place.start), place.task.with_limits(limit)
    begun = LifePlan(task=task, method=place.config, search=search, seed=place.seed)
    with Lifetime.open(directory, begun, data=place.dataset) as life:
        ended = None
        try:
            life.optimize()
        except NoSafeTargetError as error:
            ended = str(error)
        optimizer = life.optimizer
        records = read_records(directory / JOURNAL)
        trials = [_trial(tried) for tried in optimizer.history.told]
        marks = []
        for mark in _marks(plan):
            best = optimizer.best if mark == plan.episodes else _best_at(records, mark)
            marks.append({"episodes": mark, **_judged(life, best)})
        found = {
            "limit": limit, "plan": plan.name, "seed": place.seed, "episodes": optimizer.history.searched,
            "ended": ended or optimizer.held or optimizer.done, "held": optimizer.held is not None,
            "spent": optimizer.spent, "largest": max((max(t["costs"]) for t in trials), default=0.0),
            "trials": trials, "marks": marks,
        }  # fmt: skip
    packed = file.with_name("journal.sqlite.xz")
    packed.write_bytes(lzma.compress((directory / JOURNAL).read_bytes(), preset=9))
    file.write_text(json.dumps(found))
    return found


def _marks(plan: Plan) -> list[int]:
    """Return where a search is judged; with the promise "trial", which paces itself, only at its end."""
    return [mark for mark in MARKS if mark <= plan.episodes] if plan.promise == "total" else [plan.episodes]


def _trial(tried: Any) -> dict[str, Any]:
    costs = tried.episodes[:, 1]
    return {
        "stage": tried.asked.stage, "targets": [list(t) for t in tried.asked.targets], "charge": tried.asked.charge,
        "reward": float(tried.episodes[:, 0].mean()), "cost": float(costs.mean()), "costs": costs.tolist(),
    }  # fmt: skip


def _best_at(records: Sequence[Any], episodes: int) -> Any:
    """Return what was recommended once so many episodes had been told."""
    last = 1
    for i in range(1, len(records) + 1):
        if SafeOptimizer.replay(records[:i]).history.searched > episodes:
            break
        last = i
    return SafeOptimizer.replay(records[:last]).best


def _judged(life: Lifetime, best: Any) -> dict[str, Any]:
    """Return what a recommended target does in fresh episodes."""
    if best is None:
        return {"target": None}
    seeds = [integer(life.seed, "judge", i) for i in range(JUDGED)]
    rows = np.array([tuple(each) for each in life.evaluator.run([best.target] * JUDGED, seeds).returns])
    means, errors = rows.mean(axis=0).tolist(), (rows.std(axis=0, ddof=1) / JUDGED**0.5).tolist()
    return {"target": list(best.target), "reward": means[0], "cost": means[1], "errors": errors}


def dense(place: Place, problem: Problem, report: Any) -> dict[str, Any]:
    """Return the oracle for every limit and stop, and the lowest reward of the grid."""
    file = place.directory / "dense.json"
    if file.exists():
        known: dict[str, Any] = json.loads(file.read_text())
        return known
    high = 3 * max(LIMITS)
    rewards = np.linspace(problem.low[0], problem.low[0] + problem.extents[0], GRID).tolist()
    targets = [Returns(r, c) for r in rewards for c in np.linspace(0.0, high, GRID).tolist()]
    stops = {(limit, stop) for limit in LIMITS for stop in {plan.stop for plan in PLANS}}
    with Evaluator(place.policy(), place.task) as evaluator:
        grid = _prefixes(evaluator, targets, EPISODES, integer(place.seed, "grid"), report)
        found: dict[str, Any] = {"grid": [], "oracle": []}
        for target, paths in zip(targets, grid, strict=True):
            found["grid"].append([*target, *np.mean([_end(path, None) for path in paths], axis=0).tolist()])
        found["lowest"] = min(row[2] for row in found["grid"])
        for limit, stop in sorted(stops, key=str):
            at = None if stop is None else stop * limit
            means = [np.mean([_end(path, at) for path in paths], axis=0) for paths in grid]
            hopeful = [i for i in np.argsort([-m[0] for m in means]) if means[i][1] <= 1.1 * limit][:BEST]
            fresh = _prefixes(evaluator, [targets[i] for i in hopeful], FRESH, integer(place.seed, "refine"), report)
            again = [np.mean([_end(path, at) for path in paths], axis=0) for paths in fresh]
            kept = [
                (float(m[0]), float(m[1]), targets[i]) for m, i in zip(again, hopeful, strict=True) if m[1] <= limit
            ]
            best = max(kept, default=None, key=lambda each: each[0])
            if best is not None:
                found["oracle"].append(
                    {"limit": limit, "stop": stop, "reward": best[0], "cost": best[1], "target": list(best[2])}
                )
    file.write_text(json.dumps(found))
    return found


def _prefixes(evaluator: Evaluator, targets: list[Returns], episodes: int, seed: int, report: Any) -> list[list[Any]]:
    """Return rewards and costs, added up step by step, of each episode of each target."""
    seeds, found = episode_seeds(seed, episodes), []
    for target in targets:
        outcomes = evaluator.run([target] * episodes, seeds, record=True).outcomes
        paths = [
            np.column_stack([o.episode.rewards, o.episode.costs]).astype(np.float64).cumsum(axis=0) for o in outcomes
        ]  # type: ignore[union-attr]
        found.append(paths)
        report()
    return found


def _end(path: np.ndarray, stop: float | None) -> np.ndarray:
    """Return the returns of an episode that ends as soon as its cost reaches the stop."""
    over = np.flatnonzero(path[:, 1] >= (np.inf if stop is None else stop))
    return np.asarray(path[over[0] if len(over) else -1])


def before(place: Place, limit: float) -> dict[str, Any] | None:
    """Return what version 0.1 found with the same data and settings, its target judged on this policy."""
    rows = RESULTS / "bench-cpu" / "rows" / f"{place.task.name}-pls-20-40-{place.seed}.json"
    file = place.directory / f"before-{limit:g}.json"
    if file.exists():
        known: dict[str, Any] = json.loads(file.read_text())
        return known
    if not rows.exists():
        return None
    row = next(r for r in json.loads(rows.read_text()) if r["method"] == "pls" and r["limit"] == limit)
    if row["fingerprint"] != place.dataset.fingerprint:
        return None
    with Evaluator(place.policy(), place.task) as evaluator:
        seeds = [integer(place.seed, "judge", i) for i in range(JUDGED)]
        target = Returns(row["target"][0], row["target"][1:])
        mean = mean_returns(evaluator.run([target] * JUDGED, seeds).returns)
    found = {
        "limit": limit, "seed": place.seed, "episodes": row["online_episodes"], "trials": row["trials"],
        "violations": row["violations"], "target": row["target"], "reward": mean.reward, "cost": mean.costs[0],
        "reward_then": row["reward"], "cost_then": row["cost"],
    }  # fmt: skip
    file.write_text(json.dumps(found))
    return found


def study(name: str, data: Path | None, runs: Path, out: Path, seeds: Sequence[int]) -> None:
    """Do what is left of a task, and write what came out."""
    with Progress(console=Console(stderr=True)) as progress:
        for place in places(name, data, runs, seeds):
            bar = progress.add_task(f"{name} {place.seed}: train", total=None)
            place.policy()
            progress.update(
                bar, description=f"{name} {place.seed}: search", total=len(PLANS) * len(LIMITS), completed=0
            )
            for limit in LIMITS:
                for plan in PLANS:
                    searched(place, plan, limit)
                    progress.advance(bar)
                before(place, limit)
            targets = GRID * GRID + BEST * len(LIMITS) * len({plan.stop for plan in PLANS})
            progress.update(bar, description=f"{name} {place.seed}: oracle", total=targets, completed=0)
            problem = replace(PLANS[0].search(LIMITS[-1], place.start)).problem(
                place.task.with_limits(LIMITS[-1]),
                place.dataset,
                relabeled=_is_relabeled(place.config),
                seed=place.seed,
            )
            dense(place, problem, partial(progress.advance, bar))
            progress.remove_task(bar)
            keep(place, out)


def _is_relabeled(config: LearnerConfig) -> bool:
    return isinstance(config, CDTConfig) and config.augmentation.fraction > 0


def keep(place: Place, out: Path) -> None:
    """Copy what a result rests on from the runs to the results."""
    target = out / "real" / place.task.name / f"seed-{place.seed}"
    target.mkdir(parents=True, exist_ok=True)
    outcomes = [json.loads(file.read_text()) for file in sorted(place.directory.glob("*/outcome.json"))]
    old = [json.loads(file.read_text()) for file in sorted(place.directory.glob("before-*.json"))]
    known = json.loads((place.directory / "dense.json").read_text())
    document = {"version": version("lifesafe"), "searches": outcomes, "before": old, **known}
    (target / "outcomes.json").write_text(json.dumps(document) + "\n")
    for packed in place.directory.glob("*/journal.sqlite.xz"):
        shutil.copy(packed, target / f"{packed.parent.name}.sqlite.xz")


HEADER = (
    "| task | limit | search | reward | of oracle | use | regret | episodes | trials clearly above | worst episode |"
)


def table(out: Path) -> str:
    """Return the table of everything in the results."""
    lines = []
    for name in TASKS:
        documents = [json.loads(file.read_text()) for file in sorted((out / "real" / name).glob("*/outcomes.json"))]
        for limit in LIMITS if documents else ():
            for plan in PLANS:
                lines += [_line(name, limit, plan, mark, documents) for mark in _marks(plan)]
            lines += _before_line(name, limit, documents)
    head = [
        "# Searches with real policies", "", "Made by `python benchmarks/real.py`. Means over the policies, one for"
        " each seed; in brackets the lowest and the highest.", "", HEADER, "|---" * (HEADER.count("|") - 1) + "|",
    ]  # fmt: skip
    return "\n".join([*head, *lines]) + "\n"


def _line(name: str, limit: float, plan: Plan, mark: int, documents: Sequence[dict[str, Any]]) -> str:
    rewards, shares, uses, regrets, episodes, above, worst, none = [], [], [], [], [], 0, 0.0, 0
    for document in documents:
        outcome = next(o for o in document["searches"] if o["limit"] == limit and o["plan"] == plan.name)
        oracle = _oracle(document, limit, plan.stop)
        found = next(m for m in outcome["marks"] if m["episodes"] == mark)
        episodes.append(min(outcome["episodes"], mark))
        above += sum(_clearly_above(t, limit) for t in outcome["trials"] if t["stage"] == "search")
        worst = max(worst, outcome["largest"])
        if found["target"] is None:
            none += 1
            continue
        rewards.append(found["reward"])
        uses.append(found["cost"] / limit)
        if oracle is not None:
            best = max(oracle["reward"], found["reward"] if found["cost"] <= limit else -np.inf)
            shares.append(found["reward"] / best)
            regrets.append((best - found["reward"]) / (best - document["lowest"]))
    cells = (
        name, f"{limit:g}", f"{plan.name.rsplit(', ', 1)[0]}, {mark}", _spread(rewards, "{:.1f}"),
        _spread(shares, "{:.0%}"), _spread(uses, "{:.2f}"), _spread(regrets, "{:.3f}"), _spread(episodes, "{:.0f}"),
        f"{above}", f"{worst:.0f}" + (f"; {none} without a target" if none else ""),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _before_line(name: str, limit: float, documents: Sequence[dict[str, Any]]) -> list[str]:
    pairs = [(d, b) for d in documents for b in d["before"] if b["limit"] == limit]
    if not pairs:
        return []
    best = [max(_oracle(d, limit, None)["reward"], b["reward"] if b["cost"] <= limit else -np.inf) for d, b in pairs]  # type: ignore[index]
    lowest = [d["lowest"] for d, _ in pairs]
    rewards = [b["reward"] for _, b in pairs]
    cells = (
        name, f"{limit:g}", "version 0.1", _spread(rewards, "{:.1f}"),
        _spread([r / o for r, o in zip(rewards, best, strict=True)], "{:.0%}"),
        _spread([b["cost"] / limit for _, b in pairs], "{:.2f}"),
        _spread([(o - r) / (o - low) for r, o, low in zip(rewards, best, lowest, strict=True)], "{:.3f}"),
        _spread([b["episodes"] for _, b in pairs], "{:.0f}"), f"{sum(b['violations'] for _, b in pairs)}", "",
    )  # fmt: skip
    return ["| " + " | ".join(cells) + " |"]


def _oracle(document: dict[str, Any], limit: float, stop: float | None) -> dict[str, Any] | None:
    return next((o for o in document["oracle"] if o["limit"] == limit and o["stop"] == stop), None)


def _clearly_above(trial: dict[str, Any], limit: float) -> bool:
    costs = np.array(trial["costs"])
    return bool(costs.mean() - 2 * costs.std(ddof=1) / len(costs) ** 0.5 > limit) if len(costs) > 1 else False


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    low, high = (form.format(end) for end in (min(values), max(values)))
    mean = form.format(float(np.mean(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def main() -> None:
    options = arguments()
    for name in () if options.table else options.tasks or TASKS[:1]:
        study(name, options.data, options.runs, options.out, options.seeds)
    text = table(options.out)
    (options.out / "real.md").write_text(text)
    print(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)}; {TASKS[0]} unless given")
    parser.add_argument("--data", type=Path, help="HDF5 file to learn from; the task's own data unless given")
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2), metavar="SEED")
    parser.add_argument("--runs", type=Path, default=Path("runs/real"), help="directory of the lives")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    options = parser.parse_args()
    if unknown := set(options.tasks) - set(TASKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(TASKS)}")
    return options


if __name__ == "__main__":
    main()
