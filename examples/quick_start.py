"""From logs to a certified target on the embedded task, in the fewest lines. Takes a minute."""

import lifesafe as ls
from lifesafe.policies import RvSConfig, train

task = ls.task("PointCircle", limits=20.0)
dataset = task.dataset()
policy = train(RvSConfig(steps=2000), dataset, seed=0)  # CDTConfig() is the transformer of the paper, and slower

problem = ls.Problem.from_returns(dataset.returns, limits=task.limits, delta=0.05)
optimizer = ls.SafeOptimizer(problem)
while trial := optimizer.ask():
    optimizer.tell(trial, ls.evaluate(policy, task, trial.target, episodes=20, seed=trial.number))
    print(trial.number, trial.stage.value, trial.target, "mean cost", optimizer.trials[-1].episodes[:, 1].mean())
print(optimizer.best)
