"""Small data and configs for the tests of the Constrained Decision Transformer."""

from typing import Any

import numpy as np

from lifesafe.data import Dataset
from lifesafe.policies.cdt.learner import CDTConfig

SMALL: dict[str, Any] = {"width": 16, "heads": 2, "layers": 2, "context": 3, "segment": 7, "batch": 8, "warmup": 0}


def small_config(**changes: Any) -> CDTConfig:
    return CDTConfig(**(SMALL | changes))


def random_dataset(
    *,
    episodes: int = 30,
    observations: int = 4,
    actions: int = 2,
    costs: int = 1,
    seed: int = 0,
    fractional: bool = False,
) -> Dataset:
    """Episodes of 5 to 20 steps; the action follows the observation, rewards and costs follow the action."""
    random = np.random.default_rng(seed)
    lengths = random.integers(5, 21, size=episodes)
    n = int(lengths.sum())
    seen = random.normal(size=(n, observations))
    done = np.clip(seen[:, :actions] * random.uniform(0.2, 1.0, size=(n, 1)), -1, 1)
    paid = np.abs(done[:, :1]) * np.arange(1, costs + 1)
    return Dataset.from_arrays(
        observations=seen,
        actions=done,
        rewards=done.sum(axis=1),
        costs=paid * 3 if fractional else (paid > 0.5).astype(float),
        terminals=np.zeros(n),
        timeouts=np.isin(np.arange(n), np.cumsum(lengths) - 1),
    )
