"""What a life came to, in rows: the target that is operated, and the plain one beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lifesafe._random import integer
from lifesafe.returns import Returns, returns_array

if TYPE_CHECKING:
    from lifesafe.lifetime.lifetime import Lifetime

_EPISODES = 100


@dataclass(frozen=True)
class Row:
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
    """

    name: str
    limits: tuple[float, ...]
    target: tuple[float, ...] | None = None
    reward: float | None = None
    normalized: float | None = None
    costs: tuple[float, ...] = ()
    costs_normalized: tuple[float, ...] = ()
    episodes: int = 0

    @property
    def safe(self) -> bool | None:
        """Whether every mean cost is at most its limit."""
        return all(share <= 1 for share in self.costs_normalized) if self.costs else None

    @staticmethod
    def headings() -> tuple[str, ...]:
        """Return the names of the columns."""
        return ("", "limit", "target (R, G)", "reward", "normalized", "cost", "cost / limit", "safe", "episodes")

    def cells(self) -> tuple[str, ...]:
        """Return the row as words."""
        if self.target is None or self.reward is None:
            return (self.name, _words(self.limits), "none", *["-"] * 5, "0")
        target = f"({self.target[0]:.4g}, {_words(self.target[1:])})"
        normalized = "-" if self.normalized is None else f"{self.normalized:.2f}"
        shares = ", ".join(f"{share:.2f}" for share in self.costs_normalized)
        safe = "yes" if self.safe else "NO"
        costs = _words(self.costs)
        reward, episodes = f"{self.reward:.1f}", str(self.episodes)
        return (self.name, _words(self.limits), target, reward, normalized, costs, shares, safe, episodes)


def best_row(life: Lifetime) -> Row:
    """Return the target that the search recommends, with the means of its own trials."""
    best = life.optimizer.best
    if best is None:
        return Row("lifesafe", life.optimizer.problem.limits)
    return _row(life, "lifesafe", best.target, np.array([tuple(best.means)]), best.episodes)


def operated_row(life: Lifetime) -> Row:
    """Return the target that was served last, with the means of its episodes of operation."""
    bodies = [(kind, body) for kind, body in life.optimizer.operation if kind in ("serving", "served")]
    starts = [i for i, (kind, _) in enumerate(bodies) if kind == "serving"]
    served = [body["episodes"] for kind, body in bodies[starts[-1] :] if kind == "served"] if starts else []
    if not served:
        return best_row(life)
    target = life.optimizer.problem.target(bodies[starts[-1]][1]["index"])
    return _row(life, "lifesafe, operated", target, np.concatenate(served))


def plain_row(life: Lifetime, episodes: int = _EPISODES) -> Row:
    """Return what is asked for without a search: the most reward in the logs, and a cost of just the limits.

    NOTE: This runs a target that nobody has shown to be safe; do it in simulation only.
    """
    Z, limits = life.optimizer.problem.candidates, life.optimizer.problem.limits
    target = Returns(float(Z[:, 0].max()), list(limits))
    seeds = [integer(life.seed, "plain", episode) for episode in range(episodes)]
    returns = returns_array(life.evaluator.run([target] * episodes, seeds).returns)
    return _row(life, "plain (R_max, limit)", target, returns)


def _row(life: Lifetime, name: str, target: Returns, returns: np.ndarray, episodes: int | None = None) -> Row:
    reward, *costs = (float(mean) for mean in returns.mean(axis=0))
    limits = life.optimizer.problem.limits
    return Row(
        name=name,
        limits=limits,
        target=tuple(target),
        reward=reward,
        normalized=None if life.task.reference is None else life.task.normalize(reward),
        costs=tuple(costs),
        costs_normalized=tuple(cost / limit for cost, limit in zip(costs, limits, strict=True)),
        episodes=len(returns) if episodes is None else episodes,
    )


def _words(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
