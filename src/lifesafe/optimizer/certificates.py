"""What a target's own episodes prove about its mean cost, without the Gaussian process."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.schedule import Schedule
from lifesafe.theory.betting import ROUNDING, safety_test

EPISODES = 20  # own episodes that a certificate needs at least
QUANTILE = 2.33  # one-sided 99 %
LEVEL = 0.05  # of the betting test, shared by all costs


def upper_bounds(posterior: Posterior, episodes: Float[np.ndarray, "m r"]) -> tuple[float, ...]:
    """Return an upper bound of each mean cost from some episodes of one target, in score form."""
    costs = [episodes[:, 1 + k] for k in range(len(posterior.costs))]
    return tuple(float(x.mean()) + QUANTILE * posterior.noise_sd(k, x) for k, x in enumerate(costs))


def certified(problem: Problem, posterior: Posterior, index: int) -> bool:
    """Return whether a target's own episodes show that every mean cost keeps its limit."""
    own = posterior.own_episodes(index)
    if len(own) < EPISODES:
        return False
    return all(u <= b for u, b in zip(upper_bounds(posterior, own), problem.limits, strict=True))


def seed_certified(problem: Problem, schedule: Schedule, posterior: Posterior, index: int) -> bool:
    """Return whether a seed may be trusted, in the way that the schedule asks for."""
    own = posterior.own_episodes(index)
    if schedule.certification == "asserted":
        return len(own) > 0  # it is measured once, so that the model starts from data
    if schedule.certification == "score":
        return certified(problem, posterior, index)
    return bet_won(problem, own)


def bet_won(problem: Problem, episodes: Float[np.ndarray, "m r"]) -> bool:
    """Return whether episodes of one target show, whatever the distribution of costs, that every limit is kept.

    Not if a cost lies outside its bounds: what the bet supposes does not hold then.
    """
    if not within_bounds(problem, episodes):
        return False
    tests = zip(problem.limits, problem.cost_bounds, strict=True)
    return all(
        safety_test(limit, bound, LEVEL / len(problem.limits)).update(np.minimum(episodes[:, 1 + k], bound)).rejected
        for k, (limit, bound) in enumerate(tests)
    )


def within_bounds(problem: Problem, episodes: Float[np.ndarray, "m r"]) -> bool:
    """Return whether every cost is one that the bounds on costs allow, up to rounding; without bounds all are."""
    costs, bounds = episodes[:, 1:], np.array(problem.cost_bounds) * (1 + ROUNDING)
    return not problem.cost_bounds or bool(((costs >= 0) & (costs <= bounds)).all())


def violated(problem: Problem, posterior: Posterior, episodes: Float[np.ndarray, "m r"], share: float = 1.0) -> bool:
    """Return whether episodes of one target show that some mean cost exceeds its limit, two deviations above it.

    Args:
        problem: The limits.
        posterior: Knows how much costs differ from episode to episode.
        episodes: What they returned.
        share: Part of each limit that counts in its place.
    """
    for k, limit in enumerate(problem.limits):
        costs = episodes[:, 1 + k]
        if float(costs.mean()) - 2 * posterior.noise_sd(k, costs) > share * limit:
            return True
    return False
