"""A task from any Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lifesafe._optional import require
from lifesafe.errors import ConfigError
from lifesafe.returns import per_cost
from lifesafe.systems.task import Task, load_entry_point
from lifesafe.systems.vector import InProcess

Cost = Callable[[Any, Any, Any, dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class FromId:
    """Makes a Gymnasium environment that takes actions in [-1, 1] and sees flat observations in single precision."""

    id: str
    """What `gymnasium.make` knows it by; "module:Id" imports the module first."""
    cost: Cost | str | None = None
    """What a step costs, as a number or one per cost, from (observation, action, next observation, info): a function,
    or where to find one, "package.module:function"; the environment's own `info["cost"]` if not given."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `gymnasium.make`."""

    def __call__(self) -> Any:
        """Return a new Gymnasium environment.

        Raises:
            ConfigError: If there is no such environment, or its spaces are not boxes of numbers.
        """
        gymnasium = require("gymnasium", name="Gymnasium", extra="mujoco", user=f"Environment {self.id!r}")
        from lifesafe.systems._wrappers import Costly, Scaled

        try:
            environment = gymnasium.make(self.id, disable_env_checker=True, **self.options)
        except (gymnasium.error.Error, ImportError) as error:
            raise ConfigError(f"Gymnasium cannot make {self.id!r}: {error}") from error
        try:
            _check_spaces(environment, gymnasium.spaces.Box, self.id)
        except ConfigError:
            environment.close()
            raise
        if self.cost is not None:
            environment = Costly(environment, load_entry_point(self.cost) if isinstance(self.cost, str) else self.cost)
        return Scaled(environment)


def task_from_id(
    id: str,
    *,
    limits: float | Sequence[float],
    name: str | None = None,
    cost: Cost | str | None = None,
    largest_costs: float | Sequence[float] = 1.0,
    horizon: int | None = None,
    **options: Any,
) -> Task:
    """Return a task made of a Gymnasium environment, which is made once to look at its spaces.

    Args:
        id: What `gymnasium.make` knows it by.
        limits: Largest mean cost of an episode, one per cost.
        name: What the task is called; the id if not given.
        cost: What a step costs, as a number or one per cost, from (observation, action, next observation, info), all
            as the environment itself has them: a function, or where to find one, "package.module:function". If not
            given, the environment's `info["cost"]`.
        largest_costs: Largest cost of one step, one per cost, or one number for all.
        horizon: Steps after which an episode is cut off; the environment's own limit if not given.
        options: Further arguments of `gymnasium.make`.

    Raises:
        ConfigError: If there is no such environment, its spaces are not boxes of numbers, nobody knows when to stop, or
            limits or largest costs are no numbers.

    Examples:
        >>> def swing(observation, action, next_observation, info):
        ...     return float(abs(next_observation[2]) > 4.0)
        >>> pendulum = task_from_id("Pendulum-v1", cost=swing, limits=20.0)
        >>> pendulum.observations, pendulum.actions, pendulum.horizon
        (3, 1, 200)
    """
    limits = per_cost("limits", limits)
    make = FromId(id=id, cost=cost, options=options)
    environment = make()
    try:
        own_horizon = environment.spec.max_episode_steps if environment.spec is not None else None
        if horizon is None and own_horizon is None:
            raise ConfigError(f"Environment {id!r} does not say how long an episode is; give horizon.")
        return Task(
            name=name or id,
            make=make,
            observations=environment.observation_space.shape[0],
            actions=environment.action_space.shape[0],
            horizon=min(steps for steps in (horizon, own_horizon) if steps is not None),
            limits=limits,
            largest_costs=per_cost("largest_costs", largest_costs, len(limits)),
            summary=f"Gymnasium: {id}",
        )
    finally:
        environment.close()


def check_costs(task: Task) -> None:
    """Take one step in the environment of a task from `task_from_id`, to see that it says what the step cost.

    Tasks made in another way are left alone: one may train for them where their simulator is not installed.

    Raises:
        ConfigError: If it does not, or not as many costs as the task has.
        EpisodeError: If the cost function fails.
    """
    if not isinstance(task.make, FromId):
        return
    environment = InProcess(task, 1)
    row = np.zeros(1, dtype=np.int64)
    try:
        environment.reset(row, [0])
        environment.step(row, np.zeros((1, task.actions)))
    finally:
        environment.close()


def recipe(task: Task) -> dict[str, Any] | None:
    """Return what `from_recipe` makes the same task of, as plain values; none if its parts have no names."""
    make = task.make
    if not isinstance(make, FromId) or callable(make.cost) or make.options:
        return None
    return {
        "id": make.id,
        "name": task.name,
        "cost": make.cost,
        "horizon": task.horizon,
        "largest_costs": list(task.largest_costs),
    }


def from_recipe(plain: Mapping[str, Any], limits: tuple[float, ...]) -> Task:
    """Return the task that a recipe describes, under limits."""
    return task_from_id(**dict(plain) | {"largest_costs": tuple(plain["largest_costs"])}, limits=limits)


def _check_spaces(environment: Any, box: Any, id: str) -> None:
    observations, actions = environment.observation_space, environment.action_space
    if not isinstance(observations, box):
        raise ConfigError(
            f"Environment {id!r} has observations in a {type(observations).__name__} space; only a Box of numbers can"
            " be seen. gymnasium.wrappers.FlattenObservation makes one of a Dict, a Tuple or a Discrete."
        )
    shape = observations.shape
    if len(shape) > 2 or (len(shape) == 2 and observations.dtype == np.uint8):
        raise ConfigError(
            f"Environment {id!r} gives images of shape {shape}, and policies here see vectors of numbers. Put an"
            " encoder before it, trained elsewhere: a gymnasium.ObservationWrapper that turns each image into a vector."
        )
    if not isinstance(actions, box):
        raise ConfigError(
            f"Environment {id!r} has actions in a {type(actions).__name__} space; only a Box of real numbers can be"
            " acted in."
        )
    if not np.issubdtype(actions.dtype, np.floating) or not actions.is_bounded():
        raise ConfigError(
            f"Environment {id!r} has actions in {actions}; every action needs a lower and an upper bound, so that"
            " [-1, 1] can be scaled to them. gymnasium.wrappers.RescaleAction or ClipAction give bounds."
        )
