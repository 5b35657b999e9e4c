"""What all contestants are given: a grid of targets, a map from targets to returns, one model of it.

Both target axes are scaled to [0, 1]. Reward and cost grow with both targets and the limit runs through the
middle of the grid, so that there is always something to expand to.
"""

from __future__ import annotations

import numpy as np

from rivals.protocol import grid

OBSERVATIONS = 50
EPISODES = 20
LIMIT = 20.0
SHAPES = {1_000: (25, 40), 10_000: (100, 100), 100_000: (250, 400), 1_000_000: (1_000, 1_000)}

REWARDS = (100.0, 500.0)  # range of the reward targets
COSTS = (0.0, 40.0)  # range of the cost targets
SPREAD = (10.0, 3.0)  # standard deviation of an episode's reward and cost

LENGTHSCALES = (0.3, 0.3)  # of the axis
SD = (150.0, 10.0)  # prior standard deviation of the mean reward and cost
MEAN = (300.0, LIMIT)  # prior mean: what is not known is not safe
NOISE = tuple(sd / EPISODES**0.5 for sd in SPREAD)


def axes(candidates: int) -> list[np.ndarray]:
    """Return the values on each scaled axis, which multiply to so many candidates."""
    return [np.linspace(0.0, 1.0, count) for count in SHAPES[candidates]]


def targets(candidates: int) -> np.ndarray:
    """Return the candidates in raw units, (M, 2): reward target, cost target."""
    low, high = np.transpose([REWARDS, COSTS])
    return low + (high - low) * grid(axes(candidates))


def true_returns(unit: np.ndarray) -> np.ndarray:
    """Return mean reward and mean cost at scaled targets, (..., 2)."""
    r, g = unit[..., 0], unit[..., 1]
    return np.stack([400.0 * (1.0 - np.exp(-1.5 * r)) + 120.0 * g, 4.0 + 30.0 * g + 6.0 * r**2], axis=-1)


def run(unit: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return reward and cost of each episode of one trial, (EPISODES, 2)."""
    episodes = true_returns(unit) + SPREAD * generator.standard_normal((EPISODES, 2))
    return np.maximum(episodes, [-np.inf, 0.0])
