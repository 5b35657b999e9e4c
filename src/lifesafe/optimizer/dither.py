"""Dither: what is asked for differs a little from episode to episode, so that the mean cost is smooth in the target.

A machine that repeats itself exactly may cost nothing up to an edge and far too much beyond it: no trial before the
edge tells of it. If every episode asks for z + u instead of z, with u drawn anew, the mean cost of the target z is

    J~(z) = E[J(z + u)],  u normal with deviation w along each axis (a fraction of that axis),

which no edge can make steeper than (largest cost) / (w sqrt(2 pi)) per axis length. Some episodes fall over the edge
before the mean does, and the search sees it come. What is tried, certified and operated is then the dithered target.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lifesafe._random import generator
from lifesafe.optimizer.problem import Problem
from lifesafe.returns import Returns


class Scatter(NamedTuple):
    """How what is asked for differs from episode to episode, along each axis, raw units."""

    deviations: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    """The least that is ever asked for: what would lie below is moved there."""
    high: Float[np.ndarray, " d"]
    """The most."""


def scatter(problem: Problem) -> Scatter:
    """Return how the problem has targets dithered; deviations are 0 if it does not."""
    candidates = problem.candidates
    return Scatter(problem.dither * np.array(problem.extents), candidates.min(axis=0), candidates.max(axis=0))


def dithered(problem: Problem, target: Returns, episodes: range, purpose: str, *which: int) -> list[Returns]:
    """Return what to ask for in each of some episodes of a target: the target itself if the problem has no dither.

    The same episodes of the same purpose always get the same draws, whatever else has been asked for: a search that
    goes on after a kill asks for what it had asked for. What would lie outside the candidates is moved to their border.

    Args:
        problem: The problem, which says how wide to dither, and has the seed of the draws.
        target: What is asked for in the mean.
        episodes: Numbers of the episodes.
        purpose: What they are run for.
        which: Number of the trial, or whatever else tells these episodes from others of the purpose.
    """
    if not problem.dither:
        return [target] * len(episodes)
    deviations, low, high = scatter(problem)
    found = []
    for episode in episodes:
        draw = generator(problem.dither_seed, "dither", purpose, *which, episode).standard_normal(len(low))
        z = np.clip(np.array(tuple(target)) + deviations * draw, low, high)
        found.append(Returns(float(z[0]), z[1:].tolist()))
    return found
