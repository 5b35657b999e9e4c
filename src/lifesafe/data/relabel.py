"""Episodes relabeled with targets that nobody has reached, so that asking for too much reward stays safe.

After Liu et al. 2023, "Constrained Decision Transformer": a target (reward, cost) above the Pareto front of the data is
given to a real episode that costs no more than the target. A policy learns from the pair that when both cannot be had,
the cost comes first. Only the returns of episodes are needed here; the caller shifts their returns-to-go.

Notation: e episodes, m relabeled ones; C and R their cost and reward returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.errors import ConfigError, DatasetError

_PAIRS = 4_000_000  # of targets and episodes that are compared at once


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """Relabeled episodes near the Pareto front."""

    fraction: float = 0.0
    """How many to add, as a fraction of the episodes; 0 for none."""
    rule: Literal["front", "osrl"] = "front"
    """How targets and episodes are paired: `relabel_front` or `relabel_osrl`."""
    spacing: float = 2.0
    """How target costs lie between the least and the largest seen; for "front" only. 1 spreads them evenly; with 2 they
    go by squares, so that most lie where costs are low, and a search begins."""
    degree: int = 4
    """Degree of the polynomial through the front; for "osrl" only, like the rest."""
    largest_reward: float = 600.0
    """Largest target reward."""
    largest_drop: float = 100.0
    """How much less than the nearest episode its stand-ins may earn."""

    def __post_init__(self) -> None:
        if not self.fraction >= 0:
            raise ConfigError(f"fraction must not be negative; got {self.fraction}.")
        if not self.spacing >= 1:
            raise ConfigError(f"spacing must be at least 1; got {self.spacing}.")
        if self.degree < 0:
            raise ConfigError(f"degree must not be negative; got {self.degree}.")


@dataclass(frozen=True)
class Relabeled:
    """Which episodes are given which targets; row i of both belong together."""

    episodes: Int[np.ndarray, " m"]
    targets: Float[np.ndarray, "m r"]
    """Reward first, then the costs."""


def relabel(returns: Float[np.ndarray, "e r"], config: AugmentationConfig, generator: np.random.Generator) -> Relabeled:
    """Return relabeled episodes as the config says.

    Raises:
        DatasetError: If OSRL's rule, which knows one cost, is asked for and there are several.
    """
    if not config.fraction:
        return Relabeled(np.zeros(0, dtype=np.int64), np.zeros((0, returns.shape[1])))
    if config.rule == "front":
        return relabel_front(returns, fraction=config.fraction, spacing=config.spacing, generator=generator)
    if returns.shape[1] != 2:
        raise DatasetError(
            f"OSRL's relabeling needs exactly one cost; the data have {returns.shape[1] - 1}."
            ' Set augmentation.rule to "front", or augmentation.fraction to 0.'
        )
    return relabel_osrl(
        returns,
        fraction=config.fraction,
        degree=config.degree,
        largest_reward=config.largest_reward,
        largest_drop=config.largest_drop,
        generator=generator,
    )


def pareto_front(rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"]) -> Int[np.ndarray, " m"]:
    """Return the episodes that no other beats in one of reward and cost without losing in the other, by rising cost."""
    order = np.lexsort((-rewards, costs))
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(rewards[order])[:-1]])
    leaders = order[rewards[order] > best_before]
    points = {(costs[i], rewards[i]) for i in leaders}
    return np.array([i for i in order if (costs[i], rewards[i]) in points], dtype=np.int64)


def relabel_front(
    returns: Float[np.ndarray, "e r"],
    *,
    fraction: float,
    spacing: float,
    generator: np.random.Generator,
    margin: float = 0.1,
) -> Relabeled:
    """Return targets above the front, each with one of the best episodes that cost no more.

    Target costs are spread over those seen, each cost by itself, the closer the lower they are. The target reward lies
    anywhere between the best one seen at these costs and the best of all: whatever is asked for beyond the front, the
    answer is the front. The episode is drawn from those that earn up to `margin` less than the best, as a fraction of
    what the best earns above the least of all. The front is taken as it is, a staircase, so there is no curve to fit
    and nothing to fail in odd data.
    """
    rewards, costs = returns[:, 0], returns[:, 1:]
    count = int(fraction * len(returns))
    shares = np.linspace(0, 1, count)[:, None] ** spacing
    spread = costs.min(axis=0) + shares * np.ptp(costs, axis=0)
    wanted = np.column_stack([spread[:, 0], *(generator.permutation(column) for column in spread[:, 1:].T)])
    parts = [_best_affordable(rewards, costs, part, margin, generator) for part in _chunks(wanted, len(returns))]
    reachable, best, episodes = (np.concatenate(column) for column in zip(*parts, strict=True))
    highest = rewards.max() + margin * np.ptp(rewards)
    gained = best + (highest - best) * generator.random(len(best))
    return Relabeled(episodes, np.column_stack([gained, wanted[reachable]]))


def _best_affordable(
    rewards: Float[np.ndarray, " e"],
    costs: Float[np.ndarray, "e k"],
    wanted: Float[np.ndarray, "m k"],
    margin: float,
    generator: np.random.Generator,
) -> tuple[Bool[np.ndarray, " m"], Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Return which costs are reachable at all, the best reward within each, and an episode hardly below it."""
    affordable = np.all(costs[None, :] <= wanted[:, None], axis=2)
    reachable = np.any(affordable, axis=1)
    affordable = affordable[reachable]
    best = np.where(affordable, rewards, -np.inf).max(axis=1, initial=-np.inf)
    enough = best - margin * (best - rewards.min())  # NOTE: of the whole range, reckless rewards would widen it
    good = affordable & (rewards[None, :] >= enough[:, None])
    return reachable, best, np.where(good, generator.random(good.shape), -1.0).argmax(axis=1)


