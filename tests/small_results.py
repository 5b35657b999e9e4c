"""A row of results, and some of three methods."""

from dataclasses import replace

from lifesafe.lab.benchmark.results import Row

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
SEARCHED = replace(
    ROW,
    method="pls",
    promise="trial",
    reward=400.0,
    cost=19.0,
    trials=30,
    violations=1,
    online_episodes=600,
    trial_costs=(19.0, 21.0),
)
ROWS = [
    ROW,
    replace(ROW, seed=1, reward=340.0, cost=14.0),
    SEARCHED,
    replace(
        SEARCHED,
        seed=1,
        clear_violations=1,
        reward=None,
        cost=None,
        reward_deviation=None,
        cost_deviation=None,
        episodes=0,
    ),
    replace(ROW, method="cdt", reward=460.0, cost=30.0),
    replace(ROW, method="cdt", reward=460.0, cost=20.0, seed=1),
]
"""Two seeds each: one safe method, one whose second search found nothing, and one above its limit."""
