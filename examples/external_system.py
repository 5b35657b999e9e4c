"""Ask and tell with a system that is not ours: here a function, in your lab a machine and a person."""

import numpy as np

import lifesafe as ls
from lifesafe.operation import Operation

rng = np.random.default_rng(0)


def run_on_the_machine(target: ls.Returns, episodes: int) -> list[ls.Returns]:
    """Stand for the machine: it earns less than it is asked for, and costs more."""
    cost = 0.02 * target.reward + 0.7 * target.costs[0]
    return [ls.Returns(rng.normal(0.9 * target.reward, 10), rng.poisson(cost)) for _ in range(episodes)]


logged = [ls.Returns(r, c) for r, c in zip(rng.uniform(0, 500, 300), rng.uniform(0, 60, 300), strict=True)]
problem = ls.Problem.from_returns(logged, limits=20.0, cost_bounds=(100.0,))  # no episode can cost more than 100

with ls.SafeOptimizer.open("runs/machine", problem) as optimizer:  # killed at any moment, it goes on where it was
    while trial := optimizer.ask():
        optimizer.tell(trial, run_on_the_machine(trial.target, trial.episodes))
    print(optimizer.best)

    operation = Operation(optimizer)
    operation.begin()
    while operation.target is not None and operation.episodes < 200:
        verdict = operation.tell(run_on_the_machine(operation.target, 10))
        if verdict.alarm:
            print(verdict.alarm)
