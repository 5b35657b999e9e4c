"""Known maps from target returns to actual returns, to simulate deployments on.

Each family draws a new map from a random generator. The axes are raw units: rewards R in [0, 500], costs G
from 0 to three times the limit 20, as a user's grid would be. Seeds ask for 35 to 65 % of the reward axis and a
cost near 0, as the seed boxes of the paper do. Episodes are drawn around the true means by a law of their own.

Families:
    gp_target       J = z + GP: what Theorem 1 says of a well-trained policy
    gp_flat         J_g = limit + GP: the target tells nothing about the cost
    overshoot       cost above its target, saturating (S1 of the specification)
    conservative    cost far below its target until a late rise; reward grows with G (S2)
    cliff           cost jumps within a few percent of the R axis (S3)
    rare            overshoot, but costs come seldom and in lumps of 120 (S4)
    edge            no cost at all up to an edge that nothing foretells, several limits of it beyond
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from lifesafe.theory.kernels import Kernel, correlation_matrix
from lifesafe.theory.normal import probability_below

LIMIT = 20.0
REWARD_RANGE = 500.0
_MARGIN = 0.05  # a reachable target keeps so much of the limit as distance, so that it can be certified at all

Law = Literal["negative_binomial", "lumps", "gaussian"]


@dataclass(frozen=True, kw_only=True)
class SimulatedMap:
    """True mean returns at every target of a grid, and the law of the episodes around them."""

    reward_axis: Float[np.ndarray, " a"]
    cost_axis: Float[np.ndarray, " b"]
    reward: Float[np.ndarray, "a b"]
    cost: Float[np.ndarray, "a b"]
    limit: float
    seed: int
    """Flat index of a target that is safe."""
    law: Law
    shape: float
    """Negative binomial: its k (variance m + m^2 / k). Lumps: their size. Gaussian: unused."""
    reward_sd: float

    @property
    def candidates(self) -> Float[np.ndarray, "n 2"]:
        """All targets (R, G), the cost axis running fastest."""
        return np.stack(np.meshgrid(self.reward_axis, self.cost_axis, indexing="ij"), axis=-1).reshape(-1, 2)

    @property
    def is_safe(self) -> Bool[np.ndarray, " n"]:
        """Targets whose mean cost keeps the limit."""
        return np.asarray(self.cost <= self.limit).reshape(-1)

    @property
    def is_reachable(self) -> Bool[np.ndarray, " n"]:
        """Targets joined to the seed through neighbors whose cost keeps a margin below the limit."""
        from scipy import ndimage  # only here: it would slow down every import of lifesafe.theory

        inside = self.cost <= (1 - _MARGIN) * self.limit
        inside.reshape(-1)[self.seed] = True
        labels, _ = ndimage.label(inside, structure=np.ones((3, 3)))
        return np.asarray(labels == labels.reshape(-1)[self.seed]).reshape(-1)

    def draw(self, index: int, episodes: int, rng: np.random.Generator) -> Float[np.ndarray, "n 2"]:
        """Return the reward and cost of so many episodes at a target."""
        reward = rng.normal(self.reward.flat[index], self.reward_sd, episodes)
        mean = float(self.cost.flat[index])
        return np.stack([reward, self._costs(mean, episodes, rng)], axis=1)

    def _costs(self, mean: float, episodes: int, rng: np.random.Generator) -> Float[np.ndarray, " n"]:
        if self.law == "gaussian":
            return rng.normal(mean, 4.0 + 0.5 * abs(mean), episodes)
        mean = max(mean, 0.0)
        if self.law == "lumps":
            return self.shape * rng.binomial(1, min(mean / self.shape, 1.0), episodes)
        return rng.poisson(rng.gamma(self.shape, mean / self.shape, episodes)).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class DitheredMap(SimulatedMap):
    """A map in which every episode asks for a target near the one it is asked for; made by `dithered_map`."""

    exact: SimulatedMap
    """The map without dither."""
    moves: tuple[Float[np.ndarray, "a a"], Float[np.ndarray, "b b"]]
    """For each axis, the probability of every cell (column) that an episode of a cell (row) asks for."""

    def draw(self, index: int, episodes: int, rng: np.random.Generator) -> Float[np.ndarray, "n 2"]:
        """Return the reward and cost of so many episodes at a target."""
        place = divmod(index, len(self.cost_axis))
        pairs = [rng.choice(len(moves), episodes, p=moves[i]) for moves, i in zip(self.moves, place, strict=True)]
        cells = pairs[0] * len(self.cost_axis) + pairs[1]
        return np.concatenate([self.exact.draw(int(cell), 1, rng) for cell in cells])


def dithered_map(world: SimulatedMap, width: float) -> SimulatedMap:
    """Return the map that a search sees if what it asks for is dithered (`lifesafe.optimizer.dither`).

    Args:
        world: The map of the machine.
        width: Standard deviation along each axis, as a fraction of it; 0 for the map itself.
    """
    if not width:
        return world
    moves = _moves(len(world.reward_axis), width), _moves(len(world.cost_axis), width)
    own = {field.name: getattr(world, field.name) for field in fields(world)}
    means = {name: moves[0] @ own[name] @ moves[1].T for name in ("reward", "cost")}
    return DitheredMap(**own | means, exact=world, moves=moves)


def _moves(size: int, width: float) -> Float[np.ndarray, "a a"]:
    """Return the probabilities of all cells, from each cell; what would lie outside is at the border."""
    below = probability_below((np.arange(1, size) - 0.5 - np.arange(size)[:, None]) / (width * (size - 1)))
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


@dataclass(frozen=True, kw_only=True)
class GPLaw:
    """The Gaussian process a map is drawn from; length-scales are fractions of the axes."""

    kernel: Kernel = "matern32"
    lengthscale: float = 0.3
    cost_sd: float = 0.4 * LIMIT
    reward_sd: float = 0.2 * REWARD_RANGE


DEFAULT_LAW = GPLaw()


def gp_target(rng: np.random.Generator, *, size: int = 30, law: GPLaw = DEFAULT_LAW) -> SimulatedMap:
    """Draw J_r = R + GP and J_g = G + GP; the seed is a random safe target of the low quarter."""
    R, G = _grid(size)
    reward, cost = R + law.reward_sd * _field(rng, size, law), G + law.cost_sd * _field(rng, size, law)
    low = (R <= REWARD_RANGE / 4) & (G <= LIMIT / 2) & (cost <= 0.75 * LIMIT)
    return _with_seed(rng, low, size, reward, cost, "gaussian", 0.0)


def gp_flat(rng: np.random.Generator, *, size: int = 30, law: GPLaw = DEFAULT_LAW) -> SimulatedMap:
    """Draw J_r = R + GP and J_g = limit + GP; the seed is a random target well below the limit."""
    R, _ = _grid(size)
    reward = R + law.reward_sd * _field(rng, size, law)
    cost = LIMIT + law.cost_sd * _field(rng, size, law)
    return _with_seed(rng, cost <= 0.75 * LIMIT, size, reward, cost, "gaussian", 0.0)


def overshoot(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Cost above its target, about 1.6 limits at (R_max, limit), saturating beyond."""
    reward, cost = _overshoot(rng, size)
    return _with_corner_seed(rng, size, reward, cost, "negative_binomial", 3.0)


