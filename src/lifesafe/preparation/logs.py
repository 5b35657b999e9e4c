"""From logs to a problem: the one way by which the command line and a life find a box and the starts.

The starts ask for no cost, and for rewards as the episodes that cost least have them. A start is left out if these
episodes look like luck, see `lifesafe.data.luck`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from lifesafe.data.luck import MOST, LoggedSteps, luck
from lifesafe.errors import DatasetError, NoSafeTargetError
from lifesafe.returns import Returns
from lifesafe.safety.betting import ROUNDING
from lifesafe.safety.problem import Problem


def problem_from_logs(
    logs: LoggedSteps,
    *,
    limits: float | Sequence[float],
    relabeled: bool = False,
    start: Literal["data", "calm"] = "data",
    **settings: Any,
) -> Problem:
    """Return the problem whose box and starts come from logs; the same logs and settings give the same problem.

    A policy that was trained on relabeled episodes knows what to do when asked for all reward at no cost: to keep the
    cost. That is its first start. Others have seen no such target, and begin among the calm episodes.

    Args:
        logs: Logged episodes, step by step.
        limits: One limit per cost.
        relabeled: Whether the policy was trained on relabeled episodes.
        start: "data" for the starts above, "calm" for those among the calm episodes in any case.
        settings: Further fields of `Problem`. With `starts`, these are taken as they are.

    Raises:
        DatasetError: If the logs are too few, no episode keeps the limits, or a step costs less than nothing or more
            than a step can.
        ConfigError: If a setting is impossible.
        NoSafeTargetError: If the cheap episodes look like luck at every start.
    """
    check_logged_costs(logs)
    problem = Problem.from_returns(episode_returns(logs), limits=limits, **settings)
    if problem.stop_at is not None or problem.largest_step is not None:
        check_logged_costs(logs, problem.steps)
    if "starts" in settings:
        return problem
    if relabeled and start == "data":
        rewards = problem.low[0] + problem.extents[0]
        first = Returns(float(rewards), [0.0] * len(problem.limits))
        problem = replace(problem, starts=(first, *problem.starts))
    return problem if all(problem.sure) else skilled(problem, logs)


def check_logged_costs(logs: LoggedSteps, largest_step: Sequence[float] | None = None) -> None:
    """Refuse logs with a step that costs less than nothing, or more than is said to be possible.

    Raises:
        DatasetError: If there is one.
    """
    costs = logs.costs[: logs.offsets[-1]]
    if not np.isfinite(costs).all():
        raise DatasetError("A logged step has a cost that is no finite number. Mend the logs.")
    lowest, highest = costs.min(axis=0), costs.max(axis=0)
    for k in range(costs.shape[1]):
        if lowest[k] < 0:
            raise DatasetError(
                f"A logged step costs {lowest[k]:g} (cost {k + 1}); costs are never negative. Shift them, or count what"
                " is good as reward."
            )
    for k, most in enumerate(largest_step or ()):
        if highest[k] > most * (1 + ROUNDING):
            raise DatasetError(
                f"A logged step costs {highest[k]:g} (cost {k + 1}), and with largest_step = {most:g} none costs more;"
                " what is certified rests on that. Give the largest cost that a step can have, or mend the logs."
            )


def episode_returns(logs: LoggedSteps) -> Float[np.ndarray, "e r"]:
    """Return what each logged episode earned and cost, the reward first."""
    steps = np.column_stack([logs.rewards, logs.costs]).astype(np.float64)[: logs.offsets[-1]]
    returns: Float[np.ndarray, "e r"] = np.add.reduceat(steps, logs.offsets[:-1], axis=0)
    return returns


def skilled(problem: Problem, logs: LoggedSteps) -> Problem:
    """Return the problem without the starts at which the cheap episodes of the logs look like luck.

    Raises:
        NoSafeTargetError: If that leaves none.
    """
    found = luck(logs, problem.limits, [start[0] for start in problem.starts])
    starts = tuple(start for start, costs in zip(problem.starts, found, strict=True) if costs <= MOST)
    if not starts:
        raise NoSafeTargetError(
            "The logs tell of no target to begin with: their cheap episodes look like luck. Of episodes that are like"
            f" them by one half, the other half alone costs {found.min():.1f} limits or more, at every reward to begin"
            " with. Log behaviors that keep the limit on purpose, keep all of their episodes, or raise the limit."
        )
    return replace(problem, starts=starts)
