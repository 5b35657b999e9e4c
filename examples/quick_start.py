"""From logs to a target that may be operated, on the embedded task. Takes half a minute."""

import lifesafe as ls
from lifesafe.lab.baselines import RvSConfig
from lifesafe.policies import train
from lifesafe.systems import Evaluator

task = ls.task("PointCircle", limits=20.0)
dataset = task.dataset()
policy = train(RvSConfig(steps=2000), dataset, seed=0)  # CDTConfig() is the transformer of the paper, and slower

problem = ls.Problem.from_returns(dataset.returns, limits=task.limits)
optimizer = ls.SafeOptimizer(problem)
with Evaluator(policy, task) as evaluator:
    while trial := optimizer.ask():
        seeds = [1000 * trial.number + episode for episode in range(trial.episodes)]
        optimizer.tell(trial, evaluator.run(trial.targets, seeds).returns)  # one episode for each target
        center, costs = optimizer.trials[-1].center, optimizer.trials[-1].episodes[:, 1]
        print(f"{trial.number:2d} {trial.stage:6} center {center[0]:.0f}, {center[1]:.0f}: cost {costs.mean():.1f}")
print(optimizer.best, optimizer.done or optimizer.held, sep="\n")
