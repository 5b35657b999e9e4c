"""Worlds made from planes of real policies: mean returns that were measured at a grid of targets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from lifesafe.errors import DatasetError
from lifesafe.lab.coverage.laws import Array, lumps, negative_binomial
from lifesafe.lab.coverage.worlds import World

TASKS = (
    "HopperVelocity", "HalfCheetahVelocity", "AntVelocity", "Walker2dVelocity", "CarCircle", "DroneRun", "DroneCircle",
    "AntRun", "AntCircle",
)  # fmt: skip
_LUMP = 150.0  # what a fallen ant costs in AntCircle
_SIZE = 40  # targets along each axis among which the start is chosen


def plane(directory: str | Path, task: str, seed: int, limit: float) -> World | None:
    """Return the world of one trained policy, or None if its grid is incomplete or no target is cheap.

    Means are interpolated between the measured targets, the cost on the scale log(1 + 4 cost / limit); DroneRun has
    an edge between neighbors, so its cost is that of the nearest one. The start has the highest target reward among
    the targets of cost 0, or any if these cost too much, whose cost is at most half of the limit.

    Args:
        directory: Holds a file `<task>.json` of `lifesafe alignment`, in the repository benchmarks/results/alignment.
        task: One of `TASKS`.
        seed: The seed that the policy was trained with.
        limit: The axis of costs ends at three limits, or with the measured targets.
    """
    path = Path(directory) / f"{task}.json"
    if not path.is_file():
        raise DatasetError(f"{path} does not exist; give the directory of the alignment results and one of {TASKS}.")
    measured = [point for point in json.loads(path.read_text())["points"] if point["seed"] == seed]
    targets = np.array([point["target"] for point in measured]).reshape(-1, 2)
    R, G = (np.unique(column.round(6)) for column in targets.T)
    if not measured or len(R) * len(G) != len(measured):
        return None
    order = np.lexsort((targets[:, 1], targets[:, 0]))
    means = np.array([point["mean"] for point in measured])[order].reshape(len(R), len(G), 2)
    logs = np.log1p(4 * means[..., 1] / limit)
    cost = RegularGridInterpolator((R, G), logs, method="nearest" if task == "DroneRun" else "linear")
    reward = RegularGridInterpolator((R, G), means[..., 0])
    low, high = np.array([R[0], 0.0]), np.array([R[-1], min(G[-1], 3 * limit)])

    def truth(x: Array) -> Array:
        points = low + (high - low) * x
        return np.column_stack([reward(points), np.expm1(cost(points)) * limit / 4])

    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, _SIZE)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    values = truth(grid)
    cheap = grid[values[:, 1] <= 0.5 * limit]
    cheapest = cheap[cheap[:, 1] == 0]
    if not len(cheap):
        return None
    choices = cheapest if len(cheapest) else cheap
    start = low + (high - low) * choices[choices[:, 0].argmax()]
    sd = 0.02 * float(np.ptp(values[:, 0])) + 1e-6
    worst, best = float(means[..., 0].min()), float(means[..., 0].max())
    return World(
        family=task,
        axes={"reward": (float(low[0]), float(high[0])), "cost": (0.0, float(high[1]))},
        start=tuple(start.tolist()),
        limits=(limit,),
        rewards=(min(0.0, worst - 3 * sd), best + 3 * sd),
        truth=truth,
        law=lumps(_LUMP) if task == "AntCircle" else negative_binomial(2.0),
        reward_sd=sd,
    )