def rare(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """The overshoot map with costs that come seldom and in lumps of 120."""
    reward, cost = _overshoot(rng, size)
    return _with_corner_seed(rng, size, reward, cost, "lumps", 120.0)


def conservative(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Cost far below its target until a late rise near G = 2.5 limits; reward needs large G."""
    R, G = _grid(size)
    rho, gamma = R / REWARD_RANGE, G / LIMIT
    base, slope, start = rng.uniform(0.02, 0.15), rng.uniform(0.8, 1.6), rng.uniform(1.6, 2.2)
    lean, width = rng.uniform(0.1, 0.4), rng.uniform(0.08, 0.2)
    rise = width * np.logaddexp(0.0, (gamma + lean * rho - start) / width)
    cost = LIMIT * (base + rng.uniform(0.02, 0.08) * gamma + slope * rise)
    share = rng.uniform(0.4, 0.6)
    reward = REWARD_RANGE * _saturating(rho, rng.uniform(1.0, 2.5)) * (1 - share + share * (gamma / 3) ** 0.7)
    return _with_corner_seed(rng, size, reward, cost, "negative_binomial", 1.5)


def cliff(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """Some cost everywhere, then a jump of 25 to 40; its middle half takes 20 to 40 of the 500 units of R."""
    R, G = _grid(size)
    gamma = G / LIMIT
    edge = REWARD_RANGE * rng.uniform(0.45, 0.8) - rng.uniform(0.0, 20.0) * gamma
    width = rng.uniform(20.0, 40.0) / 2.2  # a logistic rises from 25 to 75 percent within 2.2 widths
    jump = rng.uniform(25.0, 40.0) / (1 + np.exp(-(R - edge) / width))
    cost = LIMIT * (rng.uniform(0.1, 0.35) + rng.uniform(0.0, 0.1) * gamma) + jump
    reward = REWARD_RANGE * _saturating(R / REWARD_RANGE, rng.uniform(0.5, 1.5)) * (0.9 + 0.1 * np.tanh(gamma))
    return _with_corner_seed(rng, size, reward, cost, "negative_binomial", 3.0)


def edge(rng: np.random.Generator, *, size: int = 60) -> SimulatedMap:
    """A machine that repeats itself: its speed is smooth in the target, and each step costs if that is too large.

    So the cost jumps by 50 to 120, within less than a cell or two, from episodes that cost nothing.
    """
    R, G = _grid(size)
    law = GPLaw(kernel="matern52")
    speed = 0.6 * R / REWARD_RANGE + 0.25 * G / (3 * LIMIT) + 0.12 * _field(rng, size, law)
    fast = np.quantile(speed, rng.uniform(0.5, 0.8))
    width, jump = rng.uniform(0.002, 0.01), rng.uniform(50.0, 120.0)
    beyond = (speed - fast) / width
    cost = jump * probability_below(beyond) + 40.0 * np.maximum(speed - fast, 0.0)
    reward = REWARD_RANGE * speed / speed.max()
    world = _with_corner_seed(rng, size, reward, cost, "negative_binomial", 300.0)
    return replace(world, reward_sd=0.004 * REWARD_RANGE)


FAMILIES: dict[str, Callable[[np.random.Generator], SimulatedMap]] = {
    "gp_target": gp_target,
    "gp_flat": gp_flat,
    "overshoot": overshoot,
    "conservative": conservative,
    "cliff": cliff,
    "rare": rare,
    "edge": edge,
}


def _grid(size: int) -> tuple[Float[np.ndarray, "a b"], Float[np.ndarray, "a b"]]:
    R, G = np.meshgrid(*_axes(size), indexing="ij")
    return R, G


def _axes(size: int) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, " b"]]:
    return np.linspace(0.0, REWARD_RANGE, size), np.linspace(0.0, 3 * LIMIT, size)


def _saturating(x: Float[np.ndarray, "*s"], rate: float) -> Float[np.ndarray, "*s"]:
    return np.asarray((1 - np.exp(-rate * x)) / (1 - np.exp(-rate)))


def _overshoot(rng: np.random.Generator, size: int) -> tuple[Float[np.ndarray, "a b"], Float[np.ndarray, "a b"]]:
    R, G = _grid(size)
    rho, gamma = R / REWARD_RANGE, G / LIMIT
    level = rng.uniform(0.0, 0.15) + rng.uniform(0.9, 1.3) * gamma + rng.uniform(0.2, 0.6) * rho
    top = rng.uniform(2.0, 3.0)
    cost = LIMIT * top * np.tanh(level / top)
    share = rng.uniform(0.2, 0.4)
    effort = rho * (1 - share + share * np.tanh(gamma + 0.3))
    reward = REWARD_RANGE * _saturating(effort, rng.uniform(0.5, 2.0))
    return reward, cost


@lru_cache(maxsize=8)
def _factor(size: int, kernel: Kernel, lengthscale: float) -> Float[np.ndarray, "n n"]:
    unit = np.linspace(0.0, 1.0, size)
    X = np.stack(np.meshgrid(unit, unit, indexing="ij"), axis=-1).reshape(-1, 2) / lengthscale
    K = correlation_matrix(kernel, X, X)
    return np.linalg.cholesky(K + 1e-9 * np.eye(len(K)))


def _field(rng: np.random.Generator, size: int, law: GPLaw) -> Float[np.ndarray, "a b"]:
    factor = _factor(size, law.kernel, law.lengthscale)
    return (factor @ rng.standard_normal(size * size)).reshape(size, size)


def _with_corner_seed(
    rng: np.random.Generator,
    size: int,
    reward: Float[np.ndarray, "a b"],
    cost: Float[np.ndarray, "a b"],
    law: Law,
    shape: float,
) -> SimulatedMap:
    R, G = _grid(size)
    low = (R >= 0.35 * REWARD_RANGE) & (R <= 0.65 * REWARD_RANGE) & (G <= 0.25 * LIMIT)
    low &= cost <= 0.6 * LIMIT
    return _with_seed(rng, low, size, reward, cost, law, shape)


def _with_seed(
    rng: np.random.Generator,
    low: Bool[np.ndarray, "a b"],
    size: int,
    reward: Float[np.ndarray, "a b"],
    cost: Float[np.ndarray, "a b"],
    law: Law,
    shape: float,
) -> SimulatedMap:
    """Put the seed at a random low target, or at the cheapest one where there is none."""
    choices = np.flatnonzero(low)
    seed = int(rng.choice(choices)) if len(choices) else int(cost.argmin())
    axes = _axes(size)
    return SimulatedMap(
        reward_axis=axes[0], cost_axis=axes[1], reward=reward, cost=cost, limit=LIMIT, seed=seed,
        law=law, shape=shape, reward_sd=0.08 * REWARD_RANGE,
    )  # fmt: skip
