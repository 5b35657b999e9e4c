"""A row of results."""

from lifesafe.benchmark.results import Row

ROW = Row(
    task="CarCircle",
    method="cpq",
    limit=20.0,
    seed=0,
    reward=300.0,
    cost=10.0,
    reward_deviation=1.0,
    cost_deviation=2.0,
    episodes=20,
    references=(100.0, 500.0),
    target=(),
    steps=100,
    training_seconds=1.0,
    seconds=2.0,
)
