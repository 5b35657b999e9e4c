"""Summary: the figures of a dataset that one would first ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.returns import Returns, per_cost, return_names

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The quantiles that are kept: both extremes, the tails, the quartiles and the median."""

_HEADINGS = ("least", "5 %", "25 %", "median", "75 %", "95 %", "most")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a dataset holds, episode by episode."""

    episodes: int
    """How many there are."""
    transitions: int
    """Steps of all episodes together."""
    lengths: tuple[float, ...]
    """Steps of an episode at each of `LEVELS`."""
    rewards: tuple[float, ...]
    """Reward return at each of `LEVELS`."""
    costs: tuple[tuple[float, ...], ...]
    """Cost return at each of `LEVELS`, one row per cost."""
    terminated: float
    """Share of the episodes that ended by themselves."""
    limits: tuple[float, ...] | None
    """The limits asked about, one per cost."""
    under: tuple[float, ...] | None
    """Share of the episodes that keep each limit."""
    safe_episodes: int | None
    """How many keep every limit."""
    best: Returns | None
    """Returns of the episode with the highest reward among those that keep every limit, if there is one."""

    def __str__(self) -> str:
        names = return_names(len(self.costs))
        rows = [_HEADINGS, *map(_cells, (self.rewards, *self.costs, self.lengths))]
        width = 2 + max(len(cell) for row in rows for cell in row)
        lines = [
            f"{self.episodes:,} episodes, {self.transitions:,} transitions;"
            f" {self.terminated:.1%} of the episodes ended by themselves",
            "",
            *(
                f"{name:8}" + "".join(f"{cell:>{width}}" for cell in row)
                for name, row in zip(("", *names, "steps"), rows, strict=True)
            ),
        ]
        return "\n".join([*lines, *self._lines_on_limits(names[1:])])

    def _lines_on_limits(self, names: tuple[str, ...]) -> list[str]:
        if self.limits is None or self.under is None:
            return []
        lines = [""]
        for name, limit, share in zip(names, self.limits, self.under, strict=True):
            lines.append(f"{name} <= {limit:g}: {share:.1%} of the episodes")
        if self.best is None:
            return [*lines, "no episode keeps every limit"]
        costs = ", ".join(f"{name} {cost:,.4g}" for name, cost in zip(names, self.best.costs, strict=True))
        return [*lines, f"best of the {self.safe_episodes:,} safe episodes: reward {self.best.reward:,.4g}, {costs}"]


def summarize(
    returns: Float[np.ndarray, "e r"],
    lengths: Int[np.ndarray, " e"],
    terminated: Bool[np.ndarray, " e"],
    limits: float | Sequence[float] | None = None,
) -> Summary:
    """Return the summary of episodes with the given returns (the reward first), lengths and kinds of end.

    Raises:
        ConfigError: If the limits are no numbers, or not as many as there are costs.
    """
    rewards, costs = returns[:, 0], returns[:, 1:]
    known = None if limits is None else per_cost("limits", limits, costs.shape[1])
    kept = None if known is None else costs <= known
    safe = None if kept is None else np.flatnonzero(kept.all(axis=1))
    best = None if safe is None or not len(safe) else returns[safe[np.argmax(rewards[safe])]]
    return Summary(
        episodes=len(returns),
        transitions=int(lengths.sum()),
        lengths=_levels(lengths),
        rewards=_levels(rewards),
        costs=tuple(_levels(cost) for cost in costs.T),
        terminated=float(terminated.mean()),
        limits=known,
        under=None if kept is None else tuple(kept.mean(axis=0).tolist()),
        safe_episodes=None if safe is None else len(safe),
        best=None if best is None else Returns(best[0], best[1:]),
    )


def _levels(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.quantile(values, LEVELS).tolist())


def _cells(values: tuple[float, ...]) -> tuple[str, ...]:
    """Return numbers as text with the same decimals: none for counts, else those of four digits of the largest."""
    largest = max(abs(value) for value in values)
    if all(value == round(value) for value in values):
        decimals = 0
    else:
        decimals = 1 if largest >= 100 else 3 - int(np.floor(np.log10(largest)))
    return tuple(f"{value:,.{decimals}f}" for value in values)
