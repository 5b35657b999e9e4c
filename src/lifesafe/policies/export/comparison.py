"""Holds an exported policy against the one it came from, step by step over whole episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lifesafe._random import generator
from lifesafe.interfaces import Policy
from lifesafe.policies.export.stepper import Stepper
from lifesafe.policies.scaling import Scaling
from lifesafe.returns import Returns

ROWS = 3


class Comparison(NamedTuple):
    """How far two policies were apart."""

    largest_difference: float
    """In any entry of any action."""
    steps: int
    """How many actions were compared."""
    episodes: int


def compare(stepper: Stepper, policy: Policy, scaling: Scaling, horizon: int) -> Comparison:
    """Return how far a stepper is from the policy it was exported from.

    Both see the same made-up episodes, each with its own memory and its own actions before. The observations walk at
    random over what the scales call usual. Of three rows one lasts a tenth longer than any episode in the data, the
    others begin anew on the way; now and then a row stands still, so that rows are at different times and batches
    of different sizes.
    """
    random = generator(0, "export", "comparison")
    mean, deviation = scaling.mean.numpy(), scaling.deviation.numpy()
    targets = [_target(random, scaling) for _ in range(ROWS)]
    actor = policy.actor(targets)
    stepper.reset([tuple(target) for target in targets])
    walk = random.normal(size=(ROWS, len(scaling.mean)))
    largest, steps, episodes = 0.0, 0, ROWS
    for step in range(horizon + max(horizon // 10, 2)):
        for row in range(1, ROWS):
            if step == row * horizon // ROWS:
                target = _target(random, scaling)
                actor.restart([target], np.array([row]))
                stepper.reset([tuple(target)], rows=[row])
                episodes += 1
        rows = None if step % 4 else np.array([row for row in range(ROWS) if row == 0 or (step + row) % 3])
        moved = np.arange(ROWS) if rows is None else rows
        walk[moved] = 0.95 * walk[moved] + 0.3 * random.normal(size=(len(moved), walk.shape[1]))
        observations = mean + deviation * walk[moved]
        named = None if rows is None else rows.tolist()
        difference = np.abs(stepper.act(observations, named) - actor.act(observations, rows)).max()
        largest = float(np.maximum(largest, difference))  # NaN stays
        steps += len(moved)
        rewards, costs = _earned(random, stepper.returns[moved], scaling, horizon)
        actor.observe(rewards, costs, rows)
        stepper.observe(rewards, costs, named)
    return Comparison(largest, steps, episodes)


def _target(random: np.random.Generator, scaling: Scaling) -> Returns:
    center, scale = scaling.center.numpy(), np.abs(scaling.scale.numpy())
    reward, *costs = center + scale * random.uniform(-1.0, 2.0, size=len(scale))
    return Returns(reward, np.abs(costs))


def _earned(
    random: np.random.Generator, coming: Float[np.ndarray, "m r"], scaling: Scaling, horizon: int
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m k"]]:
    """Return rewards and costs that use up a target within an episode, more or less: some budgets are overspent."""
    size = (np.abs(coming) + np.abs(scaling.scale.numpy())) / horizon
    rewards = random.normal(0.5, 2.0, size=len(coming)) * size[:, 0]
    return rewards, random.uniform(0.0, 3.0, size=(len(coming), coming.shape[1] - 1)) * size[:, 1:]
