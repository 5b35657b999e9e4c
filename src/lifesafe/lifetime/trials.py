"""Running a trial on a simulator: which episodes, and when a long one may stop early."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from lifesafe._random import integer
from lifesafe.data import Dataset
from lifesafe.environments import Evaluator, Task
from lifesafe.errors import DatasetError
from lifesafe.operation import Monitor
from lifesafe.optimizer import SafeOptimizer, Schedule, Stage, Trial
from lifesafe.optimizer.certificates import LEVEL, bet_won
from lifesafe.optimizer.problem import grid_points
from lifesafe.returns import Returns, returns_array
from lifesafe.theory.betting import ROUNDING, safety_test

DITHER = 0.05
"""How much what a life asks for differs from episode to episode, unless told otherwise (decision 0014)."""
_SLACK = 1.5  # a seed that costs a third of its limit needs about so many times the episodes of one that costs nothing


def default_schedule(task: Task, dither: float = DITHER) -> Schedule:
    """Return the schedule of a lifetime: seeds are certified by betting, and a violation holds up the search.

    With dither, no step is longer than its deviation: an edge one step ahead is then met by every sixth episode. With
    three costs or more the default grid is coarser than that, and a step leads to its next point.
    """
    return schedule_for(task.limits, cost_bounds(task), dither)


def cost_bounds(task: Task) -> tuple[float, ...]:
    """Return the largest possible cost of an episode, for each cost."""
    return tuple(task.horizon * largest for largest in task.largest_costs)


def check_largest_costs(task: Task, dataset: Dataset) -> None:
    """Refuse logs with a step that costs more than the task says is possible: certificates and the monitor rest on it.

    Raises:
        DatasetError: If there is one.
    """
    for k, (found, largest) in enumerate(zip(dataset.costs.max(axis=0), task.largest_costs, strict=True)):
        if found > largest * (1 + ROUNDING):
            raise DatasetError(
                f"A logged step costs {found:g} (cost {k + 1}); by task {task.name!r} none costs more than {largest:g},"
                " and what is certified rests on that. Give the largest cost that a step can have (`largest_costs`, on"
                " the command line --largest-costs), or mend the logs."
            )


def schedule_for(limits: Sequence[float], bounds: Sequence[float], dither: float = 0.0) -> Schedule:
    """Return the same for limits and the largest possible costs of an episode; by the score if these are not known."""
    schedule = Schedule(on_violation="hold")
    next_point = 1 / (grid_points(len(limits)) - 1)  # with many costs, further away than a step would be long
    schedule = replace(schedule, reach=max(min(schedule.reach, dither or schedule.reach), next_point))
    if not bounds:
        return schedule
    count = seed_episodes(limits, bounds, schedule.episodes)
    return replace(schedule, certification="betting", seed_episodes=count)


def seed_episodes(limits: Sequence[float], bounds: Sequence[float], episodes: int) -> int:
    """Return how many episodes certify a seed that costs little, as a multiple of those of a trial."""
    needed = 1
    for limit, bound in zip(limits, bounds, strict=True):
        test, level = safety_test(limit, bound, LEVEL / len(limits)), LEVEL / len(limits)
        gain = max(math.log1p(-bet * limit) for bet in test.bets)  # of an episode without cost, at the largest bet
        needed = max(needed, math.ceil(math.log(2 / level) / gain))
    return episodes * math.ceil(_SLACK * needed / episodes)


def run_trial(
    evaluator: Evaluator,
    optimizer: SafeOptimizer,
    trial: Trial,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Returns]:
    """Return what the episodes of a trial returned; the same ones whenever it is run again.

    A trial ends early if the monitor is sure that its target is too costly; it looks after half of the episodes. One of
    a seed ends, too, when all its episodes, those of earlier trials included, certify it.

    Args:
        evaluator: The policy at work.
        optimizer: What asked for the trial.
        trial: What to try, and for how many episodes at most.
        seed: Seed of the run.
        progress: Called with the episodes done and those asked for.
    """
    seeds = [integer(seed, "trial", trial.number, episode) for episode in range(trial.episodes)]
    chunk = optimizer.schedule.episodes if trial.stage is Stage.SEED else math.ceil(trial.episodes / 2)
    earlier = [result.episodes for result in optimizer.trials if result.trial.index == trial.index]
    targets, returns = optimizer.targets(trial), list[Returns]()
    while len(returns) < trial.episodes and not (returns and _is_decided(optimizer, trial, earlier, returns)):
        now = slice(len(returns), len(returns) + chunk)
        returns += evaluator.run(targets[now], seeds[now]).returns
        if progress is not None:
            progress(len(returns), trial.episodes)
    return returns


def _is_decided(
    optimizer: SafeOptimizer, trial: Trial, earlier: Sequence[Float[np.ndarray, "_ r"]], returns: Sequence[Returns]
) -> bool:
    """Whether the episodes show that the target is too costly, or all that a seed has to show."""
    problem = optimizer.problem
    if not problem.cost_bounds:
        return False
    episodes = np.concatenate([*earlier, returns_array(returns)])
    if Monitor.start(problem.limits, problem.cost_bounds).update(episodes[:, 1:]).alarm is not None:
        return True
    certified_by_bet = trial.stage is Stage.SEED and optimizer.schedule.certification == "betting"
    return certified_by_bet and bet_won(problem, episodes)
