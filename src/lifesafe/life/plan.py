"""Plan: all that decides how a life goes, apart from its logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from lifesafe._config import from_plain, to_plain
from lifesafe.data.luck import LoggedSteps
from lifesafe.errors import ConfigError
from lifesafe.operation import LEVEL
from lifesafe.policies import CDTConfig
from lifesafe.policies.checkpoint import config_class, policy_kind
from lifesafe.policies.learner import LearnerConfig
from lifesafe.preparation.logs import episode_returns, problem_from_logs
from lifesafe.returns import Returns, per_cost
from lifesafe.safety.problem import EPISODES, Problem, Promise
from lifesafe.systems import Task, from_recipe, recipe
from lifesafe.systems import task as find_task

Start = Literal["data", "calm", "paper"]


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a life searches its target, and what it promises on the way.

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

    def __post_init__(self) -> None:
        self._spread(None)
        if self.start not in ("data", "calm", "paper"):
            raise ConfigError(f'start must be "data", "calm" or "paper"; got {self.start!r}.')

    def for_costs(self, costs: int) -> Self:
        """Return the same search with one number for each of so many costs.

        Raises:
            ConfigError: If there are others.
        """
        spread = replace(self)
        spread._spread(costs)
        return spread

    def _spread(self, costs: int | None) -> None:
        for name in ("stop_at", "incident"):
            value = getattr(self, name)
            if value is not None and value != "horizon":
                object.__setattr__(self, name, per_cost(name, value, costs))  # the class is frozen for everybody else


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a life does: `Lifetime.open(directory, plan, data=...)` begins it, and writes the plan to run.toml.

    Examples:
        >>> from lifesafe.systems import task
        >>> Plan(task=task("PointCircle", limits=40.0), search=Search(stop_at=80.0)).task.limits
        (40.0,)
    """

    task: Task
    """What to do, and under which limits."""
    method: LearnerConfig = field(default_factory=CDTConfig)
    """How the policy is trained."""
    search: Search = Search()
    """How the target is searched."""
    level: float = LEVEL
    """Probability that the watch over a target in operation ever raises a false alarm."""
    seed: int = 0
    """Decides everything that is random."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", self.search.for_costs(len(self.task.limits)))
        if not 0 < self.level < 1:
            raise ConfigError(f"level must lie between 0 and 1; got {self.level}.")

    def problem(self, logs: LoggedSteps) -> Problem:
        """Return the problem that is searched, from logged episodes.

        Raises:
            ConfigError: If a setting is impossible, or the paper has no box for the task.
            DatasetError: If the logs are too few, or no episode keeps the limits.
            NoSafeTargetError: If the cheap episodes look like luck at every start.
        """
        task, search = self.task, self.search
        settings: dict[str, Any] = {
            "delta": search.delta,
            "promise": search.promise,
            "stop_at": search.stop_at,
            "largest_step": task.largest_costs,
            "incident": search.incident,
            "largest": tuple(task.horizon * largest for largest in task.largest_costs),
            "episodes": search.episodes,
            "seed": self.seed,
        }
        if search.start == "paper":
            settings["starts"] = _paper_starts(task, logs)
        start: Literal["data", "calm"] = "calm" if search.start == "calm" else "data"
        return problem_from_logs(logs, limits=task.limits, relabeled=relabels(self.method), start=start, **settings)

    def to_plain(self) -> dict[str, Any]:
        """Return the plan as the tables of run.toml."""
        task, made = self.task, recipe(self.task)
        run = {"task": task.name, "limits": list(task.limits), "horizon": task.horizon}
        run |= {"largest_costs": list(task.largest_costs), "level": self.level, "seed": self.seed}
        return {
            "run": run,
            **({} if made is None else {"environment": made}),
            "search": to_plain(self.search),
            "policy": {"kind": policy_kind(self.method), "config": to_plain(self.method)},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], source: str) -> Self:
        """Return the plan that the tables of run.toml describe.

        Raises:
            ConfigError: If its task is not registered here, or a setting is impossible.
        """
        run, policy = plain["run"], plain["policy"]
        limits = tuple(run["limits"])
        try:
            made = plain.get("environment")
            task = find_task(run["task"], limits=limits) if made is None else from_recipe(made, limits)
        except LookupError as error:
            raise ConfigError(
                f"{source} is about the task {run['task']!r}, which is not registered here; give the plan, or register"
                " the task first."
            ) from error
        return cls(
            task=task,
            method=from_plain(config_class(policy["kind"]), policy["config"], source),
            search=from_plain(Search, plain["search"], source),
            level=run["level"],
            seed=run["seed"],
        )


def relabels(method: LearnerConfig) -> bool:
    """Return whether a policy learns from relabeled episodes to keep the cost when asked for all reward at none."""
    return isinstance(method, CDTConfig) and method.augmentation.fraction > 0


def _paper_starts(task: Task, logs: LoggedSteps) -> list[Returns]:
    """Return the lowest corner of the paper's box, then its center; each within the rewards of the logs."""
    if task.start is None or len(task.limits) > 1:
        raise ConfigError(
            f"The paper names no targets to start from for {task.name!r} with {len(task.limits)} cost(s); set start to"
            ' "data".'
        )
    box, rewards = task.start, episode_returns(logs)[:, 0]
    corner, center = ((low + share * (high - low) for low, high in (box.reward, box.cost)) for share in (0.0, 0.5))
    return [Returns(float(min(max(reward, rewards.min()), rewards.max())), cost) for reward, cost in (corner, center)]
