"""How well the episodes cover the plane of cost and reward around a limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from lifesafe.data.check.finding import Finding
from lifesafe.data.check.table import Table, blocks
from lifesafe.data.luck import MOST, luck

_NEAR = (0.5, 1.25)  # of the limit: targets there are what users want, and what must have been seen
_FEW = 20
_GOOD = 0.9  # of the way from the worst to the best return among those that keep the limit
_FLAT = 0.05


def check_plane(table: Table, limits: Sequence[float] | None) -> list[Finding]:
    """Look at the returns of the episodes, at each cost's limit if there are limits."""
    returns = _returns(table)
    several = table.costs.shape[1] > 1
    if limits is None:
        rewards, costs = returns[:, 0], returns[:, 1:]
        spans = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in zip(costs.min(0), costs.max(0), strict=True))
        message = (
            f"{len(returns)} episodes earn {rewards.min():.4g} to {rewards.max():.4g} and cost {spans}"
            f" (median {', '.join(f'{value:.4g}' for value in np.median(costs, axis=0))})."
        )
        advice = "Give a limit to see how well they cover the plane there."
        return [Finding(severity="note", code="returns", message=message, advice=advice, count=len(returns))]
    if len(limits) != table.costs.shape[1]:
        message = f"There are {table.costs.shape[1]} costs a row and {len(limits)} limits."
        return [Finding(severity="error", code="cost-count", message=message, advice="Give one limit per cost.")]
    findings = [
        finding
        for index, limit in enumerate(limits)
        for finding in _at_limit(
            returns[:, 0], returns[:, 1 + index], float(limit), f"Cost {index + 1}: " if several else ""
        )
    ]
    return findings + _luck(table, limits)


def _returns(table: Table) -> Float[np.ndarray, "e r"]:
    """Return what each whole episode earned and cost."""
    starts, stop = table.offsets[:-1], int(table.offsets[-1])
    steps = np.empty((stop, 1 + table.costs.shape[1]))
    for rows in blocks(stop):
        steps[rows, 0], steps[rows, 1:] = table.rewards[rows], table.costs[rows]
    return np.add.reduceat(steps, starts, axis=0)


def _luck(table: Table, limits: Sequence[float]) -> list[Finding]:
    """Tell if the best of the cheap episodes were cheap by luck."""
    (cost,) = luck(table, limits, [np.inf])
    if not cost > MOST:
        return []
    message = (
        "The best of the cheap episodes look like luck: of episodes that are like them by one half, the other half"
        f" alone costs {cost:.1f} limits."
    )
    advice = (
        "A policy that does as they did will cost more, so a search begins with less reward, or not at all. Log"
        " behaviors that keep the limit on purpose, and keep all of their episodes."
    )
    return [Finding(severity="warning", code="luck", message=message, advice=advice)]


def _at_limit(
    rewards: Float[np.ndarray, " e"], costs: Float[np.ndarray, " e"], limit: float, name: str
) -> list[Finding]:
    under = costs <= limit
    near = (costs >= _NEAR[0] * limit) & (costs <= _NEAR[1] * limit)
    if not under.any():
        message = f"{name}No episode keeps the limit {limit:g}; the cheapest costs {costs.min():.4g}."
        advice = "There is nothing safe to learn from. Log behaviors that keep it, or raise the limit."
        return [Finding(severity="error", code="none-under-limit", message=message, advice=advice, count=0)]
    bar = rewards[under].min() + _GOOD * (rewards[under].max() - rewards[under].min())
    good = near & (rewards >= bar)
    low, high = _NEAR[0] * limit, _NEAR[1] * limit
    message = (
        f"{name}{int(under.sum())} of {len(costs)} episodes keep the limit {limit:g} and earn up to"
        f" {rewards[under].max():.4g}; {int(near.sum())} lie near it (cost {low:g} to {high:g}), {int(good.sum())} of"
        f" them with a good reward ({bar:.4g} or more); {int((~under).sum())} exceed it."
    )
    return [
        Finding(severity="note", code="coverage", message=message, count=int(under.sum())),
        *_support(under, near, good, costs, limit, name),
        *_frontier(rewards, costs, limit, name),
    ]


def _support(
    under: np.ndarray, near: np.ndarray, good: np.ndarray, costs: np.ndarray, limit: float, name: str
) -> list[Finding]:
    findings = []
    if under.sum() < _FEW:
        findings.append(
            Finding(
                severity="warning",
                code="few-under-limit",
                message=f"{name}Only {int(under.sum())} episodes keep the limit {limit:g}.",
                advice="What is safe will be learned badly. Log more behaviors that keep it.",
                count=int(under.sum()),
            )
        )
    if near.sum() < _FEW:
        below, above = costs[under].max(), costs[~under].min(initial=np.inf)
        findings.append(
            Finding(
                severity="warning",
                code="gap-at-limit",
                message=f"{name}Only {int(near.sum())} episodes cost between {_NEAR[0] * limit:g} and"
                f" {_NEAR[1] * limit:g}; the nearest to the limit cost {below:.4g} and {above:.4g}.",
                advice="A policy asked for a cost near the limit has to guess. Log some between careful and bold.",
                count=int(near.sum()),
            )
        )
    elif good.sum() < 5:
        findings.append(
            Finding(
                severity="warning",
                code="poor-at-limit",
                message=f"{name}Of {int(near.sum())} episodes near the limit, {int(good.sum())} earn a good reward.",
                advice="Asked for a good reward at that cost, a policy has hardly seen how. Log better behaviors"
                " there.",
                count=int(good.sum()),
            )
        )
    if under.all():
        findings.append(
            Finding(
                severity="note",
                code="none-above-limit",
                message=f"{name}No episode exceeds the limit {limit:g}; the costliest costs {costs.max():.4g}.",
                advice="A policy cannot learn what goes too far; bold targets are outside the data.",
                count=0,
            )
        )
    return findings


def _frontier(rewards: np.ndarray, costs: np.ndarray, limit: float, name: str) -> list[Finding]:
    """Tell if paying more hardly earns more: then any careful target will do, and methods cannot be told apart."""
    careful = costs <= 0.25 * limit
    span = rewards.max() - rewards.min()
    if not careful.any() or span == 0 or rewards.max() - rewards[careful].max() > _FLAT * span:
        return []
    return [
        Finding(
            severity="note",
            code="flat-frontier",
            message=f"{name}Episodes that cost at most {0.25 * limit:g} earn up to {rewards[careful].max():.4g}, all"
            f" up to {rewards.max():.4g}: more cost hardly earns more.",
            advice="Good news for a user; for judging methods take data where caution has a price.",
        )
    ]
