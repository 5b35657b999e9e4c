"""Recorder: keeps what happens in a Gymnasium environment as a dataset."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatten

from lifesafe.data.dataset import Dataset, as_column
from lifesafe.data.episode import CostFunction, Episode
from lifesafe.errors import DatasetError


class _Step(NamedTuple):
    observation: np.ndarray
    action: np.ndarray
    reward: float
    costs: np.ndarray
    next_observation: np.ndarray


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that behaves as the one it wraps and keeps every episode.

    Observations are kept as flat rows, dictionaries and tuples joined in the order of their space; actions as clipped
    to the bounds of their box, though the environment gets them as they are given.

    An episode is *cut* if a reset, `close` or an exception comes before its end. What it would have earned and cost
    is not known, so it is dropped, and counted in `dropped`; with `keep_cut` it is kept up to there, as if a time limit
    had ended it, which is right if your own loop decides when an episode is over.

    Examples:
        >>> environment = Recorder(gymnasium.make("Pendulum-v1"), cost=lambda o, a, o2, info: float(o2[0] < 0))
        >>> for seed in range(2):
        ...     observation, info = environment.reset(seed=seed)
        ...     ended = False
        ...     while not ended:
        ...         observation, reward, terminated, truncated, info = environment.step([0.0])
        ...         ended = terminated or truncated
        >>> environment.dataset()
        Dataset(2 episodes, 400 transitions, 3 observations, 1 actions, 1 costs)
    """

    def __init__(self, env: Any, *, cost: CostFunction | None = None, keep_cut: bool = False) -> None:
        """Begin to record.

        Args:
            env: A Gymnasium environment whose actions are a box.
            cost: What a step cost, a number or one per cost, given the observation before it, the action, the
                observation after it, as they are kept, and the info. If not given, it is `info["cost"]`.
            keep_cut: Whether to keep episodes that are cut.

        Raises:
            DatasetError: If actions are not a box, or observations cannot be written as a row of numbers.
        """
        super().__init__(env)
        if not isinstance(env.action_space, gymnasium.spaces.Box):
            raise DatasetError(f"Only actions in a Box can be recorded; got {env.action_space}.")
        if not env.observation_space.is_np_flattenable:
            raise DatasetError(f"Observations must have a fixed number of entries; got {env.observation_space}.")
        self.dropped = 0
        """How many episodes were cut and not kept."""
        self._cost = cost
        self._keep_cut = keep_cut
        self._costs: int | None = None
        self._episodes: list[Episode] = []
        self._steps: list[_Step] = []
        self._observation: np.ndarray | None = None
        self._lost = True  # nobody knows how the episode under way began, or what happened in between

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._cut()
        observation, info = self.env.reset(seed=seed, options=options)
        self._observation, self._lost = self._row(observation), False
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step and keep it.

        Raises:
            DatasetError: If no cost is found, a cost is negative, or there is another number of costs than before; the
                episode is then cut.
        """
        try:
            done = self._clipped(action)  # now: the environment may write into it
            result = self.env.step(action)
            self._keep(done, *result)
            return result
        except BaseException:
            self._cut()
            raise

    def close(self) -> None:
        """Close the environment; what was recorded stays."""
        self._cut()
        super().close()

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """The episodes so far; that under way is among them if cut ones are kept."""
        under_way = [_episode(self._steps, terminated=False)] if self._keep_cut and self._steps else []
        return (*self._episodes, *under_way)

    def dataset(self) -> Dataset:
        """Return the episodes so far as a dataset; recording goes on.

        Raises:
            DatasetError: If there are none yet, or one holds NaN or infinities.
        """
        if not self.episodes:
            raise DatasetError(
                f"No episode has ended yet, {self.dropped} were cut before their end; let one reach its end, or record"
                " with keep_cut=True if your own loop decides when an episode is over."
            )
        return Dataset.from_episodes(self.episodes)

    def _keep(
        self, done: np.ndarray, observation: Any, reward: Any, terminated: bool, truncated: bool, info: Any
    ) -> None:
        before, after, ended = self._observation, self._row(observation), bool(terminated or truncated)
        if before is not None and not self._lost:
            earned = np.asarray(reward).item()  # older environments give an array of one number
            costs = self._step_costs(before, done, after, info)
            self._steps.append(_Step(before, done, float(earned), costs, after))
        if ended and self._steps:
            self._episodes.append(_episode(self._steps, terminated=bool(terminated)))
            self._steps = []
        # An environment that restarts by itself gives the first observation of the next episode with the step after
        # an end; that step is none of an episode's.
        self._observation = None if ended else after
        self._lost = self._lost and not ended

    def _cut(self) -> None:
        if self._steps and self._keep_cut:
            self._episodes.append(_episode(self._steps, terminated=False))
        elif self._steps:
            self.dropped += 1
        self._steps, self._observation, self._lost = [], None, True

    def _row(self, observation: Any) -> np.ndarray:
        # A copy: environments may write the next observation into the same array.
        return as_column(np.array(flatten(self.env.observation_space, observation)))

    def _clipped(self, action: Any) -> np.ndarray:
        space: Any = self.env.action_space
        return as_column(np.clip(np.asarray(action).reshape(space.shape), space.low, space.high).reshape(-1))

    def _step_costs(
        self, before: np.ndarray, action: np.ndarray, after: np.ndarray, info: dict[str, Any]
    ) -> np.ndarray:
        if self._cost is not None:
            value: Any = self._cost(before, action, after, info)
        elif "cost" in info:
            value = info["cost"]
        else:
            raise DatasetError(
                f'The info of a step has no "cost", only {sorted(map(str, info)) or "nothing"};'
                " give a function: Recorder(env, cost=...)."
            )
        costs = as_column(np.array(value).reshape(-1))  # a copy, as of observations
        if (costs < 0).any():
            raise DatasetError(
                f"A step costs {costs.min():g} (cost {costs.argmin() + 1}); costs are never negative. Shift them, or"
                " count what is good as reward."
            )
        expected = self._costs or max(len(costs), 1)
        if len(costs) != expected:
            raise DatasetError(f"A step has {len(costs)} costs, those before it {expected}; give the same for each.")
        self._costs = expected
        return costs


def _episode(steps: list[_Step], *, terminated: bool) -> Episode:
    observations, actions, rewards, costs, next_observations = zip(*steps, strict=True)
    return Episode(
        observations=np.stack(observations),
        actions=np.stack(actions),
        rewards=as_column(rewards),
        costs=np.stack(costs),
        next_observations=np.stack(next_observations),
        terminated=terminated,
    )
