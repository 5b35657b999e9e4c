"""Search the best safe return of PointCircle: `python benchmarks/point_circle.py`.

For every limit the numbers of a `Behavior` (without noise) are optimized by the cross-entropy method: draw drivers
around the best ones so far, let each drive the same episodes, keep the best. The score is the mean reward less a price
for each unit of cost. How bold a driver is moves it along the line of equal score, so boldness is set last: such that
the mean cost of fresh episodes is below the limit by two standard errors. Other fresh episodes then give the numbers
of docs/point-circle.md. The results, and a picture of the default dataset with them, go to
benchmarks/results/point_circle.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from rich.progress import track

from lifesafe._files import write_atomic
from lifesafe._random import generator, integer
from lifesafe.systems.simulators.behaviors import Behavior, collect, drive
from lifesafe.systems.simulators.point_circle import PointCircle

RESULTS = Path(__file__).resolve().parent / "results" / "point_circle"
LIMITS = (0.0, 10.0, 20.0, 40.0, math.inf)
FIELDS = ("radius", "lead", "speed", "gain", "edge", "swing")
SPREAD = np.array([0.15, 0.06, 0.3, 0.15, 0.06, 0.015])
GENERATIONS, DRIVERS, ELITE = 45, 48, 12
EPISODES = {0.0: 120}  # that each driver drives in a generation; elsewhere 40
FRESH = 10_000
PRICE = {0.0: 1000.0, math.inf: 0.0}  # of a unit of cost; elsewhere 2.2, what one more unit of cost earns
NONE = 0.001  # what counts as no cost: gusts have no largest size, so no driver is certain never to pay
FULL = 96.0  # cost of a driver that is always bold


class Result(NamedTuple):
    """Means over fresh episodes, with their standard errors."""

    reward: float
    reward_error: float
    cost: float
    cost_error: float


def search(limit: float) -> Behavior:
    mean = np.array([7.1, 0.36, 4.7, 1.0, 4.9, 0.02])
    spread, random, episodes = SPREAD.copy(), generator(0, "search", str(limit)), EPISODES.get(limit, 40)
    boldness = min(limit / FULL, 1.0)
    for generation in track(range(GENERATIONS), description=f"limit {limit:g}"):
        drawn = mean + spread * random.standard_normal((DRIVERS, len(mean)))
        seeds = [integer(generation, "search", episode) for episode in range(episodes)]
        drivers = [driver for row in drawn for driver in [behavior(row, boldness)] * episodes]
        rewards, costs = drive(drivers, seeds * DRIVERS).returns.reshape(DRIVERS, episodes, 2).mean(axis=1).T
        best = drawn[np.argsort(PRICE.get(limit, 2.2) * costs - rewards)[:ELITE]]
        mean, spread = 0.5 * (mean + best.mean(axis=0)), 0.5 * (spread + best.std(axis=0))
    return fitted(behavior(np.round(mean, 3), boldness), limit)


def behavior(numbers: np.ndarray, boldness: float) -> Behavior:
    return Behavior(**dict(zip(FIELDS, map(float, numbers), strict=True)), boldness=boldness)


def fitted(driver: Behavior, limit: float) -> Behavior:
    """Return the driver, so bold (or at limit 0 so far from the strips) that it is just within the limit."""
    for _ in range(20):
        found = measure(driver, "fit")
        slack = max(limit, NONE) - found.cost - 2 * found.cost_error
        if limit == math.inf or 0 <= slack <= 0.1:
            return driver
        if limit:
            driver = replace(driver, boldness=round(driver.boldness + (slack - 0.05) / FULL, 4))
        else:
            driver = replace(driver, edge=round(driver.edge - 0.02, 3))
    raise RuntimeError(f"{driver} does not come to {limit}")


def measure(driver: Behavior, purpose: str) -> Result:
    seeds = [integer(1, purpose, episode) for episode in range(FRESH)]
    parts = [drive([driver] * 1000, seeds[first : first + 1000]).returns for first in range(0, FRESH, 1000)]
    returns = np.concatenate(parts)
    (reward, cost), (reward_error, cost_error) = returns.mean(axis=0), returns.std(axis=0) / math.sqrt(FRESH)
    return Result(reward, reward_error, cost, cost_error)


def throughput(rows: int) -> float:
    points, every, actions = PointCircle(rows), np.arange(rows), np.zeros((rows, 2))
    seconds = []
    for _ in range(7):
        points.reset(every, range(rows))
        start = time.perf_counter()
        for _ in range(200):
            points.step(every, actions)
        seconds.append(time.perf_counter() - start)
    return 200 * rows / sorted(seconds)[3]


def table(found: dict[float, Result]) -> str:
    lines = ["| limit | mean reward | mean cost |", "|---|---|---|"]
    for limit, result in found.items():
        name = "none" if limit == math.inf else f"{limit:g}"
        lines.append(
            f"| {name} | {result.reward:.1f} ± {result.reward_error:.1f}"
            f" | {result.cost:.2f} ± {result.cost_error:.2f} |"
        )
    return "\n".join(lines) + "\n"


def picture(found: dict[float, Result]) -> None:
    rewards, costs = collect().returns.T
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.scatter(costs, rewards, s=5, alpha=0.6, label="an episode of the default dataset")
    best = [(result.cost, result.reward) for result in found.values()]
    axes.plot(*zip(*best, strict=True), "o-", color="tab:red", label="best mean returns known")
    axes.axvline(20, color="0.6", linewidth=1, linestyle="--", label="default limit")
    axes.set(xlabel="cost", ylabel="reward", title="PointCircle")
    axes.legend(loc="lower right")
    figure.savefig(RESULTS / "plane.png", dpi=110)


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    drivers = {limit: search(limit) for limit in LIMITS}
    found = {limit: measure(driver, "final") for limit, driver in drivers.items()}
    record = [
        {"limit": None if limit == math.inf else limit, "behavior": asdict(drivers[limit]), **found[limit]._asdict()}
        for limit in LIMITS
    ]
    write_atomic(RESULTS / "best_safe.json", json.dumps(record, indent=2) + "\n")
    write_atomic(RESULTS / "best_safe.md", table(found))
    picture(found)
    print(table(found), *(f"{rows} rows: {throughput(rows):,.0f} steps/s" for rows in (20, 1000)), sep="\n")


if __name__ == "__main__":
    main()
