"""Episodes relabeled with targets that nobody has reached, so that asking for too much reward stays safe.

After Liu et al. 2023, "Constrained Decision Transformer": a target (reward, cost) above the Pareto front of the data is
given to a real episode that costs no more than the target. A policy learns from the pair that when both cannot be had,
the cost comes first. Only the returns of episodes are needed here; the caller shifts their returns-to-go.

Notation: e episodes, m relabeled ones; C and R their cost and reward returns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.errors import ConfigError

_MARGIN = 0.1  # how much less than the best an episode may earn
_PAIRS = 4_000_000  # of targets and episodes that are compared at once


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """Relabeled episodes near the Pareto front."""

    fraction: float = 0.0
    """How many to add, as a fraction of the episodes; 0 for none."""
    spacing: float = 2.0
    """How target costs lie between the least and the largest seen. 1 spreads them evenly; with 2 they go by squares, so
    that most lie where costs are low, and a search begins."""

    def __post_init__(self) -> None:
        if not self.fraction >= 0:
            raise ConfigError(f"fraction must not be negative; got {self.fraction}.")
        if not self.spacing >= 1:
            raise ConfigError(f"spacing must be at least 1; got {self.spacing}.")


@dataclass(frozen=True)
class Relabeled:
    """Which episodes are given which targets; row i of both belong together."""

    episodes: Int[np.ndarray, " m"]
    targets: Float[np.ndarray, "m r"]
    """Reward first, then the costs."""


def relabel(returns: Float[np.ndarray, "e r"], config: AugmentationConfig, generator: np.random.Generator) -> Relabeled:
    """Return targets above the front, each with one of the best episodes that cost no more.

    Target costs are spread over those seen, each cost by itself, the closer the lower they are. The target reward lies
    anywhere between the best one seen at these costs and the best of all: whatever is asked for beyond the front, the
    answer is the front. The episode is drawn from those that earn up to a tenth less than the best, as a fraction of
    what the best earns above the least of all. The front is taken as it is, a staircase, so there is no curve to fit
    and nothing to fail in odd data.
    """
    rewards, costs = returns[:, 0], returns[:, 1:]
    count = int(config.fraction * len(returns))
    if not count:
        return Relabeled(np.zeros(0, dtype=np.int64), np.zeros((0, returns.shape[1])))
    shares = np.linspace(0, 1, count)[:, None] ** config.spacing
    spread = costs.min(axis=0) + shares * np.ptp(costs, axis=0)
    wanted = np.column_stack([spread[:, 0], *(generator.permutation(column) for column in spread[:, 1:].T)])
    parts = [_best_affordable(rewards, costs, part, generator) for part in _chunks(wanted, len(returns))]
    reachable, best, episodes = (np.concatenate(column) for column in zip(*parts, strict=True))
    highest = rewards.max() + _MARGIN * np.ptp(rewards)
    gained = best + (highest - best) * generator.random(len(best))
    return Relabeled(episodes, np.column_stack([gained, wanted[reachable]]))


def _best_affordable(
    rewards: Float[np.ndarray, " e"],
    costs: Float[np.ndarray, "e k"],
    wanted: Float[np.ndarray, "m k"],
    generator: np.random.Generator,
) -> tuple[Bool[np.ndarray, " m"], Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Return which costs are reachable at all, the best reward within each, and an episode hardly below it."""
    affordable = np.all(costs[None, :] <= wanted[:, None], axis=2)
    reachable = np.any(affordable, axis=1)
    affordable = affordable[reachable]
    best = np.where(affordable, rewards, -np.inf).max(axis=1, initial=-np.inf)
    enough = best - _MARGIN * (best - rewards.min())  # NOTE: of the whole range, reckless rewards would widen it
    good = affordable & (rewards[None, :] >= enough[:, None])
    return reachable, best, np.where(good, generator.random(good.shape), -1.0).argmax(axis=1)


def _chunks(wanted: Float[np.ndarray, "m k"], episodes: int) -> list[Float[np.ndarray, "_ k"]]:
    """Return targets in parts, since each is compared with every episode: memory for all at once may be too much."""
    rows = max(_PAIRS // max(episodes, 1), 1)
    return [wanted[first : first + rows] for first in range(0, max(len(wanted), 1), rows)]
