"""The ledger: which target each episode of a trial is asked for, how likely that breaks a limit, and what it may cost.

A trial is a *lottery*: most tickets are for the *center*, the target that the trial is about, and a few for a *scout*
further out. A lottery over targets is itself a policy: draw a ticket, then act. So a promise about the mean cost of
every trial is the paper's promise, with lotteries as its policies.

Notation:
    Q_t     lottery of trial t, chosen from the data D_{t-1} and named random streams
    z, z'   its center and its scout; e, the share of the scout
    p_t     what trial t is charged
    delta   probability with which any trial at all may exceed a limit
    m_k(z)  mean cost k of target z, in limits

A trial breaks limit k if (1 - e) m_k(z) + e m_k(z') > 1. It is charged the probability, given D_{t-1}, that it is the
first to do so, or rather bounds of it: of a center that has not paid before, that it exceeds a limit and the nearest
target y that has paid does not; and of the scout, that it brings the lottery above a limit that the center keeps:

    p_t = sum_k P(m_k(y) <= 1, m_k(z) > 1) [z has not paid]  +  sum_k P(m_k(z) <= 1, lottery k > 1)

and is chosen such that p_t is at most the allowance, so that the sum of all p_t never exceeds delta. If the world is a
draw from the prior, P(some trial breaks a limit) <= E[sum p_t] <= delta, whatever rule chooses and whenever it stops:
if any target that has paid exceeds a limit, consider the first of them; those that had paid before it do not; and sum
the conditional probabilities. A target that has paid as a center may be tried again, and served, for nothing.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from lifesafe._random import generator
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.posterior import Expected

TRIAL_EPISODES = 10
"""Episodes of a trial."""
FIRST_EPISODES = 30
"""Episodes of the first trial of a start: what it shows decides whether the search may begin."""
SCOUTS = 2
"""Tickets of a trial that go to the scout."""
_MOST_SHARES = 30  # into which what is left of delta is divided


def lottery(episodes: int, seed: int, trial: int) -> tuple[int, ...]:
    """Return for each episode of a trial with a scout whether it is the center's, 0, or the scout's, 1.

    The order is random; the same seed and number of the trial give the same.
    """
    order = generator(seed, "tickets", trial).permutation(episodes)
    return tuple(int(i >= episodes - SCOUTS) for i in order)


def allowance(beliefs: Beliefs) -> float:
    """Return the risk that the next trial may add: an even share of what is left, for each trial that is left.

    In a long search it is more, or no trial could afford a step.
    """
    left = max(beliefs.problem.delta - beliefs.spent, 0.0)
    trials = math.ceil(max(beliefs.problem.episodes - beliefs.searched, 1) / TRIAL_EPISODES)
    return left / min(trials, _MOST_SHARES)


def start_allowance(beliefs: Beliefs, number: int) -> float:
    """Return the risk that a start may have: half of delta for the first, half of that for the next, and so on."""
    return min(beliefs.problem.delta * 0.5 ** (number + 1), max(beliefs.problem.delta - beliefs.spent, 0.0))


def step_risks(paid: Expected, targets: Expected) -> Float[np.ndarray, " m"]:
    """Return the probability that each target exceeds a limit and the nearest one that has paid does not."""
    nearest = np.abs(targets.Z[:, None] - paid.Z[None]).max(axis=-1).argmin(axis=1)
    return targets.added_to(paid.rows(nearest), 1.0)
