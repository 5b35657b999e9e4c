"""What the targets cost where a search begins, from one late step of a training to the next.

    python benchmarks/seed_costs.py DroneRun data/DroneRun.hdf5 --seeds 0 2

Trains a CDT for each seed and each spacing of relabeled costs, keeps the weights of five late steps and their moving
average, and asks each for the seeds of a search under a limit of 20. Weights are kept in RUNS, one file a training.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from safetensors.torch import load_file, save_file

from lifesafe._files import write_atomic
from lifesafe._random import integer
from lifesafe.data import Dataset, read_dsrl
from lifesafe.data.augmentation import AugmentationConfig
from lifesafe.environments import Evaluator
from lifesafe.environments import task as find_task
from lifesafe.lifetime.seeds import problem_of
from lifesafe.lifetime.trials import cost_bounds
from lifesafe.policies.cdt import CDT, CDTConfig
from lifesafe.policies.learner import prefixed, under
from lifesafe.returns import Returns, returns_array

LIMIT, EPISODES, LATE = 20.0, 20, 5
SPACINGS = (1.0, 2.0)
AVERAGE = "average"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("task")
    words.add_argument("data", type=Path)
    words.add_argument("--seeds", type=int, nargs="+", default=[0])
    words.add_argument("--spacings", type=float, nargs="+", default=SPACINGS)
    words.add_argument("--steps", type=int, default=5000)
    words.add_argument("--runs", type=Path, default=Path("runs/seed-costs"), help="directory of the weights")
    words.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    given = words.parse_args()
    dataset = read_dsrl(given.data)
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        for spacing in given.spacings:
            augmentation = AugmentationConfig(fraction=0.3, spacing=spacing)
            config = CDTConfig(steps=given.steps, augmentation=augmentation)
            file = given.runs / f"{given.task}-{dataset.fingerprint[:8]}-{given.steps}-{seed}-{spacing:g}.safetensors"
            kept = weights(config, dataset, seed, file)
            rows += [
                {"task": given.task, "data": dataset.fingerprint[:8], "steps": given.steps, "seed": seed}
                | {"spacing": spacing, **row}
                for row in measured(given.task, dataset, config, seed, kept)
            ]
    file = given.results / "seed_costs.json"
    known = json.loads(file.read_text()) if file.exists() else []
    rows = sorted([*(row for row in known if key(row) not in {key(new) for new in rows}), *rows], key=key)
    write_atomic(file, json.dumps(rows, indent=1) + "\n")
    write_atomic(file.with_suffix(".md"), page(rows))
    print(page(rows))


def weights(config: CDTConfig, dataset: Dataset, seed: int, file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of late steps and their average, each under its name; trained unless they are in the file."""
    if not file.exists():
        torch.manual_seed(integer(seed, "train"))
        learner = config.build(dataset, seed=seed)
        late = [config.steps - number * config.steps // 20 for number in range(LATE)]
        kept: dict[str, torch.Tensor] = {}
        for step in track(range(config.steps), file.stem):
            learner.update(step)
            if step + 1 in late:
                kept |= prefixed(str(step + 1), under("network", learner.state()[0]))
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(kept | prefixed(AVERAGE, learner.policy().tensors()), file)
    return load_file(file)


def measured(
    name: str, dataset: Dataset, config: CDTConfig, seed: int, kept: dict[str, torch.Tensor]
) -> list[dict[str, Any]]:
    """Return what each of the weights earns and costs at the seeds of a search."""
    task = find_task(name, limits=LIMIT)
    problem = problem_of(task, dataset.returns, delta=0.1, bounds=cost_bounds(task), start="data", relabeled=True)
    targets = [Returns(float(reward), float(cost)) for reward, cost in problem.candidates[list(problem.seeds)]]
    plain = config.build(dataset, seed=seed).policy().plain()
    rows = []
    for tag in dict.fromkeys(key.partition(".")[0] for key in kept):
        policy = CDT.from_parts(config, under(tag, kept), plain)
        with Evaluator(policy, task) as evaluator:
            for target, episodes in zip(targets, evaluator.evaluate(targets, EPISODES, seed=seed), strict=True):
                reward, cost = np.mean(returns_array(episodes), axis=0).round(2).tolist()
                rows.append({"weights": tag, "asked": round(target.reward), "reward": reward, "cost": cost})
    return rows


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["data"], row["steps"], row["seed"], row["spacing"], row["weights"], -row["asked"]


def page(rows: list[dict[str, Any]]) -> str:
    """Return the results in Markdown: a table for each training."""
    lines = [
        "# Costs where a search begins",
        "",
        "Made by `python benchmarks/seed_costs.py TASK FILE --seeds ...`.",
        "",
    ]
    lines += [
        f"Mean costs of {EPISODES} episodes when asked for a reward at no cost, the first seed of a search under the"
        f" limit of {LIMIT:g} first, with the weights of late steps of one training and with their moving average.",
    ]
    for training in dict.fromkeys(key(row)[:5] for row in rows):
        own = [row for row in rows if key(row)[:5] == training]
        asked = list(dict.fromkeys(row["asked"] for row in own))
        tags = list(dict.fromkeys(row["weights"] for row in own))
        task, data, steps, seed, spacing = training
        how = {1.0: "evenly", 2.0: "by squares"}.get(spacing, f"by powers of {spacing:g}")
        lines += ["", f"## {task} {data}, {steps} steps, seed {seed}, relabeled costs spaced {how}", ""]
        lines += ["| weights | " + " | ".join(map(str, asked)) + " |", "|---|" + "---:|" * len(asked)]
        costs = {(row["weights"], row["asked"]): row["cost"] for row in own}
        lines += [f"| {tag} | " + " | ".join(f"{costs[tag, one]:.0f}" for one in asked) + " |" for tag in tags]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
