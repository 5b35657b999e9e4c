"""Where a search begins: targets believed to be safe, the most trusted first.

They are measured until one is certified; the others count as any target until their own episodes certify them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from lifesafe.data.luck import MOST, Steps, luck
from lifesafe.environments import Box, Task
from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.optimizer import Problem, SafeOptimizer
from lifesafe.optimizer.problem import inside, nearest
from lifesafe.returns import Returns


def problem_of(
    task: Task,
    returns: Float[np.ndarray, "e r"],
    *,
    delta: float,
    bounds: Sequence[float],
    start: str,
    relabeled: bool = False,
    dither: float = 0.0,
    seed: int = 0,
) -> Problem:
    """Return the problem of a task, from the returns of its logs.

    A policy that was trained on relabeled episodes knows what to do when asked for all reward at no cost: to keep
    the cost. That is its first seed. Others have seen no such target, and begin among the calm episodes.

    Args:
        task: The limits, and the paper's box.
        returns: Reward and costs of every logged episode.
        delta: Probability with which any trial at all may exceed a limit.
        bounds: Largest possible cost of an episode, for each cost.
        start: "data" for the targets above, "calm" for those of policies that were not, "paper" for the paper's box.
        relabeled: Whether the policy was trained on relabeled episodes.
        dither: How much what is asked for differs from episode to episode, as a fraction of each axis.
        seed: Decides what dither draws.

    Raises:
        ConfigError: If the paper has no box for the task, or the task has several costs.
        DatasetError: If the logs are too few, or none keeps the limits.
    """
    problem = Problem.from_returns(
        returns, limits=task.limits, delta=delta, cost_bounds=tuple(bounds), dither=dither, dither_seed=seed
    )
    if start == "calm" or (start == "data" and not relabeled):
        return problem
    if start == "data":
        return replace(problem, seeds=(_all_for_nothing(problem), *problem.seeds))
    if task.start is None:
        raise ConfigError(f'The paper names no targets to start from for {task.name!r}; set start to "data".')
    if len(task.limits) > 1:
        raise ConfigError(
            f"The paper starts from targets with one cost, and {task.name!r} has {len(task.limits)}; set start to"
            ' "data".'
        )
    return replace(problem, seeds=_in_box(problem, task.start))


def skilled(problem: Problem, logs: Steps) -> Problem:
    """Return the problem without the seeds at which the cheap episodes of the logs look like luck.

    Raises:
        NoSafeTargetError: If that leaves none.
    """
    found = luck(logs, problem.limits, problem.candidates[list(problem.seeds), 0].tolist())
    seeds = tuple(seed for seed, costs in zip(problem.seeds, found, strict=True) if costs <= MOST)
    if not seeds:
        raise NoSafeTargetError(
            "The logs tell of no target to begin with: their cheap episodes look like luck. Of episodes that are like"
            f" them by one half, the other half alone costs {found.min():.1f} limits or more, at every reward to begin"
            " with. Log behaviors that keep the limit on purpose, keep all of their episodes, or raise the limit."
        )
    return replace(problem, seeds=seeds)


def _all_for_nothing(problem: Problem) -> int:
    """Return the candidate that asks for the least cost and, at that, the most reward."""
    Z = problem.candidates
    return int(np.lexsort([-Z[:, 0], Z[:, 1:].sum(axis=1)])[0])


def _in_box(problem: Problem, box: Box) -> tuple[int, ...]:
    """Return the candidates in a box, the least cost and reward first; the nearest one if none is inside."""
    low, high = (Returns(box.reward[i], [box.cost[i]]) for i in (0, 1))
    rows = inside(problem.candidates, low, high)
    Z = problem.candidates
    return tuple(sorted(rows, key=lambda i: (Z[i, 1], Z[i, 0]))) or (nearest(Z, low),)


def seeds_under(optimizer: SafeOptimizer, limits: Sequence[float]) -> tuple[int, ...] | None:
    """Return the seeds for other limits; none, to keep the present ones, if no limit becomes lower.

    Under lower limits they are the targets whose own episodes show that they keep them, those with the most room first.

    Raises:
        NoSafeTargetError: If there is no such target.
    """
    if all(new >= old for new, old in zip(limits, optimizer.problem.limits, strict=True)):
        return None
    room = {
        target.index: max(upper / limit for upper, limit in zip(target.cost_upper, limits, strict=True))
        for target in optimizer.fit
    }
    seeds = sorted((index for index, used in room.items() if used <= 1), key=lambda index: (room[index], index))
    if not seeds:
        raise NoSafeTargetError(
            f"None of the {len(optimizer.trials)} trials shows a target that keeps the lower limits {tuple(limits)}:"
            f" the upper bounds of the cheapest use {min(room.values(), default=float('inf')):.0%} of them. Run a life"
            " with these limits from its beginning."
        )
    return tuple(seeds)
