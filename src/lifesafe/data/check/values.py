"""What is odd about the values of single columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from lifesafe.data.check.finding import Finding, found
from lifesafe.data.check.table import Columns, blocks

_FAR_OUTSIDE = 0.01  # share of the actions outside [-1, 1] from which on they were not meant for it
_SATURATED = 0.5  # share of the actions at the bounds; PPO's Gaussian on Hopper has 0.13
_SCALES = 1e4  # ratio of deviations; float32 has seven digits
_HUGE = 1e6
_ROUNDING = 1e-5


def check_finite(table: Columns) -> Iterator[Finding]:
    """Look for NaN and infinities, also those that float32 would make of large numbers."""
    for name in ("observations", "actions", "rewards", "costs", "next_observations"):
        column = getattr(table, name)
        if column is None:
            continue
        bad = np.zeros(len(table), dtype=bool)
        nan = 0
        for rows in blocks(len(table)):
            with np.errstate(over="ignore", invalid="ignore"):
                block = column[rows].astype(np.float32).reshape(len(bad[rows]), -1)
            nan += int(np.isnan(block).sum())
            bad[rows] = ~np.isfinite(block).all(axis=1)
        if bad.any():
            message = f"{name} holds NaN or infinities in {bad.sum()} of {len(table)} rows ({nan} NaN)."
            advice = "Find out where they come from, and leave out those episodes. The values were not checked further."
            yield found("error", "nonfinite", message, advice, bad)


def check_values(table: Columns, largest_costs: Sequence[float] | None) -> Iterator[Finding]:
    """Look at each column by itself; all values are finite."""
    yield from _observations(Spread.of(table.observations))
    yield from _actions(table)
    low, high = float(table.rewards.min()), float(table.rewards.max())
    if low == high:
        advice = "No behavior is better than another, so there is nothing to learn. Were they logged?"
        yield found("warning", "constant-reward", f"All rewards are {low:g}.", advice)
    yield from _costs(table, largest_costs)


@dataclass(frozen=True)
class Spread:
    """Range and standard deviation of every number of a row."""

    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    sd: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, column: Shaped[np.ndarray, "n d"]) -> Spread:
        shift = column[0].astype(np.float64)  # so that the sums do not cancel
        low, high = shift.copy(), shift.copy()
        total, square = np.zeros_like(shift), np.zeros_like(shift)
        for rows in blocks(len(column)):
            block = column[rows].astype(np.float64)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            block -= shift
            total += block.sum(axis=0)
            square += np.einsum("nd,nd->d", block, block)
        variance = square / len(column) - (total / len(column)) ** 2
        return cls(low, high, np.sqrt(np.maximum(variance, 0.0)))


def _observations(spread: Spread) -> Iterator[Finding]:
    constant = np.flatnonzero(spread.low == spread.high)
    if len(constant):
        message = f"{len(constant)} of {len(spread.low)} observations never change: {_listed(constant)}."
        advice = "They teach nothing. If they can change on the real system, the data do not cover that."
        yield found("note", "constant-observation", message, advice, len(constant))
    moving = spread.sd[spread.low != spread.high]
    if len(moving) and moving.max() > _SCALES * moving.min():
        message = f"The deviations of the observations reach from {moving.min():.3g} to {moving.max():.3g}."
        yield found("note", "scales", message, "Keep the normalization of observations on, or scale them yourself.")
    largest = max(np.abs(spread.low).max(), np.abs(spread.high).max())
    if largest > _HUGE:
        advice = "Look for counters, clocks or markers such as 1e9 for 'none'; a network needs numbers near 1."
        yield found("warning", "huge", f"Observations reach {largest:.3g} in size.", advice)


def _actions(table: Columns) -> Iterator[Finding]:
    outside = np.zeros(len(table), dtype=bool)
    saturated = 0
    for rows in blocks(len(table)):
        size = np.abs(table.actions[rows].astype(np.float32))
        outside[rows] = (size > 1 + _ROUNDING).any(axis=1)
        saturated += int((size > 1 - 1e-3).sum())
    spread = Spread.of(table.actions)
    if outside.any():
        share = float(outside.mean())
        message = (
            f"Actions lie outside [-1, 1] in {outside.sum()} rows ({share:.1%}); they range from"
            f" {spread.low.min():.4g} to {spread.high.max():.4g}."
        )
        advice = (
            "Scale them by the bounds of the action space, or store what the environment made of them: a policy is"
            " never able to act so."
        )
        yield found("error" if share > _FAR_OUTSIDE else "warning", "action-range", message, advice, outside)
    elif saturated > _SATURATED * table.actions.size:
        message = f"{saturated / table.actions.size:.0%} of the actions lie at -1 or 1."
        advice = "A Gaussian policy acts in between; if that matters, look at how well it imitates."
        yield found("note", "saturated", message, advice, saturated)
    constant = np.flatnonzero(spread.low == spread.high)
    if len(constant):
        message = f"{len(constant)} of {len(spread.low)} actions never change: {_listed(constant)}."
        advice = "What they do cannot be learned. Leave them out, or log behaviors that use them."
        yield found("warning", "constant-action", message, advice, len(constant))


def _costs(table: Columns, largest_costs: Sequence[float] | None) -> Iterator[Finding]:
    number = table.costs.shape[1]
    if largest_costs is not None and len(largest_costs) != number:
        largest_costs = None  # of another task, which is said elsewhere
    for index in range(number):
        cost, name = table.costs[:, index], f"cost {index + 1}" if number > 1 else "costs"
        negative = cost < 0
        if negative.any():
            message = f"{name}: {negative.sum()} rows are negative, down to {float(cost.min()):.4g}."
            advice = "A limit bounds the sum of costs from above; shift them, or count them as rewards."
            yield found("error", "negative-cost", message, advice, negative)
        if largest_costs is not None and (above := cost > largest_costs[index] * (1 + _ROUNDING)).any():
            message = (
                f"{name}: {above.sum()} rows exceed {largest_costs[index]:g}, the largest cost of one step; the largest"
                f" is {float(cost.max()):.4g}."
            )
            advice = "The guarantee needs that bound. Clip them, or give the true largest cost."
            yield found("error", "large-cost", message, advice, above)
        if not cost.any():
            advice = "A policy cannot learn what to avoid. Were costs logged? Gymnasium keeps them in info['cost']."
            yield found("warning", "no-cost", f"{name}: nothing ever cost anything.", advice)


def _listed(indices: np.ndarray) -> str:
    text = ", ".join(map(str, indices[:10].tolist()))
    return text if len(indices) <= 10 else f"{text}, ..."
