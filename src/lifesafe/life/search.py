"""Search: how a life searches its target, and what it promises on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from lifesafe.data.luck import Steps
from lifesafe.errors import ConfigError
from lifesafe.operation import LEVEL
from lifesafe.preparation.logs import episode_returns, problem_from_logs
from lifesafe.returns import Returns
from lifesafe.safety.problem import EPISODES, Problem, Promise, floats
from lifesafe.systems import Box, Task

Start = Literal["data", "calm", "paper"]


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a life searches its target.

    Examples:
        >>> Search(stop_at=40.0).stop_at
        (40.0,)
    """

    delta: float = 0.1
    """Probability with which the promise may fail."""
    promise: Promise = "trial"
    """What is promised: "trial", no trial's mean cost exceeds a limit, under the model; or "total", what has been spent
    never exceeds what was allowed, without a model. The second needs `stop_at`."""
    stop_at: tuple[float, ...] | None = None
    """Cost at which an episode is ended, one per cost or one for all; episodes run to their end unless given."""
    incident: tuple[float, ...] | Literal["horizon"] | None = None
    """Largest cost that one mishap adds, where there is no stop: 3 limits unless given."""
    episodes: int = EPISODES
    """Real episodes that a search takes at most."""
    start: Start = "data"
    """Where it begins. With "data" a CDT that was trained on relabeled episodes is first asked for all reward at no
    cost, others as with "calm": for a middling reward of the cheap episodes, at no cost; that suits a CDT, too, if its
    training was short. "paper" begins in the box that the paper names for each of its tasks."""
    level: float = LEVEL
    """Probability that the watch over a target in operation ever raises a false alarm."""

    def __post_init__(self) -> None:
        for name in ("stop_at", "incident"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                object.__setattr__(self, name, floats(value))  # the class is frozen for everybody else
        if self.start not in ("data", "calm", "paper"):
            raise ConfigError(f'start must be "data", "calm" or "paper"; got {self.start!r}.')
        if not 0 < self.level < 1:
            raise ConfigError(f"level must lie between 0 and 1; got {self.level}.")

    def for_costs(self, costs: int) -> Self:
        """Return the same search with one number for each of so many costs.

        Raises:
            ConfigError: If there are others.
        """
        return replace(
            self,
            stop_at=_for_each("stop_at", self.stop_at, costs),
            incident=self.incident if isinstance(self.incident, str) else _for_each("incident", self.incident, costs),
        )

    def problem(self, task: Task, logs: Steps, *, relabeled: bool, seed: int) -> Problem:
        """Return the problem of a task, from its logs.

        Args:
            task: Its limits, its largest costs, and the paper's box.
            logs: Logged episodes.
            relabeled: Whether the policy was trained on relabeled episodes.
            seed: Decides what is drawn.

        Raises:
            ConfigError: If a setting is impossible, or the paper has no box for the task.
            DatasetError: If the logs are too few, or no episode keeps the limits.
            NoSafeTargetError: If the cheap episodes look like luck at every start.
        """
        settings: dict[str, Any] = {
            "delta": self.delta,
            "promise": self.promise,
            "stop_at": self.stop_at,
            "largest_step": task.largest_costs,
            "incident": self.incident,
            "largest": tuple(task.horizon * largest for largest in task.largest_costs),
            "episodes": self.episodes,
            "seed": seed,
        }
        if self.start != "paper":
            return problem_from_logs(logs, limits=task.limits, relabeled=relabeled, start=self.start, **settings)
        rewards = episode_returns(logs)[:, 0]
        settings["starts"] = _paper_starts(task, (float(rewards.min()), float(rewards.max())))
        return problem_from_logs(logs, limits=task.limits, **settings)


def _for_each(name: str, values: tuple[float, ...] | None, costs: int) -> tuple[float, ...] | None:
    if values is None or len(values) == costs:
        return values
    if len(values) > 1:
        raise ConfigError(f"Got {len(values)} numbers as {name} for {costs} costs; give one per cost.")
    return values * costs


def _paper_starts(task: Task, rewards: tuple[float, float]) -> tuple[Returns, Returns]:
    """Return the corner of the paper's box with the least reward and cost, then its center.

    Args:
        task: What has a box.
        rewards: Least and most reward of the logs; a start beyond them is moved there.
    """
    if task.start is None:
        raise ConfigError(f'The paper names no targets to start from for {task.name!r}; set start to "data".')
    if len(task.limits) > 1:
        raise ConfigError(
            f"The paper starts from targets with one cost, and {task.name!r} has {len(task.limits)}; set start to"
            ' "data".'
        )
    return _at(task.start, 0.0, rewards), _at(task.start, 0.5, rewards)


def _at(box: Box, share: float, rewards: tuple[float, float]) -> Returns:
    reward, cost = (low + share * (high - low) for low, high in (box.reward, box.cost))
    return Returns(min(max(reward, rewards[0]), rewards[1]), cost)
