"""Whether cheap episodes of a log were skill or luck: is one half of an episode a sign of the other?

A policy that is asked for some reward at no cost does as the episodes did that had both. If these were careful, it will
be. If they were the lucky ones of a reckless behavior, it will be reckless: the luck is not in the actions. A single
episode does not tell, but its halves do. Take all episodes that are like the examples by one half alone, and look at
what the other half cost, which had no part in the choice. Of a careful behavior it is cheap, too; of a lucky one it
costs what that behavior costs.

Costs may come late, when a robot has gained speed, so that a cheap beginning means nothing and a cheap end everything;
hence of the two halves the one counts that tells more. What came out on which data, and what policies then cost, is in
docs/decisions/0015-luck.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

MOST = 0.85
"""Luck above which cheap episodes are not followed: half an episode alone costs this share of a limit, or more."""
_CHEAP = 0.25  # of each limit: what counts as an example of low cost
_NEAR = 0.1  # of the span of rewards: how near an example's is to the one asked for
_EXAMPLES = 20  # fewest; half of them and all that are like them make a mean


class LoggedSteps(Protocol):
    """What episodes earned and cost, step by step: a `Dataset`, say."""

    @property
    def rewards(self) -> Shaped[np.ndarray, " n"]: ...
    @property
    def costs(self) -> Shaped[np.ndarray, "n k"]: ...
    @property
    def offsets(self) -> Int[np.ndarray, " e+1"]: ...


def luck(steps: LoggedSteps, limits: Sequence[float], rewards: Sequence[float]) -> Float[np.ndarray, " m"]:
    """Return, for each reward, what other halves cost of episodes like the cheap ones that earned about so much.

    Rewards that no cheap episode reaches stand for the best of them.

    Returns:
        Mean costs in limits, of the cost that is exceeded most; 0 if there are too few cheap episodes to tell, or a
        limit allows nothing.
    """
    b = np.asarray(limits, dtype=np.float64)
    halves = _halves(steps)
    returns = halves.sum(axis=1)
    cheap = np.flatnonzero(np.all(returns[:, 1:] <= _CHEAP * b, axis=1))
    if len(cheap) < _EXAMPLES or np.any(b <= 0):
        return np.zeros(len(rewards))
    earned = returns[cheap, 0]
    width = _NEAR * (earned.max() - returns[:, 0].min())
    told = []
    for reward in np.clip(rewards, earned.min(), earned.max()):
        distance = np.abs(earned - reward)
        examples = halves[cheap[distance <= max(width, np.sort(distance)[_EXAMPLES - 1])]]
        others = [halves[_alike(halves, examples, half), 1 - half, 1:] for half in (0, 1)]
        told.append(min(float((costs.mean(axis=0) / b).max()) for costs in others))
    return np.array(told)


def _alike(
    halves: Float[np.ndarray, "e 2 r"], examples: Float[np.ndarray, "m 2 r"], half: int
) -> Bool[np.ndarray, " e"]:
    """Return which episodes are as the examples are by one half: middling among them in reward, and no dearer."""
    low, high = np.quantile(examples[:, half, 0], (0.25, 0.75))
    earned, costs = halves[:, half, 0], halves[:, half, 1:]
    alike: np.ndarray = (earned >= low) & (earned <= high) & np.all(costs <= examples[:, half, 1:].max(axis=0), axis=1)
    return alike


def _halves(steps: LoggedSteps) -> Float[np.ndarray, "e 2 r"]:
    """Return what each half of each episode of two steps or more earned and cost."""
    starts, lengths = steps.offsets[:-1], np.diff(steps.offsets)
    cuts = np.column_stack([starts, starts + lengths // 2]).ravel()
    returns = np.column_stack([steps.rewards, steps.costs])[: steps.offsets[-1]]
    sums = np.add.reduceat(returns, cuts, axis=0, dtype=np.float64)
    return sums.reshape(len(starts), 2, -1)[lengths > 1]
