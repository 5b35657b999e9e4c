"""Ask and tell with a system of your own, under either promise: here a function, in your lab a machine and a person."""

import sys

import numpy as np

import lifesafe as ls
from lifesafe.operation import Operation

promise = sys.argv[1] if len(sys.argv) > 1 else "trial"  # or "total", which needs no model
stop = 40.0
rng = np.random.default_rng(0)


def run_on_the_machine(target: ls.Returns) -> ls.Returns:
    """Stand for an episode: it earns less than it is asked for, costs more, and ends once its cost reaches the stop."""
    cost = rng.poisson(0.02 * target.reward + 0.8 * target.costs[0])
    reward = rng.normal(target.reward * (0.6 + 0.4 * target.costs[0] / 60), 10)
    return ls.Returns(reward * min(1.0, stop / max(cost, 1)), min(cost, stop))


problem = ls.Problem(
    axes={"reward": (0, 500), "cost": (0, 60)},
    starts=[ls.Returns(200, 2)],
    limits=20.0,
    stop_at=stop,
    promise=promise,
)
with ls.SafeOptimizer.open(f"runs/machine-{promise}", problem) as optimizer:  # killed at any moment, it goes on
    while trial := optimizer.ask():
        optimizer.tell(trial, [run_on_the_machine(target) for target in trial.targets])
    print(optimizer.best, optimizer.done or optimizer.held, sep="\n")

    operation = Operation(optimizer)
    operation.begin()
    while operation.target is not None and operation.episodes < 200:
        verdict = operation.tell([run_on_the_machine(operation.target) for _ in range(10)])
        if verdict.alarm:
            print(verdict.alarm)
    print("Mean cost of what was served, at most:", operation.realised_bound)
