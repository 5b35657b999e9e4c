"""Time the evaluation of a policy beside OSRL's: python benchmarks/rollout.py --data HOPPER.hdf5.

Needs an environment with OSRL and the simulators: see benchmarks/rivals/osrl_rollout_worker.py. The policies are first
trained briefly, since an untrained Hopper falls at once and an untrained car stands still: on the data of
HopperVelocity that are given, or else fetched, and on a car driven in circles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contest import Worker, machine, where
from lifesafe.data import read_dsrl
from lifesafe.returns import Returns
from lifesafe.systems import task as find_task
from lifesafe.systems.evaluation import Evaluator

HERE = Path(__file__).resolve().parent
REMEDY = "`make bench-rollout` makes it"
CONTESTANTS = {
    "lifesafe": (Path(sys.executable), HERE / "ours_rollout.py"),
    "OSRL": (HERE.parent / ".venv-osrl" / "bin" / "python", HERE / "rivals" / "osrl_rollout_worker.py"),
}
TARGETS = {"CarCircle": (450.0, 10.0), "HopperVelocity": (1300.0, 15.0)}
GOALS = {"CarCircle": 6.0, "HopperVelocity": 20.0}
WAYS = ("in process", "2 workers")
CONFIGS = {"as OSRL": 300, "default": 1000}  # and after how many steps their episodes are cut off
EPISODES = 20
OSRL_EPISODES = {"CarCircle": 3, "HopperVelocity": 1}
OSRL = ("OSRL, 1 thread", "OSRL, all threads")

HOW = """\
Steps per second while 20 episodes are evaluated. Width 128, 3 layers, 8 heads, context 10. The policies were trained
for {steps} steps: on CarCircle to drive in circles (300 steps an episode), on HopperVelocity on episodes that did not
end early, so that most of theirs do not either (1000 steps). The contestants took turns in one run: median of
{repetitions} repetitions after a warm-up. The ratio is to OSRL's steps per second in the same repetition (median), with
one thread or all of them, whichever was faster. "Per processor second" counts the time of all processes and threads:
other jobs on the machine disturb it less, and it shows work saved, as opposed to work spread over processors.

- OSRL: `CDTTrainer.evaluate`: one environment, one episode after the other, nothing kept from step to step. So a few
  episodes are enough: {osrl_episodes}. CarCircle is Bullet-Safety-Gym's own, HopperVelocity Gymnasium's Hopper-v4.
- as OSRL: `lifesafe.lab.osrl` with the very weights that OSRL trained: the same policy, 20 episodes in a batch (cut off
  after 300 steps, to save time).
- default: `CDTConfig()`: one token a step instead of four, and what was computed is kept.
- in process: environments one after the other; 2 workers: each with 10 episodes and a policy of its own.
  PyTorch has {threads} thread(s) in process, one in a worker.
