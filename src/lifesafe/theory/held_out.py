"""Maps from target returns to actual returns on which the optimizer is checked last, and never tuned.

Their maker did not tune the optimizer, and its tuners should not read on: what a family is like tells how to
please it. So the names mean nothing, and reports give names and results only. The units, the grid and the
place of the seed are those of the families in `simulators`; no cost rises faster than in its `cliff`.

Notation:
    u, v    target reward and target cost as fractions of their axes, shape (a, b)
    rises   logistic; a width is the fraction of an axis in which the middle half of the rise takes place
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from lifesafe.theory.simulators import LIMIT, REWARD_RANGE, Law, SimulatedMap

_LOGISTIC_QUARTILES = 2.197  # a logistic rises from 25 to 75 percent within 2 log 3 of its scale


def alder(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Cost is high at both ends of R, which the data did not cover; reward never falls to low targets.

    Asked for less than it has seen, the policy wanders; asked for more than is feasible, it hurries and gains
    little.
    """
    u, v = _fractions(size)
    floor, drift = rng.uniform(2.0, 6.0), rng.uniform(0.0, 6.0)
    wander, low_end, low_width = rng.uniform(22.0, 35.0), rng.uniform(0.1, 0.22), rng.uniform(0.06, 0.12)
    hurry, high_end, high_width = rng.uniform(18.0, 35.0), rng.uniform(0.75, 0.9), rng.uniform(0.08, 0.15)
    past = _rise(u + rng.uniform(-0.1, 0.15) * v, high_end, high_width)
    cost = floor + drift * v + wander * (1 - _rise(u, low_end, low_width)) + hurry * past

    least, bend = rng.uniform(0.2, 0.35), rng.uniform(0.04, 0.08)
    followed = least + bend * np.logaddexp(0.0, (u - least) / bend)
    gain = 1 + rng.uniform(0.1, 0.25) * np.tanh(3 * v)
    reward = 0.8 * followed * gain * (1 - rng.uniform(0.1, 0.4) * past)
    return _with_seed(rng, reward, cost, "negative_binomial", rng.uniform(1.5, 3.0))


