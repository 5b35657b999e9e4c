"""Simulated machines: the true mean returns at every target of a box, and the law of the episodes around them.

`FAMILIES` are for building and tuning the search. `HELD_OUT` and `HELD_OUT_2` are for checking it at the end; nobody
who tunes the search should read them, and reports give their names and results only.

Notation:
    x       a target as fractions of the axes                                                   (n, d)
    u, v    the first of these (target reward) and another one (target cost)                    (n,)
    f       cost on the modeled scale: limit / 4 (5^f - 1), softened below 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import ndimage, special

from lifesafe._random import generator
from lifesafe.errors import ConfigError
from lifesafe.lab.coverage.laws import Array, Law, lumps, nearly_fixed, negative_binomial, steady_with_falls

LIMIT, REWARD = 20.0, 500.0
AXES = {"reward": (0.0, REWARD), "cost": (0.0, 3 * LIMIT)}
_MARGIN = 0.05  # a reachable target keeps so much of the limit as distance, so that it can be certified at all
_START_COST = 0.5  # largest cost of a start, in limits
_TIMES = np.linspace(0.0, 1.0, 65)

Stop = float | Sequence[float] | None
Surface = Callable[[Array, Array], Array]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What a search is compared with: regret = (best - reward of the recommendation) / (best - lowest)."""

    best: float
    """Largest mean reward of a safe target."""
    lowest: float
    """Smallest mean reward in the box."""
    target: tuple[float, ...]
    """The target with the best reward."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A known machine: true mean returns at every target of a box, and the law of the episodes around them.

    Costs follow `law`, independently of each other. The reward of an episode grows evenly in time, so an episode
    that is stopped at time t earns the share t of it.
    """

    family: str
    axes: dict[str, tuple[float, float]]
    """Name, low and high of each axis, in raw units."""
    start: tuple[float, ...]
    """A safe target."""
    limits: tuple[float, ...]
    rewards: tuple[float, float]
    """Range in which the rewards of episodes lie; it holds 0, since a stopped episode may earn next to nothing."""
    truth: Callable[[Array], Array]
    """Mean reward and costs of targets that are given as fractions of the axes."""
    law: Law
    reward_sd: float
    """Standard deviation of an episode's reward, smaller at the ends of its range."""
    largest_step: float = 1.0
    """Largest cost of one step; a stopped episode costs at most this much more than its stop."""
    day: float = 0.0
    """Standard deviation of the logarithm of the factor, with mean 1, on all costs of one trial."""
    correlation: float = 0.0
    """How much more an episode earns when it is more vigorous than others; needs a single steady cost."""

    def __post_init__(self) -> None:
        if len(self.start) != len(self.axes):
            raise ConfigError(f"Got a start of {len(self.start)} values for {len(self.axes)} axes; give one for each.")
        if self.law.step > self.largest_step:
            raise ConfigError(f"The law has steps of {self.law.step}; largest_step must not be below it.")
        if self.correlation and (len(self.limits) > 1 or self.law.share or math.isinf(self.law.k)):
            raise ConfigError(
                f"Got correlation {self.correlation}; it needs one cost, with a negative binomial law without falls."
            )

    def means(self, points: Float[np.ndarray, "n d"], stop: Stop = None) -> Float[np.ndarray, "n k"]:
        """Return the true mean reward and costs of an episode at each target.

        Args:
            points: Targets in raw units.
            stop: End an episode when a cost reaches this; one number for all costs, or one for each.
        """
        returns = self._returns(points)
        if not self.day:
            return self._means_of_a_day(returns[:, 0], returns[:, 1:], stop)
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        factors = np.exp(self.day * nodes - self.day**2 / 2)
        days = [self._means_of_a_day(returns[:, 0], returns[:, 1:] * factor, stop) for factor in factors]
        return np.asarray(np.tensordot(weights / weights.sum(), days, axes=1))

    def draw(
        self, points: Float[np.ndarray, "m d"], rng: np.random.Generator, stop: Stop = None
    ) -> Float[np.ndarray, "m k"]:
        """Return the reward and costs of one trial, with an episode at each target.

        The effect of the day is drawn once and shared by all episodes.
        """
        returns = self._returns(points)
        factor = math.exp(self.day * rng.standard_normal() - self.day**2 / 2)
        paths = [self.law.draw(cost * factor, rng) for cost in returns[:, 1:].T]
        rewards = returns[:, 0]
        if self.correlation:
            tilt = (1 + 1 / self.law.k) ** self.law.k  # 1 / E exp(-vigor)
            rewards = rewards * (1 + self.correlation * (1 - tilt * np.exp(-paths[0].vigor)))
        low, high = self.rewards
        width = np.minimum(3 * self.reward_sd, np.minimum(rewards - low, high - rewards).clip(min=0.0))
        rewards = rewards + width * (2 * rng.beta(4.0, 4.0, len(rewards)) - 1)  # this beta has sd 1/6
        whole = np.ones(len(rewards))
        if stop is None:
            return np.column_stack([rewards, *(path.costs(whole) for path in paths)])
        stops = np.broadcast_to(stop, len(paths)).tolist()
        ends = np.minimum(whole, np.min([path.ends(s) for path, s in zip(paths, stops, strict=True)], axis=0))
        costs = [np.minimum(path.costs(ends), self.law.cap(s)) for path, s in zip(paths, stops, strict=True)]
        return np.column_stack([rewards * ends, *costs])

    def best(self, stop: Stop = None, *, connected: bool, size: int = 60) -> Reference:
        """Return the best safe reward and the lowest reward of the box.

        Args:
            stop: As for `means`.
            connected: Only targets that are joined to the start by neighbors whose costs keep 5 % of the limit as
                distance. Ignored when there are more than two axes; the reference is then the best of the start and
                4096 random targets.
            size: Targets along each of two axes.
        """
        (low, high), start = self._box, np.asarray(self.start)
        connected &= len(low) == 2
        if len(low) == 2:
            x = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, size)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
        else:
            x = generator(0, "lab", "reference").random((4096, len(low)))
        points = np.concatenate([low + (high - low) * x, start[None]])
        means = self.means(points, stop)
        safe = np.all(means[:, 1:] <= (1 - _MARGIN * connected) * np.asarray(self.limits), axis=1)
        if connected:
            nearest = np.abs(x - (start - low) / (high - low)).max(axis=1).argmin()
            safe[nearest] = True
            parts = ndimage.label(safe[:-1].reshape(size, size), structure=np.ones((3, 3)))[0].reshape(-1)
            safe[:-1] = parts == parts[nearest]
        safe[-1] = True  # the start itself
        at = int(np.where(safe, means[:, 0], -np.inf).argmax())
        target = tuple(points[at].tolist())
        return Reference(best=float(means[at, 0]), lowest=float(means[:, 0].min()), target=target)

    @property
    def _box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        low, high = np.array(list(self.axes.values())).T
        return low, high

    def _returns(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Return the means of the undisturbed law."""
        low, high = self._box
        if points.shape[1:] != low.shape:
            raise ConfigError(f"Got targets of {points.shape[1:]} values; the axes are {list(self.axes)}.")
        x = (points - low) / (high - low)
        if x.min(initial=0.0) < -1e-9 or x.max(initial=1.0) > 1 + 1e-9:
            raise ConfigError(f"Got targets outside of the box {self.axes}.")
        returns = self.truth(x.clip(0.0, 1.0))
        return np.column_stack([returns[:, 0].clip(*self.rewards), returns[:, 1:].clip(min=0.0)])

    def _means_of_a_day(
        self, rewards: Float[np.ndarray, " n"], costs: Float[np.ndarray, "n c"], stop: Stop
    ) -> Float[np.ndarray, "n k"]:
        """Return the means for given means of the law.

        Cost k grows at time t only if no cost has reached its stop. So its mean is the integral over t of the growth
        that it has with its own stop alone, times the probability that no other cost has been stopped before t.
        """
        if stop is None:
            return np.column_stack([rewards, self.law.mean(costs)])
        stops = np.broadcast_to(stop, costs.shape[1]).tolist()
        columns = list(zip(costs.T[:, :, None], stops, strict=True))
        alive = [self.law.below(cost, _TIMES, s) for cost, s in columns]
        time = np.prod(alive, axis=0)
        if self.correlation:  # E[exp(-g) 1(N < s)] is like P(N < s) with the rate k + 1 of g in place of k
            cost, s = columns[0]
            slow = self.law.below(cost * self.law.k / (self.law.k + 1), _TIMES, s)
            time = (1 + self.correlation) * time - self.correlation * slow
        means = [rewards * (time[:, 1:] + time[:, :-1]).mean(axis=1) / 2]
        for k, (cost, s) in enumerate(columns):
            others = np.prod([*alive[:k], *alive[k + 1 :], np.ones_like(time)], axis=0)
            growth = np.diff(self.law.mean(cost, _TIMES, s), axis=1)
            means.append((growth * (others[:, 1:] + others[:, :-1]) / 2).sum(axis=1))
        return np.column_stack(means)


Region = tuple[tuple[float, float], ...]
Draft = tuple[World, Region]
Family = Callable[[np.random.Generator], World]
_LOW_MIDDLE: Region = ((0.35, 0.65), (0.0, 1 / 12))  # of the reward axis; of the cost axis: a quarter of the limit
_ANYWHERE: Region = ((0.0, 1.0), (0.0, 1.0))
_WIDE = (-0.6 * REWARD, 1.6 * REWARD)  # rewards of maps with a random part


def _draft(truth: Callable[[Array], Array], *, region: Region = _LOW_MIDDLE, **given: Any) -> Draft:
    """Return a world whose start is still to be chosen within a region, in fractions of the axes."""
    settings: dict[str, Any] = {
        "family": "", "axes": AXES, "limits": (LIMIT,), "rewards": (0.0, 1.2 * REWARD),
        "law": negative_binomial(), "reward_sd": 0.08 * REWARD,
    }  # fmt: skip
    settings |= given
    return World(truth=truth, start=(0.0,) * len(region), **settings), region


def _plane(reward: Surface, *costs: Surface, **given: Any) -> Draft:
    """Return the draft of a world with a reward axis and one for each cost.

    The reward, a fraction of its axis, depends on u and the mean of all v; each cost, in limits, on u and its own v.
    """

    def truth(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        u = x[:, 0]
        means = [LIMIT * cost(u, v) for cost, v in zip(costs, x[:, 1:].T, strict=True)]
        return np.column_stack([REWARD * reward(u, x[:, 1:].mean(axis=1)), *means])

    return _draft(truth, **given)


def _scatter(rng: np.random.Generator) -> float:
    return REWARD * rng.uniform(0.04, 0.12)


def _draw_world(family: str, draft: Callable[[np.random.Generator], Draft], rng: np.random.Generator) -> World:
    for _ in range(200):
        world, region = draft(rng)
        low, high = world._box
        ends = np.array(region)
        points = low + (high - low) * (ends[:, 0] + np.ptp(ends, axis=1) * rng.random((256, len(ends))))
        cheap = np.flatnonzero((world.means(points)[:, 1:] <= _START_COST * np.asarray(world.limits)).all(axis=1))
        if not len(cheap):
            continue
        world = replace(world, family=family, start=tuple(points[cheap[0]].tolist()))
        reference = world.best(connected=True, size=40)
        reward = float(world.means(np.array([world.start]))[0, 0])
        if reference.best - reward >= 0.1 * (reference.best - reference.lowest):
            return world
    raise ConfigError(
        f"Family {family!r} drew 200 maps without a cheap start and something to gain; change its ranges."
    )


def _families(drafts: dict[str, Callable[[np.random.Generator], Draft]]) -> dict[str, Family]:
    return {name: partial(_draw_world, name, draft) for name, draft in drafts.items()}


def _rise(x: Array, at: float | Array, width: float) -> Array:
    """Return a logistic from 0 to 1, whose middle half takes the given width."""
    return np.asarray(special.expit(2.197 * (x - at) / width))


def _bend(x: Array, width: float) -> Array:
    """Return a smooth max(x, 0)."""
    return np.asarray(width * np.logaddexp(0.0, x / width))


def _hill(u: Array, v: Array, center: Array, spread: Array) -> Array:
    return np.asarray(np.exp(-(((u - center[0]) / spread[0]) ** 2 + ((v - center[1]) / spread[1]) ** 2) / 2))


def _saturating(x: Array, rate: float) -> Array:
    return np.asarray((1 - np.exp(-rate * x)) / (1 - np.exp(-rate)))


def _field(rng: np.random.Generator, length: float, axes: int = 2, smoothness: float = 2.5) -> Callable[..., Array]:
    """Return a random function with mean 0, variance 1 and a Matern covariance, by 400 random Fourier features."""
    scale = length * np.sqrt(rng.chisquare(2 * smoothness, 400) / (2 * smoothness))
    waves, (cosines, sines) = rng.standard_normal((axes, 400)) / scale, rng.standard_normal((2, 400)) / 20.0

    def field(*x: Array) -> Array:
        phases = np.column_stack(x) @ waves
        return np.asarray(np.cos(phases) @ cosines + np.sin(phases) @ sines)

    return field


def _overshooting(rng: np.random.Generator) -> tuple[Surface, Surface]:
    """Return reward and cost: cost above its target, about 1.6 limits at (highest reward, limit), saturating beyond."""
    base, slope, lean, top = rng.uniform([0.0, 0.9, 0.2, 2.0], [0.15, 1.3, 0.6, 3.0])
    share, rate = rng.uniform([0.2, 0.5], [0.4, 2.0])
    return (
        lambda u, v: _saturating(u * (1 - share + share * np.tanh(3 * v + 0.3)), rate),
        lambda u, v: np.asarray(top * np.tanh((base + 3 * slope * v + lean * u) / top)),
    )


def _conserving(rng: np.random.Generator) -> tuple[Surface, Surface]:
    """Return reward and cost: cost far below its target until it rises late; reward needs a high target cost."""
    base, slope, begin, lean, width, drift = rng.uniform(
        [0.02, 0.8, 1.6, 0.1, 0.08, 0.02], [0.15, 1.6, 2.2, 0.4, 0.2, 0.08]
    )
    rate, share = rng.uniform([1.0, 0.4], [2.5, 0.6])
    return (
        lambda u, v: _saturating(u, rate) * (1 - share + share * v**0.7),
        lambda u, v: base + 3 * drift * v + slope * _bend(3 * v + lean * u - begin, width),
    )


def _either(rng: np.random.Generator) -> tuple[Surface, Surface]:
    return (_overshooting if rng.random() < 0.5 else _conserving)(rng)


def _cliff(rng: np.random.Generator) -> Draft:
    """Return some cost everywhere, then a jump of 1.25 to 2 limits within 4 to 8 % of the reward axis."""
    at, lean, width, jump = rng.uniform([0.45, 0.0, 0.04, 1.25], [0.8, 0.12, 0.08, 2.0])
    base, drift, rate = rng.uniform([0.1, 0.0, 0.5], [0.35, 0.3, 1.5])
    return _plane(
        lambda u, v: _saturating(u, rate) * (0.9 + 0.1 * np.tanh(3 * v)),
        lambda u, v: base + drift * v + jump * _rise(u + lean * v, at, width),
    )


def _edge(rng: np.random.Generator) -> Draft:
    """Return no cost at all up to an edge that nothing foretells, and several limits beyond it.

    The machine repeats itself. Its speed is smooth in the target, and each step costs once that is too large.
    """
    field = _field(rng, 0.3)
    speed: Surface = lambda u, v: np.asarray(0.6 * u + 0.25 * v + 0.12 * field(u, v))  # noqa: E731
    speeds, (share, width, jump) = speed(*rng.random((2, 2000))), rng.uniform([0.5, 0.002, 2.5], [0.8, 0.01, 6.0])
    fast, top = np.quantile(speeds, share), speeds.max()
    return _plane(
        lambda u, v: speed(u, v) / top,
        lambda u, v: jump * special.ndtr((speed(u, v) - fast) / width) + 2 * np.maximum(speed(u, v) - fast, 0.0),
        law=nearly_fixed(), reward_sd=0.004 * REWARD,
    )  # fmt: skip


def _gp(rng: np.random.Generator, cost: Surface, region: Region) -> Draft:
    """Return a reward of the target and the given cost, both plus Gaussian processes as in the theory."""
    gain, loss = _field(rng, 0.3, smoothness=1.5), _field(rng, 0.3, smoothness=1.5)
    surfaces = (lambda u, v: u + 0.2 * gain(u, v)), (lambda u, v: np.maximum(cost(u, v) + 0.4 * loss(u, v), 0.0))
    return _plane(*surfaces, region=region, rewards=_WIDE)


def _from_prior(rng: np.random.Generator, length: float, deviation: float) -> Draft:
    """Return a map drawn from the search's own model of a cost; no mean is above 50 limits."""
    gain, f = _field(rng, 1.0), _field(rng, length)
    return _plane(
        lambda u, v: u + 0.2 * gain(u, v),
        lambda u, v: np.minimum(_bend(np.expm1((1 + deviation * f(u, v)) * np.log(5)), 0.05) / 4, 50.0),
        region=_ANYWHERE, rewards=_WIDE,
    )  # fmt: skip


def _plateau(rng: np.random.Generator) -> Draft:
    """Return a cost that climbs early to a wide plateau just below or just above the limit, and late beyond it."""
    level = rng.uniform(*rng.choice([[0.8, 0.95], [1.03, 1.15]]))
    base, at, last, more, tilt = rng.uniform([0.1, 0.35, 0.85, 0.5, 0.3], [0.25, 0.5, 0.95, 1.5, 0.7])
    share = rng.uniform(0.2, 0.5)

    def cost(u: Array, v: Array) -> Array:
        w = tilt * u + (1 - tilt) * v
        return np.asarray(base + (level - base) * _rise(w, at, 0.1) + more * _rise(w, last, 0.06))

    return _plane(lambda u, v: (1 - share) * u + share * v, cost)


def _several(rng: np.random.Generator, count: int) -> Draft:
    """Return several costs, each with a target and a map of its own."""
    maps = [_either(rng) for _ in range(count)]
    axes = {"reward": AXES["reward"]} | {f"cost {i + 1}": AXES["cost"] for i in range(count)}
    region = (_LOW_MIDDLE[0],) + (_LOW_MIDDLE[1],) * count
    return _plane(maps[0][0], *(cost for _, cost in maps), axes=axes, limits=(LIMIT,) * count, region=region)


def _knobs(rng: np.random.Generator, count: int = 6) -> Draft:
    """Return the knobs of a controller: reward peaks at an unsafe goal, and cost rises on the way there."""
    direction = rng.choice([-1.0, 1.0], count)
    start = 0.5 - direction * rng.uniform(0.1, 0.3, count)
    goal = start + direction * rng.uniform(0.35, 0.55, count)
    cause = direction * rng.uniform(0.2, 1.0, count)
    cause /= cause @ (goal - start)
    ripple, (free, slope, spread) = _field(rng, 1.0, count), rng.uniform([0.4, 2.0, 0.6], [0.6, 4.0, 0.8])
    level = ripple(*start[:, None])

    def truth(x: Array) -> Array:
        cost = 0.3 * np.exp(0.3 * (ripple(*x.T) - level)) + slope * _bend((x - start) @ cause - free, 0.08)
        return np.column_stack([REWARD * np.exp(-(((x - goal) / spread) ** 2).sum(axis=1) / 2), LIMIT * cost])

    axes = {f"knob {i + 1}": (0.0, 1.0) for i in range(count)}
    return _draft(truth, axes=axes, region=tuple((at, at) for at in start.tolist()), reward_sd=0.04 * REWARD)


FAMILIES = _families(
    {
        "overshoot": lambda rng: _plane(*_overshooting(rng)),
        "conservative": lambda rng: _plane(*_conserving(rng), law=negative_binomial(1.5)),
        "cliff": _cliff,
        "rare": lambda rng: _plane(*_overshooting(rng), law=lumps(6 * LIMIT)),
        "edge": _edge,
        "gp_target": lambda rng: _gp(rng, lambda u, v: 3 * v, ((0.0, 0.25), (0.0, 1 / 6))),
        "gp_flat": lambda rng: _gp(rng, lambda u, v: np.ones_like(v), _ANYWHERE),
        "lumps_7_5": lambda rng: _plane(*_either(rng), law=lumps(7.5 * LIMIT)),
        "lumps_15": lambda rng: _plane(*_either(rng), law=lumps(15 * LIMIT)),
        "lumps_50": lambda rng: _plane(*_either(rng), law=lumps(50 * LIMIT)),
        "falls_7_5": lambda rng: _plane(*_either(rng), law=steady_with_falls(7.5 * LIMIT)),
        "falls_50": lambda rng: _plane(*_either(rng), law=steady_with_falls(50 * LIMIT)),
        "day_03": lambda rng: _plane(*_either(rng), day=0.3),
        "day_06": lambda rng: _plane(*_either(rng), day=0.6),
        "correlated": lambda rng: _plane(*_either(rng), correlation=0.3, rewards=(0.0, 1.5 * REWARD)),
        "plateau": _plateau,
        "rough": partial(_from_prior, length=0.5, deviation=2.0),
        "smooth": partial(_from_prior, length=1.0, deviation=0.7),
        "costs_2": partial(_several, count=2),
        "costs_3": partial(_several, count=3),
        "costs_4": partial(_several, count=4),
        "knobs_6": _knobs,
    }
)


# The names of what follows mean nothing on purpose. If you tune the search, do not read on.


def _alder(rng: np.random.Generator) -> Draft:
    """Return a cost that is high at both ends of u; reward never falls to low targets."""
    floor, drift, wander, first, first_width = rng.uniform([0.1, 0.0, 1.1, 0.1, 0.06], [0.3, 0.3, 1.75, 0.22, 0.12])
    hurry, last, last_width, lean = rng.uniform([0.9, 0.75, 0.08, -0.1], [1.75, 0.9, 0.15, 0.15])
    least, bend, gain, loss, k = rng.uniform([0.2, 0.04, 0.1, 0.1, 1.5], [0.35, 0.08, 0.25, 0.4, 3.0])
    past: Surface = lambda u, v: _rise(u + lean * v, last, last_width)  # noqa: E731
    return _plane(
        lambda u, v: (
            0.8 * (least + _bend(u - least, bend)) * (1 + gain * np.tanh(3 * v)) * (1 - loss * past(u, v))
        ),
        lambda u, v: floor + drift * v + wander * (1 - _rise(u, first, first_width)) + hurry * past(u, v),
        law=negative_binomial(k), reward_sd=_scatter(rng),
    )  # fmt: skip


def _birch(rng: np.random.Generator) -> Draft:
    """Return a cost and a reward that climb in four steps along v, the third across the limit."""
    steps = np.cumsum(rng.uniform([0.16, 0.17, 0.17, 0.14], [0.24, 0.24, 0.24, 0.2]))
    heights = rng.uniform([0.15, 0.15, 0.9, 0.0], [0.35, 0.35, 1.4, 0.6])
    gains = rng.uniform([0.08, 0.08, 0.0, -0.1], [0.2, 0.2, 0.15, 0.0])
    width, tilt, base, drift, knee, k = rng.uniform(
        [0.04, -0.05, 0.05, 0.0, 0.6, 2.0], [0.08, 0.1, 0.15, 0.1, 0.9, 5.0]
    )
    climbed: Surface = lambda u, v: _rise((v + tilt * (u - 0.5))[:, None], steps, width)  # noqa: E731
    return _plane(
        lambda u, v: (0.55 + climbed(u, v) @ gains) * (0.35 + 0.65 * (knee - _bend(knee - u, 0.05))),
        lambda u, v: base + drift * u + climbed(u, v) @ heights,
        law=negative_binomial(k), reward_sd=_scatter(rng),
    )  # fmt: skip


def _cedar(rng: np.random.Generator) -> Draft:
    """Return a corridor between high u with low v, where cost is forgotten, and high v, where it is obeyed."""
    ambition, lean, width, base, height = rng.uniform([0.62, 0.45, 0.06, 0.05, 1.0], [0.75, 0.75, 0.12, 0.2, 1.75])
    obeyed, power, reach, gain, loss, k = rng.uniform([0.3, 1.0, 0.8, 0.0, 0.0, 0.8], [0.5, 1.5, 1.1, 0.15, 0.3, 2.0])
    conflict: Surface = lambda u, v: _rise(u - lean * v, ambition, width)  # noqa: E731
    return _plane(
        lambda u, v: 0.9 * u**reach * (1 + gain * v) * (1 - loss * conflict(u, v)),
        lambda u, v: base + height * conflict(u, v) + obeyed * (3 * v) ** power,
        law=negative_binomial(k), reward_sd=_scatter(rng),
    )  # fmt: skip


def _elm(rng: np.random.Generator) -> Draft:
    """Return a ridge of cost along u, in lumps; episodes beyond it end early with little of either return."""
    edge, width, after, end_width = rng.uniform([0.72, 0.05, 0.13, 0.05], [0.84, 0.09, 0.22, 0.09])
    lean, height, base, drift = rng.uniform([-0.03, 1.4, 0.1, 0.0], [0.03, 2.0, 0.3, 0.15])
    power, loss, size = rng.uniform([0.9, 0.6, 50.0], [1.3, 0.9, 80.0])
    ended: Surface = lambda u, v: _rise(u + lean * v, edge + after, end_width)  # noqa: E731
    return _plane(
        lambda u, v: 0.05 + 0.9 * u**power * (1 - loss * ended(u, v)),
        lambda u, v: base + drift * u + height * _rise(u + lean * v, edge, width) * (1 - ended(u, v)),
        law=lumps(size), reward_sd=_scatter(rng),
    )  # fmt: skip


def _fir(rng: np.random.Generator) -> Draft:
    """Return unsafe islands in a slow slope of cost, one on the way to the reward's summit; heavy tails."""
    angle, height, middle, width = rng.uniform([0.15 * np.pi, 1.25, 0.95, 0.2], [0.35 * np.pi, 1.9, 1.15, 0.35])
    summit, spread = rng.uniform([0.65, 0.3], [0.9, 0.65]), rng.uniform([0.25, 0.3], [0.4, 0.5])
    on_the_way = [0.5, 0.0] + rng.uniform(0.4, 0.7) * (summit - [0.5, 0.0])
    centers = [on_the_way, *rng.uniform([0.15, 0.25], [1.0, 1.0], (rng.integers(1, 4), 2))]
    islands = [(rng.uniform(0.8, 1.4), center, rng.uniform(0.07, 0.13, 2)) for center in centers]
    base, k = rng.uniform([0.15, 0.5], [0.3, 1.0])
    slope: Surface = lambda u, v: height * _rise(np.cos(angle) * u + np.sin(angle) * v, middle, width)  # noqa: E731
    return _plane(
        lambda u, v: 0.25 + 0.55 * _hill(u, v, summit, spread),
        lambda u, v: base + slope(u, v) + np.max([tall * _hill(u, v, *place) for tall, *place in islands], axis=0),
        law=negative_binomial(k), reward_sd=_scatter(rng),
    )  # fmt: skip


def _hazel(rng: np.random.Generator) -> Draft:
    """Return waves of cost across the way to reward, whose crests are above the limit at low v only."""
    period, angle, phase, base, high, low = rng.uniform(
        [0.24, -0.4, 0.0, 0.1, 1.1, 0.5], [0.4, 0.4, 6.28, 0.2, 1.6, 0.8]
    )
    price, power, k = rng.uniform([0.0, 0.8, 1.5], [0.25, 1.4, 4.0])

    def cost(u: Array, v: Array) -> Array:
        crest = 0.5 + 0.5 * np.cos(2 * np.pi * (np.cos(angle) * u + np.sin(angle) * v) / period + phase)
        return np.asarray(base + (high + (low - high) * v) * crest**1.5)

    return _plane(lambda u, v: u**power * (1 - price * v), cost, law=negative_binomial(k), reward_sd=_scatter(rng))


def _juniper(rng: np.random.Generator) -> Draft:
    """Return three knobs, two of which must agree: a thin curved valley of low cost."""
    curve, tight, late, slope, share = rng.uniform([-0.5, 0.5, 0.6, 1.0, 0.3], [0.5, 0.9, 0.8, 2.5, 0.7])

    def truth(x: Array) -> Array:
        first, second, third = x.T
        apart = first - second - curve * second * (1 - second)
        cost = (
            0.15 + tight * (0.4 + 1.6 * third) * (apart / 0.25) ** 2 + slope * _bend(third + 0.3 * first - late, 0.05)
        )
        return np.column_stack([REWARD * (0.1 + share * first + (0.9 - share) * third), LIMIT * cost])

    axes = {f"knob {i}": (0.0, 1.0) for i in (1, 2, 3)}
    law = steady_with_falls(2 * LIMIT, share=0.3, k=1.0)
    return _draft(truth, axes=axes, region=((0.1, 0.35), (0.1, 0.35), (0.0, 0.2)), law=law)


HELD_OUT = _families({"alder": _alder, "birch": _birch, "cedar": _cedar, "elm": _elm, "fir": _fir})
HELD_OUT_2 = _families({"hazel": _hazel, "juniper": _juniper})
