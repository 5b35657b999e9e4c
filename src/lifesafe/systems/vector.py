"""Step many environments together, each row an episode of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from lifesafe.errors import ConfigError, EpisodeError
from lifesafe.returns import per_cost
from lifesafe.systems.task import Task, load_entry_point


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of m rows gave.

    Attributes:
        observations: What is seen now; after an end, the last observation of that episode.
        rewards: What the step earned.
        costs: What the step cost, one column per cost.
        terminated: Whether the episode ended by itself.
        truncated: Whether it was cut off at its horizon; never together with `terminated`.
    """

    observations: Float[np.ndarray, "m o"]
    rewards: Float[np.ndarray, " m"]
    costs: Float[np.ndarray, "m k"]
    terminated: Bool[np.ndarray, " m"]
    truncated: Bool[np.ndarray, " m"]


class Vector(Protocol):
    """Many environments of one task. Nothing restarts by itself: an ended row waits for its `reset`."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        ...

    @property
    def costs(self) -> int:
        """How many costs a step has."""
        ...

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        ...

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        ...

    def close(self) -> None:
        """Give back processes and memory; closing twice does no harm."""
        ...


class Rows:
    """The books of a vector: which rows have an episode under way, and for how many steps."""

    def __init__(self, task: Task, size: int) -> None:
        if size < 1:
            raise ConfigError(f"A vector needs at least 1 row; got size = {size}.")
        self._task = task
        self._running = np.zeros(size, dtype=bool)
        self._steps = np.zeros(size, dtype=np.int64)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self._running)

    @property
    def costs(self) -> int:
        """How many costs a step has."""
        return len(self._task.limits)

    def _begin(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> None:
        """Note that an episode begins in each named row."""
        if len(rows) != len(seeds):
            raise ConfigError(f"Got {len(seeds)} seeds for {len(rows)} rows; give one seed per row.")
        if len(rows) and not 0 <= rows.min() <= rows.max() < self.size:
            raise ConfigError(f"The rows are 0 to {self.size - 1}; got {rows.tolist()}.")
        self._running[rows] = True
        self._steps[rows] = 0

    def _check(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Float32[np.ndarray, "m a"]:
        """Return the actions as the environments get them."""
        if not self._running[rows].all():
            waiting = rows[~self._running[rows]]
            raise ConfigError(f"Row {waiting[0]} has no episode under way; reset it first.")
        if actions.shape != (len(rows), self._task.actions):
            raise ConfigError(
                f"Task {self._task.name!r} takes {self._task.actions} numbers an action, one action per row;"
                f" got shape {actions.shape} for {len(rows)} rows."
            )
        return clip(actions)

    def _end(
        self, rows: Int[np.ndarray, " m"], terminated: Bool[np.ndarray, " m"], truncated: Bool[np.ndarray, " m"]
    ) -> Bool[np.ndarray, " m"]:
        """Note one step of each row, and return which of them are cut off by it."""
        self._steps[rows] += 1
        cut_off: Bool[np.ndarray, " m"] = (truncated | (self._steps[rows] >= self._task.horizon)) & ~terminated
        self._running[rows] = ~(terminated | cut_off)
        return cut_off


def clip(actions: Float[np.ndarray, "m a"]) -> Float32[np.ndarray, "m a"]:
    """Return actions within [-1, 1], in single precision: as they are taken and as they are recorded.

    Raises:
        EpisodeError: If one is not finite.
    """
    if not np.isfinite(actions).all():
        row = int(np.argwhere(~np.isfinite(actions))[0, 0])
        raise EpisodeError(f"The policy gave the action {actions[row].tolist()}; every number must be finite.")
    clipped: Float32[np.ndarray, "m a"] = np.clip(actions, -1.0, 1.0).astype(np.float32)
    return clipped


def check_seen(observations: Float[np.ndarray, "m o"], task: Task) -> None:
    """Refuse observations that nobody can act on.

    Raises:
        EpisodeError: If a number is not finite.
    """
    finite = np.isfinite(observations)
    if not finite.all():
        row, entry = np.argwhere(~finite)[0]
        raise EpisodeError(
            f"The environment of task {task.name!r} gave {observations[row, entry]} as entry {entry} of an observation;"
            " every number must be finite in single precision. Mend the environment."
        )


class InProcess(Rows):
    """Gymnasium environments one after the other in this process, each made when its row is first reset."""

    def __init__(self, task: Task, size: int) -> None:
        super().__init__(task, size)
        self.horizon = task.horizon
        self._environments: dict[int, Any] = {}

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float32[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        self._begin(rows, seeds)
        observations = np.empty((len(rows), self._task.observations), dtype=np.float32)
        for i, (row, seed) in enumerate(zip(rows.tolist(), seeds, strict=True)):
            if row not in self._environments:
                self._environments[row] = self._task.environment()
            observations[i] = self._seen(self._environments[row].reset(seed=int(seed))[0])
        check_seen(observations, self._task)
        return observations

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        taken = self._check(rows, actions)
        m = len(rows)
        observations = np.empty((m, self._task.observations), dtype=np.float32)
        rewards, costs = np.empty(m), np.empty((m, len(self._task.limits)))
        terminated, truncated = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
        for i, row in enumerate(rows.tolist()):
            seen, reward, terminated[i], truncated[i], info = self._environments[row].step(taken[i])
            observations[i], rewards[i] = self._seen(seen), reward_of(reward, self._task)
            costs[i] = costs_in(info, self._task)
        check_seen(observations, self._task)
        return Step(observations, rewards, costs, terminated, self._end(rows, terminated, truncated))

    def close(self) -> None:
        """Close the environments; closing twice does no harm."""
        while self._environments:
            self._environments.popitem()[1].close()

    def _seen(self, observation: Any) -> Any:
        shape = np.shape(observation)
        if shape != (self._task.observations,):
            raise ConfigError(
                f"Task {self._task.name!r} says observations = {self._task.observations}, but its environment gives"
                f" shape {shape}; correct the task, or wrap the environment so that it gives such a vector."
            )
        return observation


class Bounded(Rows):
    """A vector whose episodes end at the horizon of a task, and as soon as their cost reaches `stop_at` (a `Vector`).

    An episode is truncated after the first step with which its cost is `stop_at` or more. So it costs at most `stop_at`
    and what one step can cost.
    """

    def __init__(self, vector: Vector, task: Task, stop_at: float | Sequence[float] | None = None) -> None:
        super().__init__(task, vector.size)
        self._vector = vector
        costs = len(task.limits)
        self._stop_at = np.full(costs, np.inf) if stop_at is None else np.array(checked_stop(stop_at, costs))
        self._spent = np.zeros((vector.size, costs))

    def reset(self, rows: Int[np.ndarray, " m"], seeds: Sequence[int]) -> Float[np.ndarray, "m o"]:
        """Begin an episode in each named row and return what is seen; a seed decides all that is random in it."""
        self._begin(rows, seeds)
        self._spent[rows] = 0.0
        return self._vector.reset(rows, seeds)

    def step(self, rows: Int[np.ndarray, " m"], actions: Float[np.ndarray, "m a"]) -> Step:
        """Take one step in each named row; actions outside [-1, 1] are clipped."""
        step = self._vector.step(rows, self._check(rows, actions))
        self._spent[rows] += step.costs
        stopped = (self._spent[rows] >= self._stop_at).any(axis=1)
        return replace(step, truncated=self._end(rows, step.terminated, step.truncated | stopped))

    def close(self) -> None:
        """Close the vector."""
        self._vector.close()


def open_vector(task: Task, size: int, *, stop_at: float | Sequence[float] | None = None) -> Vector:
    """Return many environments of a task in this process, which the caller closes: the task's own vector if it has one.

    Args:
        task: Which task.
        size: How many episodes run side by side.
        stop_at: Costs at which an episode is ended, one per cost; episodes run to their end unless given.

    Raises:
        ConfigError: If a number of `stop_at` is not positive.
    """
    if task.vector is None:
        vector: Vector = InProcess(task, size)
    else:
        vector = (load_entry_point(task.vector) if isinstance(task.vector, str) else task.vector)(size)
    # A vector that is made of nothing but its size cannot know the horizon of a task that was changed.
    whole = stop_at is None and getattr(vector, "horizon", None) == task.horizon
    return vector if whole else Bounded(vector, task, stop_at)


def checked_stop(stop_at: float | Sequence[float], costs: int | None = None) -> tuple[float, ...]:
    """Return one positive number per cost.

    Raises:
        ConfigError: If they are others.
    """
    values = per_cost("stop_at", stop_at, costs)
    if not values or not all(0 < value < math.inf for value in values):
        raise ConfigError(f"stop_at must be positive; got {stop_at!r}.")
    return values


def reward_of(reward: Any, task: Task) -> float:
    """Return what a step earned; older environments give an array of one number.

    Raises:
        ConfigError: If it is not one number.
    """
    try:
        values = np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.size != 1:
        raise ConfigError(
            f"A step of task {task.name!r} earned {reward!r}; a reward is one number. Mend what the environment gives."
        )
    return float(values.item())


def costs_in(info: dict[str, Any], task: Task) -> Float64[np.ndarray, " k"]:
    """Return what the info of a step says it cost.

    Raises:
        ConfigError: If it says nothing, not as many costs as the task has, or something that is no number.
    """
    if "cost" not in info:
        raise ConfigError(
            f'The environment of task {task.name!r} puts no "cost" into info, only {sorted(info)};'
            " put it there, or give a cost function: --cost module:function, in Python `cost` of task_from_id."
        )
    try:
        costs = np.atleast_1d(np.asarray(info["cost"], dtype=np.float64))
    except (TypeError, ValueError):
        costs = np.full(len(task.limits), np.nan)
    if costs.shape != (len(task.limits),):
        raise ConfigError(
            f"Task {task.name!r} has {len(task.limits)} limit(s), but its environment gives costs of shape"
            f" {costs.shape}; give one limit per cost."
        )
    if not np.isfinite(costs).all():
        raise ConfigError(
            f"A step of task {task.name!r} cost {info['cost']!r}; every cost must be a finite number. Mend what the"
            " environment, or its cost function, gives."
        )
    return costs
