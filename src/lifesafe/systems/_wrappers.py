"""Gymnasium environments around others. Loaded only when an environment is made, since it loads Gymnasium."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from lifesafe.errors import EpisodeError
from lifesafe.systems.any_environment import Cost


class Costly(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts into `info["cost"]` what a function of one step says: (observation, action, next observation, info).

    The function gets copies: environments may write every observation into the same array.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], cost: Cost) -> None:
        super().__init__(environment)
        self._cost = cost
        self._seen: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._seen = copy.deepcopy(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            EpisodeError: If the function fails.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self._seen = self._seen, copy.deepcopy(observation)
        try:
            info["cost"] = self._cost(before, action, copy.deepcopy(observation), info)
        except Exception as error:
            *_, place = traceback.extract_tb(error.__traceback__)
            raise EpisodeError(
                f"The cost function failed in {place.filename}, line {place.lineno}: {type(error).__name__}: {error}."
                " It is called with (observation, action, next observation, info); mend it."
            ) from error
        return observation, reward, terminated, truncated, info


class Scaled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes actions in [-1, 1], whatever the bounds inside, and sees flat observations."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        super().__init__(environment)
        actions, observations = environment.action_space, environment.observation_space
        assert isinstance(actions, Box)
        self._bounds = actions.low, actions.high
        self._middle = ((actions.high + actions.low) / 2).ravel()
        self._half = ((actions.high - actions.low) / 2).ravel()
        self.action_space = Box(-1.0, 1.0, (len(self._half),), np.float32)
        self.observation_space = Box(-np.inf, np.inf, (int(np.prod(observations.shape or ())),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._flat(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        low, high = self._bounds
        inner = (self._middle + self._half * np.clip(action, -1.0, 1.0)).reshape(low.shape)
        within = np.clip(inner, low, high)  # rounding takes -1 and 1 out of them
        observation, *rest = self.env.step(within.astype(low.dtype))
        return self._flat(observation), *rest

    def _flat(self, observation: Any) -> Any:
        # A copy: environments may write the next observation into the same array.
        return np.array(observation, dtype=np.float32).ravel()


class SeededBullet(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A task of Bullet-Safety-Gym in which the seed of `reset` decides the whole episode.

    The original ignores that seed, draws from the global `numpy.random`, and lets the motors of the last episode run
    on into the next one. Here the global state is lent for the reset and put back after it, the state that
    every reset returns to is made with one fixed seed, and before each reset the motors are set as by a zero action.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        super().__init__(environment)
        self._random = np.random.RandomState(0)
        self._reset(0, None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; without a seed, the draws go on where this environment's last ones ended."""
        builder: Any = self.unwrapped
        builder.agent.apply_action(np.zeros(builder.agent.act_dim))
        builder.bc.stepSimulation()  # uses up the forces of that action, so that only the motors keep it
        return self._reset(seed, options)

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._random.seed(seed)
        with lent_to_numpy(self._random):
            return self.env.reset(options=options)


@contextmanager
def lent_to_numpy(random: np.random.RandomState) -> Iterator[None]:
    """Let the global `numpy.random` draw from another state, and put its own back afterwards."""
    own = np.random.get_state()  # noqa: NPY002 - the simulator draws from nothing else
    np.random.set_state(random.get_state())  # noqa: NPY002
    try:
        yield
    finally:
        random.set_state(np.random.get_state())  # noqa: NPY002
        np.random.set_state(own)  # noqa: NPY002
