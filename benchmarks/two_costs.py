"""A whole life with two costs, speed and torque, on Hopper: python benchmarks/two_costs.py HOPPER.hdf5.

The logs have the speed cost. What the motors do is in their actions, so the second cost is computed from these: a step
costs 1 if the motors push with more than 0.8 of what they can, on average.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lifesafe.data import Dataset, read_dsrl
from lifesafe.environments import Task, task
from lifesafe.lifetime import Lifetime
from lifesafe.lifetime.comparison import best_row, operated_row, plain_row
from lifesafe.policies import CDTConfig, progress_bar

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class SpeedAndTorque:
    """Makes a Hopper whose steps cost twice: for being too fast, and for pushing too hard."""

    ordinary: Any

    def __call__(self) -> Any:
        from lifesafe.environments._wrappers import Costly

        return Costly(self.ordinary(), both)


def both(observation: Any, action: Any, next_observation: Any, info: dict[str, Any]) -> tuple[float, float]:
    return float(info["cost"]), float(overloaded(action[None])[0])


def overloaded(actions: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(actions).mean(axis=1) > 0.8)


def with_torque(dataset: Dataset) -> Dataset:
    costs = np.column_stack([dataset.costs[:, 0], overloaded(dataset.actions)]).astype(np.float32)
    return replace(dataset, costs=costs)


def two_cost_task(limits: tuple[float, ...]) -> Task:
    hopper = task("HopperVelocity")
    return replace(
        hopper,
        name="HopperSpeedTorque",
        make=SpeedAndTorque(hopper.make),
        limits=limits,
        largest_costs=(1.0, 1.0),
        envpool=None,
    )


def main() -> None:
    options = arguments()
    dataset = with_torque(read_dsrl(options.data))
    hopper = two_cost_task(tuple(options.limits))
    print(dataset.summary(hopper.limits))
    config = CDTConfig(steps=options.steps)
    seconds: dict[str, float] = {}
    with Lifetime.open(options.out, hopper, config, data=dataset, seed=options.seed, workers=2) as life:
        with progress_bar("training") as progress:
            _timed(seconds, "train", lambda: life.train(progress))
        _timed(seconds, "optimize", life.optimize)
        rows = [best_row(life)]
        if life.optimizer.best is not None:
            _timed(seconds, "operate", lambda: list(life.operate(options.episodes)))
            rows.append(operated_row(life))
        rows.append(plain_row(life))
        violations = sum(result.violated for result in life.optimizer.trials)
        told = {"limits": hopper.limits, "seconds": seconds, "trials": len(life.optimizer.trials)}
        told |= {"violations": violations, "rows": [asdict(row) for row in rows], "phase": life.phase.value}
    (RESULTS / "two_costs.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


def _timed(seconds: dict[str, float], name: str, action: Any) -> None:
    start = time.monotonic()
    action()
    seconds[name] = round(time.monotonic() - start, 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--limits", type=float, nargs=2, default=(20.0, 90.0), help="of the speed and the torque cost")
    parser.add_argument("--steps", type=int, default=5000, help="of the training")
    parser.add_argument("--episodes", type=int, default=100, help="of operation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/hopper-two-costs"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
