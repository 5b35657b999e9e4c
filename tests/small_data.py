"""Small datasets: a noisy linear system whose costs rise with its speed."""

import numpy as np

from lifesafe.data import Dataset, Episode
from lifesafe.returns import Returns

OBSERVATIONS, ACTIONS, HORIZON = 3, 2, 12
MIX = np.array([[0.9, 0.1, 0.0], [-0.1, 0.8, 0.1], [0.0, 0.1, 0.9]])
PUSH = np.array([[0.5, 0.0], [0.0, 0.5], [0.2, -0.2]])


def episode(rng: np.random.Generator, costs: int, length: int) -> Episode:
    """Return an episode driven with one daring throughout: the bolder, the more it earns and costs."""
    daring = rng.uniform(0.0, 1.0)
    state = rng.normal(size=OBSERVATIONS)
    seen, done = [state], []
    for _ in range(length):
        action = np.clip(daring * np.tanh(state[:ACTIONS] + 1.0) + 0.1 * rng.normal(size=ACTIONS), -1, 1)
        state = MIX @ state + PUSH @ action + 0.05 * rng.normal(size=OBSERVATIONS)
        seen.append(state)
        done.append(action)
    observations, actions = np.array(seen, dtype=np.float32), np.array(done, dtype=np.float32)
    thresholds = 0.4 + 0.2 * np.arange(costs)
    return Episode(
        observations=observations[:-1],
        actions=actions,
        rewards=actions.sum(axis=1),
        costs=(np.abs(actions).max(axis=1)[:, None] > thresholds).astype(np.float32),
        next_observations=observations[1:],
        terminated=length < HORIZON,
    )


def small_dataset(costs: int = 1, episodes: int = 40, seed: int = 0) -> Dataset:
    """Return a dataset in which every fifth episode ends early."""
    rng = np.random.default_rng(seed)
    lengths = [HORIZON - 5 if index % 5 == 4 else HORIZON for index in range(episodes)]
    return Dataset.from_episodes(episode(rng, costs, length) for length in lengths)


def small_targets(costs: int = 1, count: int = 3) -> list[Returns]:
    """Return different targets that the data reach."""
    return [Returns(2.0 + 3.0 * index, [1.0 + 2.0 * index + k for k in range(costs)]) for index in range(count)]
