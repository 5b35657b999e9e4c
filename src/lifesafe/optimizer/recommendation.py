"""Which target to operate: never the last query, but the best of those tried that is certified twice."""

from __future__ import annotations

from dataclasses import dataclass

from lifesafe.optimizer.certificates import certified, upper_bounds
from lifesafe.optimizer.confidence import Confidence
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.state import State, known_now
from lifesafe.returns import Returns

_OPERATION = 0.2  # part of delta that the target to be operated may have as its risk


@dataclass(frozen=True)
class Recommendation:
    """A target fit to be operated, with the evidence."""

    target: Returns
    index: int
    risk: float
    """Posterior probability that it exceeds a limit."""
    reward_lower: float
    """Lower confidence bound of its mean reward."""
    means: Returns
    """Mean returns of its own episodes."""
    cost_upper: tuple[float, ...]
    """Upper bound of each mean cost from its own episodes alone."""
    episodes: int
    """Number of its own episodes."""


def recommend(state: State) -> Recommendation | None:
    """Return the tried target that earns most for certain and is certified twice, or none."""
    return next(iter(fit_targets(state)), None)


def fit_targets(state: State) -> list[Recommendation]:
    """Return the tried targets that are certified twice, those that earn more for certain first.

    The risk of each under the model must be small against delta, and its own episodes must show that the limits are
    kept.
    """
    known = known_now(state)
    tried = dict.fromkeys(result.trial.index for result in state.results)
    fit = [
        i
        for i in tried
        if known.risk[i] <= _OPERATION * state.problem.delta
        and not state.closed[i]
        and i not in state.failed | state.withdrawn
        and certified(state.problem, state.posterior, i)
    ]
    fit.sort(key=lambda i: (-known.reward_lower[i], i))
    return [_recommendation(state, known, i) for i in fit]


def _recommendation(state: State, known: Confidence, index: int) -> Recommendation:
    own = state.posterior.own_episodes(index)
    reward, *costs = own.mean(axis=0)
    return Recommendation(
        target=state.problem.target(index),
        index=index,
        risk=float(known.risk[index]),
        reward_lower=_raw_reward(state.problem, float(known.reward_lower[index])),
        means=Returns(float(reward), [float(cost) for cost in costs]),
        cost_upper=upper_bounds(state.posterior, own),
        episodes=len(own),
    )


def _raw_reward(problem: Problem, reward: float) -> float:
    return float(problem.candidates[:, 0].min() + problem.extents[0] * reward)