def birch(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Cost and reward climb in four steps along G, between plateaus: the policy picks one of five behaviors.

    The third step crosses the limit. R only scales the reward, until it is ignored.
    """
    u, v = _fractions(size)
    steps = np.cumsum(rng.uniform([0.16, 0.17, 0.17, 0.14], [0.24, 0.24, 0.24, 0.2]))
    heights = rng.uniform([3.0, 3.0, 18.0, 0.0], [7.0, 7.0, 28.0, 12.0])
    gains = rng.uniform([0.08, 0.08, 0.0, -0.1], [0.2, 0.2, 0.15, 0.0])
    width, tilt = rng.uniform(0.04, 0.08), rng.uniform(-0.05, 0.1)
    climbed = [_rise(v + tilt * (u - 0.5), step, width) for step in steps]
    cost = rng.uniform(1.0, 3.0) + rng.uniform(0.0, 2.0) * u + np.tensordot(heights, climbed, axes=1)

    level = 0.55 + np.tensordot(gains, climbed, axes=1)
    knee = rng.uniform(0.6, 0.9)
    heard = knee - 0.05 * np.logaddexp(0.0, (knee - u) / 0.05)
    reward = level * (0.35 + 0.65 * heard)
    return _with_seed(rng, reward, cost, "negative_binomial", rng.uniform(2.0, 5.0))


def cedar(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Much reward at little cost is a contradiction to the policy, which then forgets the cost.

    So a wedge of high R and low G is unsafe, and high G is unsafe because it is obeyed; the best targets lie
    in a corridor between the two, where a larger G makes a larger R safe.
    """
    u, v = _fractions(size)
    ambition, lean, width = rng.uniform(0.62, 0.75), rng.uniform(0.45, 0.75), rng.uniform(0.06, 0.12)
    conflict = _rise(u - lean * v, ambition, width)
    obeyed = rng.uniform(0.3, 0.5) * LIMIT * (3 * v) ** rng.uniform(1.0, 1.5)
    cost = rng.uniform(1.0, 4.0) + rng.uniform(20.0, 35.0) * conflict + obeyed

    gain = 1 + rng.uniform(0.0, 0.15) * v
    reward = 0.9 * u ** rng.uniform(0.8, 1.1) * gain * (1 - rng.uniform(0.0, 0.3) * conflict)
    return _with_seed(rng, reward, cost, "negative_binomial", rng.uniform(0.8, 2.0))


def elm(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """G is all but ignored; beyond a ridge of cost along R, episodes end early with little of either return.

    Costs come in lumps of 50 to 80.
    """
    u, v = _fractions(size)
    edge, width = rng.uniform(0.72, 0.84), rng.uniform(0.05, 0.09)
    end, end_width = edge + rng.uniform(0.13, 0.22), rng.uniform(0.05, 0.09)
    heard = u + rng.uniform(-0.03, 0.03) * v
    ended = _rise(heard, end, end_width)
    ridge = rng.uniform(28.0, 40.0) * _rise(heard, edge, width) * (1 - ended)
    cost = rng.uniform(2.0, 6.0) + rng.uniform(0.0, 3.0) * u + ridge

    reward = 0.05 + 0.9 * u ** rng.uniform(0.9, 1.3) * (1 - rng.uniform(0.6, 0.9) * ended)
    return _with_seed(rng, reward, cost, "lumps", rng.uniform(50.0, 80.0))


def fir(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Unsafe islands stand in a slow slope of cost, one on the way to the reward's summit inside the grid.

    Episode costs have a heavy tail: most are far below their mean.
    """
    u, v = _fractions(size)
    angle = rng.uniform(0.15, 0.35) * np.pi
    height, middle, width = rng.uniform(25.0, 38.0), rng.uniform(0.95, 1.15), rng.uniform(0.2, 0.35)
    slope = height * _rise(np.cos(angle) * u + np.sin(angle) * v, middle, width)
    summit, spread = rng.uniform([0.65, 0.3], [0.9, 0.65]), rng.uniform([0.25, 0.3], [0.4, 0.5])
    on_the_way = [0.5, 0.0] + rng.uniform(0.4, 0.7) * (summit - [0.5, 0.0])
    centers = [on_the_way, *rng.uniform([0.15, 0.25], [1.0, 1.0], (rng.integers(1, 4), 2))]
    islands = [rng.uniform(16.0, 28.0) * _hill(u, v, center, rng.uniform(0.07, 0.13, 2)) for center in centers]
    cost = rng.uniform(3.0, 6.0) + slope + np.max(islands, axis=0)

    reward = 0.25 + 0.55 * _hill(u, v, summit, spread)
    return _with_seed(rng, reward, cost, "negative_binomial", rng.uniform(0.5, 1.0))


HELD_OUT: dict[str, Callable[[np.random.Generator], SimulatedMap]] = {
    "alder": alder,
    "birch": birch,
    "cedar": cedar,
    "elm": elm,
    "fir": fir,
}


def _fractions(size: int) -> tuple[Float[np.ndarray, "a b"], Float[np.ndarray, "a b"]]:
    unit = np.linspace(0.0, 1.0, size)
    u, v = np.meshgrid(unit, unit, indexing="ij")
    return u, v


def _rise(x: Float[np.ndarray, "*s"], at: float, width: float) -> Float[np.ndarray, "*s"]:
    return np.asarray(1 / (1 + np.exp(-_LOGISTIC_QUARTILES * (x - at) / width)))


def _hill(
    u: Float[np.ndarray, "a b"],
    v: Float[np.ndarray, "a b"],
    center: Float[np.ndarray, " 2"],
    spread: Float[np.ndarray, " 2"],
) -> Float[np.ndarray, "a b"]:
    return np.asarray(np.exp(-(((u - center[0]) / spread[0]) ** 2 + ((v - center[1]) / spread[1]) ** 2) / 2))


def _with_seed(
    rng: np.random.Generator,
    reward: Float[np.ndarray, "a b"],
    cost: Float[np.ndarray, "a b"],
    law: Law,
    shape: float,
) -> SimulatedMap:
    """Put the seed at a random target of middling R, low G and a cost well below the limit.

    Args:
        rng: chooses the seed and the spread of the rewards.
        reward: as a fraction of the range of R.
        cost: in raw units.
        law: of the episodes' costs.
        shape: of that law.
    """
    u, v = _fractions(len(reward))
    low = (u >= 0.35) & (u <= 0.65) & (3 * v <= 0.25) & (cost <= 0.6 * LIMIT)
    axis = np.linspace(0.0, 1.0, len(reward))
    return SimulatedMap(
        reward_axis=REWARD_RANGE * axis, cost_axis=3 * LIMIT * axis, reward=REWARD_RANGE * reward, cost=cost,
        limit=LIMIT, seed=int(rng.choice(np.flatnonzero(low))), law=law, shape=shape,
        reward_sd=REWARD_RANGE * rng.uniform(0.04, 0.12),
    )  # fmt: skip
