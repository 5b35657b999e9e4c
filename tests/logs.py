"""Made-up logs for tests: small datasets, at random or as hypothesis strategies."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from lifesafe.data import Dataset, Episode


def episode(
    rng: np.random.Generator, *, steps: int, observations: int = 3, actions: int = 2, costs: int = 1, fell: bool = False
) -> Episode:
    """Return an episode whose next observations are the following ones, as an environment gives them."""
    seen = rng.normal(size=(steps + 1, observations)).astype(np.float32)
    return Episode(
        observations=seen[:-1],
        actions=rng.uniform(-1, 1, (steps, actions)).astype(np.float32),
        rewards=rng.normal(1.0, 0.5, steps).astype(np.float32),
        costs=(rng.random((steps, costs)) < rng.random()).astype(np.float32),
        next_observations=seen[1:],
        terminated=fell,
    )


def dataset(episodes: int = 8, *, seed: int = 0, longest: int = 12, costs: int = 1) -> Dataset:
    """Return a dataset of episodes of different lengths and ends."""
    rng = np.random.default_rng(seed)
    return Dataset.from_episodes(
        episode(rng, steps=int(rng.integers(1, longest + 1)), costs=costs, fell=bool(rng.random() < 0.4))
        for _ in range(episodes)
    )


def plane(returns: list[tuple[float, float]], *, steps: int = 4) -> Dataset:
    """Return a dataset whose episodes have the given (reward, cost) returns."""
    rng = np.random.default_rng(0)
    episodes = [episode(rng, steps=steps) for _ in returns]
    made = Dataset.from_episodes(episodes)
    rewards = np.repeat([reward / steps for reward, _ in returns], steps)
    costs = np.repeat([cost / steps for _, cost in returns], steps)
    return Dataset(
        observations=made.observations,
        actions=made.actions,
        rewards=rewards.astype(np.float32),
        costs=costs.astype(np.float32)[:, None],
        next_observations=made.next_observations,
        terminated=made.terminated,
        offsets=made.offsets,
    )


def datasets() -> st.SearchStrategy[Dataset]:
    """Draw datasets of one to six episodes and one or two costs."""
    return st.builds(
        dataset,
        st.integers(1, 6),
        seed=st.integers(0, 2**20),
        longest=st.integers(1, 8),
        costs=st.integers(1, 2),
    )


def careful(rng: np.random.Generator, *, episodes: int = 600, steps: int = 100) -> Dataset:
    """Return behaviors that differ in how much they dare: who earns more costs more, all the time."""
    daring = rng.uniform(0, 1, episodes)
    costs = rng.random((episodes, steps)) < daring[:, None]
    return _with_costs(costs, daring + rng.normal(0, 0.3, episodes))


def reckless(rng: np.random.Generator, *, episodes: int = 1000, steps: int = 100) -> Dataset:
    """Return one behavior that may cross a line at any tenth of an episode, and then pays for all of it."""
    return by_luck(_with_costs(np.zeros((episodes, steps)), rng.normal(1, 0.1, episodes)), rng)


def by_luck(logged: Dataset, rng: np.random.Generator) -> Dataset:
    """Return the episodes with costs that nothing in them brought about: a tenth costs at every step or at none."""
    lengths = np.diff(logged.offsets)
    crossed = rng.random((len(lengths), 10)) < 0.3 + rng.uniform(-0.1, 0.1, len(lengths))[:, None]
    costs = [line[np.arange(length) * 10 // length] for line, length in zip(crossed, lengths, strict=True)]
    return replace(logged, costs=np.concatenate(costs).astype(np.float32)[:, None])


def _with_costs(costs: np.ndarray, rewards: np.ndarray) -> Dataset:
    """Return episodes with these costs at their steps (e, steps), and rewards that do not change within an episode."""
    made = plane([(0.0, 0.0)] * len(costs), steps=costs.shape[1])
    return replace(
        made,
        costs=costs.reshape(-1, 1).astype(np.float32),
        rewards=np.repeat(rewards, costs.shape[1]).astype(np.float32),
    )
