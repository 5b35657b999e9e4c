"""How well the episodes cover the plane of cost and reward around a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from lifesafe.data.check.finding import Finding, found
from lifesafe.data.check.table import Columns, blocks
from lifesafe.data.luck import MOST, luck

_NEAR = (0.5, 1.25)  # of the limit: targets there are what users want, and what must have been seen
_FEW = 20
_GOOD = 0.9  # of the way from the worst to the best return among those that keep the limit
_FLAT = 0.05


def check_plane(table: Columns, limits: Sequence[float] | None) -> Iterator[Finding]:
    """Look at the returns of the episodes, at each cost's limit if there are limits."""
    returns = _returns(table)
    rewards, costs = returns[:, 0], returns[:, 1:]
    if limits is None:
        spans = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in zip(costs.min(0), costs.max(0), strict=True))
        message = (
            f"{len(returns)} episodes earn {rewards.min():.4g} to {rewards.max():.4g} and cost {spans}"
            f" (median {', '.join(f'{value:.4g}' for value in np.median(costs, axis=0))})."
        )
        yield found(
            "note", "returns", message, "Give a limit to see how well they cover the plane there.", len(returns)
        )
    elif len(limits) != costs.shape[1]:
        message = f"There are {costs.shape[1]} costs a row and {len(limits)} limits."
        yield found("error", "cost-count", message, "Give one limit per cost.")
    else:
        for index, limit in enumerate(limits):
            name = f"Cost {index + 1}: " if len(limits) > 1 else ""
            yield from _at_limit(rewards, costs[:, index], float(limit), name)
        yield from _luck(table, limits)


def _returns(table: Columns) -> Float[np.ndarray, "e r"]:
    """Return what each whole episode earned and cost."""
    starts, stop = table.offsets[:-1], int(table.offsets[-1])
    steps = np.empty((stop, 1 + table.costs.shape[1]))
    for rows in blocks(stop):
        steps[rows, 0], steps[rows, 1:] = table.rewards[rows], table.costs[rows]
    return np.add.reduceat(steps, starts, axis=0)


def _luck(table: Columns, limits: Sequence[float]) -> Iterator[Finding]:
    """Tell if the best of the cheap episodes were cheap by luck."""
    (cost,) = luck(table, limits, [np.inf])
    if cost > MOST:
        message = (
            "The best of the cheap episodes look like luck: of episodes that are like them by one half, the other half"
            f" alone costs {cost:.1f} limits."
        )
        advice = (
            "A policy that does as they did will cost more, so a search begins with less reward, or not at all. Log"
            " behaviors that keep the limit on purpose, and keep all of their episodes."
        )
        yield found("warning", "luck", message, advice)


def _at_limit(
    rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"], limit: float, name: str
) -> Iterator[Finding]:
    under = costs <= limit
    if not under.any():
        message = f"{name}No episode keeps the limit {limit:g}; the cheapest costs {costs.min():.4g}."
        advice = "There is nothing safe to learn from. Log behaviors that keep it, or raise the limit."
        yield found("error", "none-under-limit", message, advice, 0)
        return
    low, high = _NEAR[0] * limit, _NEAR[1] * limit
    near = (costs >= low) & (costs <= high)
    bar = rewards[under].min() + _GOOD * (rewards[under].max() - rewards[under].min())
    good = near & (rewards >= bar)
    message = (
        f"{name}{under.sum()} of {len(costs)} episodes keep the limit {limit:g} and earn up to"
        f" {rewards[under].max():.4g}; {near.sum()} lie near it (cost {low:g} to {high:g}), {good.sum()} of"
        f" them with a good reward ({bar:.4g} or more); {(~under).sum()} exceed it."
    )
    yield found("note", "coverage", message, at=int(under.sum()))
    if under.sum() < _FEW:
        message = f"{name}Only {under.sum()} episodes keep the limit {limit:g}."
        advice = "What is safe will be learned badly. Log more behaviors that keep it."
        yield found("warning", "few-under-limit", message, advice, int(under.sum()))
    if near.sum() < _FEW:
        message = (
            f"{name}Only {near.sum()} episodes cost between {low:g} and {high:g}; the nearest to the limit cost"
            f" {costs[under].max():.4g} and {costs[~under].min(initial=np.inf):.4g}."
        )
        advice = "A policy asked for a cost near the limit has to guess. Log some between careful and bold."
        yield found("warning", "gap-at-limit", message, advice, int(near.sum()))
    elif good.sum() < 5:
        message = f"{name}Of {near.sum()} episodes near the limit, {good.sum()} earn a good reward."
        advice = "Asked for a good reward at that cost, a policy has hardly seen how. Log better behaviors there."
        yield found("warning", "poor-at-limit", message, advice, int(good.sum()))
    if under.all():
        message = f"{name}No episode exceeds the limit {limit:g}; the costliest costs {costs.max():.4g}."
        advice = "A policy cannot learn what goes too far; bold targets are outside the data."
        yield found("note", "none-above-limit", message, advice, 0)
    careful, span = costs <= 0.25 * limit, rewards.max() - rewards.min()
    if careful.any() and span > 0 and rewards.max() - rewards[careful].max() <= _FLAT * span:
        # Then any careful target will do, and methods cannot be told apart.
        message = (
            f"{name}Episodes that cost at most {0.25 * limit:g} earn up to {rewards[careful].max():.4g}, all up to"
            f" {rewards.max():.4g}: more cost hardly earns more."
        )
        advice = "Good news for a user; for judging methods take data where caution has a price."
        yield found("note", "flat-frontier", message, advice)