""".splitlines()


class Circles:
    """Drives in circles, with noise: who teaches the car (a `Policy` and its `Actor`)."""

    def actor(self, targets: Sequence[Returns]) -> Circles:
        self.random = np.random.default_rng(0)
        return self

    def act(self, observations: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        return np.array([0.5, 0.3]) + 0.1 * self.random.standard_normal((len(observations), 2))

    def observe(self, rewards: np.ndarray, costs: np.ndarray, rows: np.ndarray | None = None) -> None:
        pass

    def restart(self, targets: Sequence[Returns], rows: np.ndarray) -> None:
        pass


def main() -> None:
    options = arguments()
    workers = {
        name: Worker(name, *place, threads=os.cpu_count() or 1, remedy=REMEDY) for name, place in CONTESTANTS.items()
    }
    try:
        versions = {name: worker("versions") for name, worker in workers.items()}
        with tempfile.TemporaryDirectory() as directory:
            for task in options.tasks:
                prepare(workers, task, options, Path(directory))
        rows = [row for task in options.tasks for row in contest(workers, task, options)]
    finally:
        for worker in workers.values():
            worker.close()
    results = {
        "how": [line.format(**facts(options)) for line in HOW],
        "versions": versions,
        "machine": machine(),
        "load": os.getloadavg(),
        "rows": rows,
        "goals": [goal(task, rows) for task in options.tasks],
    }
    options.directory.mkdir(parents=True, exist_ok=True)
    (options.directory / "rollout.json").write_text(json.dumps(results, indent=2) + "\n")
    text = page(results)
    (options.directory / "rollout.md").write_text(text)
    print(text)


def facts(options: argparse.Namespace) -> dict[str, Any]:
    episodes = (f"{OSRL_EPISODES[task]} of {task}" for task in options.tasks)
    return {**vars(options), "osrl_episodes": ", ".join(episodes)}


def prepare(workers: dict[str, Worker], task: str, options: argparse.Namespace, directory: Path) -> None:
    """Let OSRL and ours make their policies, OSRL first: ours takes over its weights."""
    path, weights = directory / f"{task}.npz", directory / f"{task} weights.npz"
    np.savez(path, **lesson(task, options.data))
    for name in ("OSRL", "lifesafe"):
        print(f"{task}: {name} trains", file=sys.stderr, flush=True)
        workers[name]("prepare", task=task, path=str(path), weights=str(weights), steps=options.steps)


def lesson(task: str, data: Path | None) -> dict[str, np.ndarray]:
    """Return a few episodes to learn from, as DSRL names their arrays."""
    found = find_task(task)
    if task == "CarCircle":
        with Evaluator(Circles(), found) as evaluator:
            dataset = evaluator.run([Returns(*TARGETS[task])] * 10, range(10), record=True).dataset
    else:
        dataset = read_dsrl(data) if data else found.dataset()
        dataset = dataset.select(np.flatnonzero(~dataset.terminated)[:100])
    ends = np.zeros(dataset.transitions)
    ends[dataset.offsets[1:] - 1] = 1.0
    return {
        "observations": dataset.observations,
        "next_observations": dataset.next_observations,
        "actions": dataset.actions,
        "rewards": dataset.rewards,
        "costs": dataset.costs[:, 0],
        "terminals": np.zeros(dataset.transitions),
        "timeouts": ends,
    }


def contest(workers: dict[str, Worker], task: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of one task: how fast each contestant was, in turns."""
    ours = [(config, way) for config in CONFIGS for way in WAYS]
    measured: dict[tuple[str, str], list[dict[str, float]]] = {
        key: [] for key in [*((name, "") for name in OSRL), *ours]
    }
    for repetition in range(options.repetitions + 1):
        for (config, way), kept in measured.items():
            if way:
                about = {"config": config, "way": way, "episodes": EPISODES, "threads": options.threads}
                about["horizon"] = min(find_task(task).horizon, CONFIGS[config])
            else:
                about = {"episodes": OSRL_EPISODES[task], "threads": 1 if config == OSRL[0] else os.cpu_count()}
            taken = workers["lifesafe" if way else "OSRL"]("measure", task=task, target=TARGETS[task], **about)
            rates = {clock: taken["steps"] / taken[clock] for clock in ("wall", "cpu")}
            print(
                f"{task}, {config} {way}: {rates['wall']:.0f} steps/s, {rates['cpu']:.0f} per processor second,"
                f" reward {taken['reward']:.0f} in {taken['steps']:.0f} steps",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            if repetition:
                kept.append(taken | {"rate": rates})
    return [row(task, config, way, measured) for config, way in measured]


def row(task: str, config: str, way: str, measured: dict[tuple[str, str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what is said of one contestant."""
    mine = measured[config, way]
    rivals = [measured[name, ""] for name in OSRL]
    told: dict[str, Any] = {"task": task, "contestant": f"{config}, {way}" if way else config}
    for clock in ("wall", "cpu"):
        rates = [taken["rate"][clock] for taken in mine]
        best = [max(taken["rate"][clock] for taken in both) for both in zip(*rivals, strict=True)]
        told[clock] = {
            "median": statistics.median(rates),
            "min": min(rates),
            "max": max(rates),
            "ratio": statistics.median(a / b for a, b in zip(rates, best, strict=True)),
        }
    return told | {"reward": statistics.mean(taken["reward"] for taken in mine), "steps": mine[0]["steps"]}


def goal(task: str, rows: list[dict[str, Any]]) -> str:
    best = max((each for each in rows if each["task"] == task), key=lambda each: each["wall"]["ratio"])
    reached = best["wall"]["ratio"]
    return (
        f"{task}: {reached:.1f}x OSRL's steps per second ({best['contestant']}); the goal is {GOALS[task]:g}x:"
        f" {'reached' if reached >= GOALS[task] else 'not reached'}."
    )


def page(results: dict[str, Any]) -> str:
    """Return the results in Markdown."""
    lines = ["# Evaluating a policy beside OSRL", "", "Made by `python benchmarks/rollout.py`.", ""]
    lines += [*results["how"], "", where(results), ""]
    lines += ["| task | contestant | steps/s | min - max | ratio | per processor second | ratio |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|"]
    for each in results["rows"]:
        wall, cpu = each["wall"], each["cpu"]
        lines.append(
            f"| {each['task']} | {each['contestant']} | {wall['median']:,.0f} | {wall['min']:,.0f} - {wall['max']:,.0f}"
            f" | {wall['ratio']:.3g}x | {cpu['median']:,.0f} | {cpu['ratio']:.3g}x |"
        )
    return "\n".join([*lines, "", "## Goals", "", *(f"- {line}" for line in results["goals"])]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="HopperVelocity in DSRL's format (fetched unless given)")
    parser.add_argument("--tasks", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--steps", type=int, default=100, help="of the training (default 100)")
    parser.add_argument("--repetitions", type=int, default=5, help="after a warm-up (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, for ours in process (default 1)")
    parser.add_argument("--directory", type=Path, default=HERE / "results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
