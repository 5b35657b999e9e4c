"""Outcomes of a life, in rows: the target that is operated, and the plain one beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from lifesafe._random import integer
from lifesafe.journal.events import Point
from lifesafe.life.trials import asked
from lifesafe.returns import Returns, returns_array
from lifesafe.safety.problem import Target

if TYPE_CHECKING:
    from lifesafe.life.life import Lifetime

_EPISODES = 100


@dataclass(frozen=True)
class TargetReturns:
    """A target and what its episodes returned.

    Attributes:
        name: What it is.
        limits: One per cost.
        target: What was asked for; none if there is no target.
        reward: Mean reward.
        normalized: The same between the extremes of the public dataset, if the task has them.
        costs: Mean costs.
        costs_normalized: The same as shares of their limits; up to 1 is safe.
        episodes: How many these are means of.
        ended: Share of them that the stop has ended; none if there is no stop.
    """

    name: str
    limits: tuple[float, ...]
    target: tuple[float, ...] | None = None
    reward: float | None = None
    normalized: float | None = None
    costs: tuple[float, ...] = ()
    costs_normalized: tuple[float, ...] = ()
    episodes: int = 0
    ended: float | None = None

    @property
    def safe(self) -> bool | None:
        """Whether every mean cost is at most its limit."""
        return all(share <= 1 for share in self.costs_normalized) if self.costs else None


def best_row(life: Lifetime) -> TargetReturns:
    """Return the target that the search recommends, with the means of its own episodes."""
    best = life.optimizer.best
    if best is None:
        return TargetReturns("lifesafe", life.optimizer.problem.limits)
    return _row(life, "lifesafe", best.target, best.means, best.episodes, _ended(life, best.point))


def operated_row(life: Lifetime) -> TargetReturns:
    """Return the target that was served last, with the means of its episodes of operation."""
    services = life.optimizer.history.services
    if not services or not services[-1].episodes:
        return best_row(life)
    last = services[-1]
    target = life.optimizer.problem.target(last.target)
    return _row(life, "lifesafe, operated", target, last.means.tolist(), last.episodes, last.ended)


def plain_row(life: Lifetime, episodes: int = _EPISODES) -> TargetReturns:
    """Return what is asked for without a search: the most reward in the logs, and a cost of just the limits.

    Its episodes end where those of the life do.

    NOTE: This runs a target that nobody has shown to be safe; do it in simulation only.
    """
    problem = life.optimizer.problem
    target = Returns(float(problem.low[0] + problem.extents[0]), problem.limits)
    seeds = [integer(life.plan.seed, "plain", episode) for episode in range(episodes)]
    returns = returns_array(life.evaluator.run([target] * episodes, seeds).returns)
    ended = _count_ended(life, returns)
    return _row(life, "plain (R_max, limit)", target, returns.mean(axis=0).tolist(), episodes, ended)


def _row(life: Lifetime, name: str, target: Target, means: Sequence[float], episodes: int, ended: int) -> TargetReturns:
    reward, *costs = means
    problem = life.optimizer.problem
    return TargetReturns(
        name=name,
        limits=problem.limits,
        target=tuple(asked(target)),
        reward=reward,
        normalized=None if life.task.reference is None else life.task.normalize(reward),
        costs=tuple(costs),
        costs_normalized=tuple(cost / limit for cost, limit in zip(costs, problem.limits, strict=True)),
        episodes=episodes,
        ended=None if problem.stop_at is None else ended / episodes,
    )


def _ended(life: Lifetime, point: Point) -> int:
    """Return how many of all episodes of a target were ended by the stop."""
    history = life.optimizer.history
    ended = sum(service.ended for service in history.services if service.target == point)
    for tried in history.told:
        own = [each == point for each in tried.points[: len(tried.episodes)]]
        ended += _count_ended(life, tried.episodes[own])
    return ended


def _count_ended(life: Lifetime, returns: Float[np.ndarray, "m r"]) -> int:
    stop_at = life.optimizer.problem.stop_at
    return 0 if stop_at is None else int((returns[:, 1:] >= np.array(stop_at)).any(axis=1).sum())
