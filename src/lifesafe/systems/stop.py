"""The stop: ends an episode as soon as its cost reaches a number, so that no episode costs much more than that.

    stop_at     one number per cost; any of them ends the episode
    S_t         cost of the episode up to and with step t

The episode is truncated after the first step t with S_t >= stop_at. So it costs at most `stop_at` and one step's cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lifesafe._optional import require
from lifesafe.errors import ConfigError
from lifesafe.systems.task import Task, per_cost
from lifesafe.systems.vector import OnRows, Rows, Step, Vector


def stop_at_cost(environment: Any, stop_at: float | Sequence[float]) -> Any:
    """Return a Gymnasium environment that ends an episode, truncated, as soon as its cost reaches `stop_at`.

    The cost is the sum of `info["cost"]`. Episodes that lifesafe runs itself need no such wrapper: see `Evaluator`.

    Args:
        environment: What puts one cost, or several, into `info["cost"]`.
        stop_at: One number per cost.

    Raises:
        ConfigError: If a number is not positive.
    """
    require("gymnasium", name="Gymnasium", extra="mujoco", user="stop_at_cost")
    from lifesafe.systems._wrappers import StopAtCost

    return StopAtCost(environment, checked_stop(stop_at))


def checked_stop(stop_at: float | Sequence[float], costs: int | None = None) -> tuple[float, ...]:
    """Return one positive number per cost.

    Raises:
        ConfigError: If they are others.
    """
    values = per_cost("stop_at", stop_at)
    if not values or not all(0 < value < math.inf for value in values):
        raise ConfigError(f"stop_at must be positive; got {stop_at!r}.")
    if costs is not None and len(values) != costs:
        raise ConfigError(f"Got {len(values)} numbers as stop_at for {costs} costs; give one per cost.")
    return values


class Stopped(OnRows):
    """A vector whose episodes end as soon as their cost reaches `stop_at` (a `Vector`)."""

    def __init__(self, vector: Vector, task: Task, stop_at: Sequence[float]) -> None:
        self._vector = vector
        self._rows = Rows(task, vector.size)
        self._stop_at = np.array(checked_stop(stop_at, vector.costs))
        self._spent = np.zeros((vector.size, vector.costs))

    @property
    def replaced(self) -> int:
        """How many workers had to be replaced so far."""
        return int(getattr(self._vector, "replaced", 0))

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        self._rows.begin(rows, seeds)
        self._spent[rows] = 0.0
        return self._vector.reset(rows, seeds)

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        step = self._vector.step(rows, self._rows.check(rows, actions))
        self._spent[rows] += step.costs
        stopped = (self._spent[rows] >= self._stop_at).any(axis=1)
        return replace(step, truncated=self._rows.end(rows, step.terminated, step.truncated | stopped))

    def close(self) -> None:
        """Close the vector."""
        self._vector.close()
