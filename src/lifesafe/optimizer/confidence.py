"""Risk and confidence bands at every candidate, and how much risk the next trial may take.

Notation:
    p_k(z)      posterior probability that cost k of target z exceeds its limit
    Delta       probability with which any trial at all may exceed a limit
    spent       risk charged so far for first visits of targets
    alpha       width of the cost bands in standard deviations; the reward bands always have 2

The ledger. A target is admissible if its risk sum_k p_k(z) is at most a share of Delta - spent, and its first visit is
charged that risk. The target of a trial depends on earlier data only, so under the model a first visit violates with
probability at most its charge, and all visits together with probability at most E[spent] <= Delta, whatever the number
of candidates, the acquisition or the stopping rule (spec_algorithm section 5). Seeds are not charged while they are
measured to be certified, nor once they are; a seed that is not is charged like any target when it is tried later on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.priors import from_scale, to_scale
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.schedule import Schedule
from lifesafe.theory.bounds import ledger_multiplier, paper_multiplier
from lifesafe.theory.normal import probability_below

REWARD_MULTIPLIER = 2.0


@dataclass(frozen=True, eq=False)
class Bands:
    """Lower and upper confidence bounds: one row per return (reward first), one column per candidate."""

    lower: Float[np.ndarray, "r n"]
    upper: Float[np.ndarray, "r n"]


@dataclass(frozen=True, eq=False)
class Confidence:
    """What is known at every candidate, costs on their modeled scale."""

    risk: Float[np.ndarray, " n"]
    """Risk of a visit: the sum of the tails (ledger) or their maximum."""
    allowance: float
    """Risk that the next first visit may have."""
    multiplier: float
    """alpha."""
    reward_mean: Float[np.ndarray, " n"]
    reward_sd: Float[np.ndarray, " n"]
    cost_means: Float[np.ndarray, "k n"]
    cost_sds: Float[np.ndarray, "k n"]
    limits: Float[np.ndarray, " k"]
    """Limits on the modeled scale."""

    @property
    def reward_lower(self) -> Float[np.ndarray, " n"]:
        return self.reward_mean - REWARD_MULTIPLIER * self.reward_sd

    @property
    def reward_upper(self) -> Float[np.ndarray, " n"]:
        return self.reward_mean + REWARD_MULTIPLIER * self.reward_sd

    @property
    def cost_lower(self) -> Float[np.ndarray, "k n"]:
        return self.cost_means - self.multiplier * self.cost_sds

    @property
    def cost_upper(self) -> Float[np.ndarray, "k n"]:
        return self.cost_means + self.multiplier * self.cost_sds


def allowance(schedule: Schedule, problem: Problem, spent: float, trial: int) -> float:
    """Return the risk that the next first visit may have.

    Args:
        schedule: The schedule.
        problem: The problem.
        spent: Risk charged so far.
        trial: Number of the coming trial, from 1.
    """
    if schedule.risk == "fixed":
        return float(probability_below(np.asarray(-schedule.multiplier)))
    if schedule.risk == "paper":
        alpha = paper_multiplier(len(problem.candidates), trial, problem.delta, events=len(problem.limits))
        return float(probability_below(np.asarray(-alpha)))
    left = max(problem.delta - spent, 0.0)
    return left * schedule.share if schedule.share is not None else left / max(schedule.trials - trial + 1, 1)


def confidence(schedule: Schedule, problem: Problem, posterior: Posterior, allowed: float) -> Confidence:
    """Return what is known at every candidate."""
    limits = modeled_limits(problem)
    tails = np.stack([model.tail(b) for model, b in zip(posterior.costs, limits, strict=True)])
    moments = [model.moments() for model in posterior.costs]
    return Confidence(
        risk=combined(schedule, tails),
        allowance=allowed,
        multiplier=ledger_multiplier(min(max(allowed, 1e-300), 0.5)),
        reward_mean=posterior.reward.mean,
        reward_sd=np.sqrt(posterior.reward.var),
        cost_means=np.stack([mean for mean, _ in moments]),
        cost_sds=np.stack([sd for _, sd in moments]),
        limits=limits,
    )


def combined(schedule: Schedule, tails: Float[np.ndarray, "k *shape"]) -> Float[np.ndarray, "*shape"]:
    """Return the risk of several tails: their sum, or their maximum where a union bound over costs is paid already."""
    if len(tails) == 1:
        return np.asarray(tails[0])
    return np.asarray(np.minimum(tails.sum(axis=0), 1.0) if schedule.risk == "ledger" else tails.max(axis=0))


def modeled_limits(problem: Problem) -> Float[np.ndarray, " k"]:
    """Return the limits on the modeled scale; they are 1 until the limits change."""
    scale = problem.priors.cost.scale
    pairs = zip(problem.limits, problem.reference, strict=True)
    return np.array([float(to_scale(scale, np.asarray(b), unit)) for b, unit in pairs])


def raw_bands(problem: Problem, known: Confidence) -> Bands:
    """Return the confidence bands in raw units."""
    low, extent, scale = problem.candidates[:, 0].min(), problem.extents[0], problem.priors.cost.scale

    def rows(reward: Float[np.ndarray, " n"], costs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "r n"]:
        raw = [from_scale(scale, y, unit) for y, unit in zip(costs, problem.reference, strict=True)]
        return np.stack([low + extent * reward, *raw])

    return Bands(lower=rows(known.reward_lower, known.cost_lower), upper=rows(known.reward_upper, known.cost_upper))
