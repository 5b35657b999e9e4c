"""Which target to operate: one that may be served, that has shown what it costs, and that earns the most for sure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lifesafe.journal.events import Point
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.problem import Target

ENOUGH_EPISODES = 8
"""Own episodes that a recommended target has at least."""
_RISK = 0.2  # of delta: a target with more risk than this is tried again, and not operated
_CAUTION = 1.0  # standard deviations taken from the mean reward


@dataclass(frozen=True)
class Recommendation:
    """A target that may be operated."""

    point: Point
    target: Target
    means: tuple[float, ...]
    """Mean return of its own episodes, the reward first."""
    episodes: int
    """Own episodes, those of operation included."""
    risk: float
    """Probability that a mean cost exceeds its limit, under the model."""
    expected: tuple[float, ...]
    """Upper end of what each mean cost is expected to be: its 95 % quantile under the model, and not its mean."""
    modeled: float
    """Mean reward under the model, as a share of its range."""


def recommend(beliefs: Beliefs) -> Recommendation | None:
    """Return the best target to operate; none if no target is fit for it."""
    found = fit_targets(beliefs)
    return found[0] if found else None


def fit_targets(beliefs: Beliefs) -> tuple[Recommendation, ...]:
    """Return all targets that are fit to be operated, those that earn more for sure first."""
    if beliefs.held is not None and beliefs.breaches:
        return ()
    known = [
        point
        for point, own in beliefs.own.items()
        if point in beliefs.admitted and own.episodes >= min(ENOUGH_EPISODES, beliefs.problem.episodes)
    ]
    known = [point for point in known if (beliefs.own[point].means[1:] <= np.array(beliefs.problem.limits)).all()]
    if not known:
        return ()
    found = beliefs.expect(known)
    risk, mean = found.risks(), found.reward
    most = 1.0 if beliefs.problem.promise == "total" else _RISK * beliefs.problem.delta
    if beliefs.problem.promise == "trial" and not (risk <= most).any():
        most = beliefs.problem.delta / 2  # what has paid may be served, if nothing better is known
    order = sorted(np.flatnonzero(risk <= most), key=lambda i: (-(mean[i] - _CAUTION * found.reward_sd[i]), i))
    (quantiles,) = found.quantiles((0.95,)) * np.array(beliefs.problem.limits)
    return tuple(
        Recommendation(
            point=known[i],
            target=beliefs.problem.target(known[i]),
            means=tuple(beliefs.own[known[i]].means.tolist()),
            episodes=beliefs.own[known[i]].episodes,
            risk=float(risk[i]),
            expected=tuple(quantiles[i].tolist()),
            modeled=float(mean[i]),
        )
        for i in order
    )