def _chunks(wanted: Float[np.ndarray, "m k"], episodes: int) -> list[Float[np.ndarray, "_ k"]]:
    """Return targets in parts, since each is compared with every episode: memory for all at once may be too much."""
    rows = max(_PAIRS // max(episodes, 1), 1)
    return [wanted[first : first + rows] for first in range(0, max(len(wanted), 1), rows)]


def relabel_osrl(
    returns: Float[np.ndarray, "e 2"],
    *,
    fraction: float,
    degree: int,
    largest_reward: float,
    largest_drop: float,
    generator: np.random.Generator,
    least_gain: float = 1.0,
    beta: float = 1.0,
) -> Relabeled:
    """Return relabeled episodes by OSRL's rules, its shuffled pairs included.

    Episodes are thinned on a grid, a polynomial is fitted through the front of the rest, and target rewards are drawn
    between it and `largest_reward`. An episode nearest to several targets keeps one; the others get stand-ins.

    NOTE: As in OSRL the stand-ins follow their episode in the list while targets stay in order of cost, so most
    pairs are not those that were matched; every episode still costs no more than its target. Where OSRL crashes (a
    front with fewer points than the polynomial has terms) the degree is lowered. OSRL's random numbers are not
    reproduced.
    """
    kept = thin(returns, generator)
    rewards, costs = returns[kept, 0], returns[kept, 1]
    count = int(fraction * len(kept))
    if not count:
        return Relabeled(np.zeros(0, dtype=np.int64), np.zeros((0, 2)))
    front = pareto_front(rewards, costs)
    terms = min(degree, len(np.unique(costs[front])) - 1)
    curve = np.polynomial.Polynomial.fit(costs[front], rewards[front], terms)
    wanted = np.linspace(costs.min(), costs.max(), count)
    low = np.asarray(curve(wanted)) + least_gain
    gained = low + (largest_reward - low) * generator.random(count)  # as NumPy's uniform does, even if low is higher
    nearest = _nearest_affordable(rewards, costs, np.column_stack([gained, wanted]))
    chosen = _with_stand_ins(rewards, costs, nearest, largest_drop, beta, generator)
    return Relabeled(kept[chosen], np.column_stack([gained, wanted]))


def thin(returns: Float[np.ndarray, "e 2"], generator: np.random.Generator) -> Int[np.ndarray, " m"]:
    """Return the episodes OSRL keeps: in a grid of 10 costs by 50 rewards, at most 10 per cell, none of 2 or fewer."""
    costs, rewards = returns[:, 1], returns[:, 0]
    cells = [np.floor((x - x.min()) / (np.ptp(x) / bins or 1.0)) for x, bins in ((costs, 10), (rewards, 50))]
    _, cell = np.unique(np.column_stack(cells), axis=0, return_inverse=True)
    order = generator.permutation(len(returns))
    order = order[np.argsort(cell.ravel()[order], kind="stable")]
    counts = np.bincount(cell.ravel())
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    size = np.repeat(counts, counts)
    return np.sort(order[(rank < 10) & (size > 2)])


def _nearest_affordable(
    rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"], targets: Float[np.ndarray, "m 2"]
) -> Int[np.ndarray, " m"]:
    distance = np.hypot(targets[:, 1, None] - costs, targets[:, 0, None] - rewards)
    nearest: np.ndarray = np.where(costs <= targets[:, 1, None], distance, np.inf).argmin(axis=1)
    return nearest


def _with_stand_ins(
    rewards: Float[np.ndarray, " e"],
    costs: Float[np.ndarray, " e"],
    nearest: Int[np.ndarray, " m"],
    largest_drop: float,
    beta: float,
    generator: np.random.Generator,
) -> Int[np.ndarray, " m"]:
    chosen: list[int] = []
    indices, first, counts = np.unique(nearest, return_index=True, return_counts=True)
    for episode, count in sorted(zip(indices, counts, strict=True), key=lambda pair: first[indices == pair[0]][0]):
        chosen.append(episode)
        close = np.flatnonzero((costs <= costs[episode]) & (rewards >= rewards[episode] - largest_drop))
        chances = 1 / (np.hypot(costs[close] - costs[episode], rewards[close] - rewards[episode]) + beta)
        chosen.extend(generator.choice(close, size=count - 1, p=chances / chances.sum()))
    return np.array(chosen, dtype=np.int64)
