"""The account of the promise "total": what served episodes have saved, and who spent it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from lifesafe.console.prompts import plural
from lifesafe.report.reading import Reading, Saved
from lifesafe.report.svg import Chart, Figure, Sign, padded
from lifesafe.report.wording import number

_V = TypeVar("_V")
_POINTS = 600  # of the line; longer runs are drawn in steps of several episodes each
_STAGES = ("start", "base", "newcomer", "test", "operation")


def account_figure(reading: Reading) -> Figure:
    """Return every account after each episode."""
    found, step = {each.stage for each in reading.saved}, _step(reading.saved)
    signs = [Sign("line", "running", "the account holds"), Sign("line", "price", "price of an episode of a newcomer")]
    signs += [Sign("band", f"of-{stage}", stage) for stage in _STAGES if stage in found]
    return Figure(
        caption="The account.",
        charts=tuple(partial(_account, reading, k) for k in range(len(reading.problem.limits))),
        legend=tuple(signs),
        notes=(f"Drawn in steps of {step} episodes, of each the lowest.",) if step > 1 else (),
    )


def _account(reading: Reading, cost: int, width: int) -> Chart:
    saved, name, account = reading.saved, reading.names[1 + cost], reading.beliefs.account
    assert account is not None
    xs, ys = path(saved, cost)
    total, lowest = sum(len(each.holds) for each in saved), float(ys.min(initial=0.0))
    chart = Chart(
        f"Account of {name} over {plural(total, 'episode')}: it holds {number(account.holds[cost])} in the end, and"
        f" held {number(lowest)} at the least; an episode of a newcomer has the price {number(account.prices[cost])}.",
        size=(width, 270), x=(0.0, max(total, 1) + 0.5), y=padded([0.0, *ys, account.capacity[cost]]),
        name=f"account-{cost}-{width}",
    )  # fmt: skip
    for stage in _STAGES:
        own = [span for kind, span in _spans(saved, lambda part: part.stage) if kind == stage]
        chart.shade(own, f"of-{stage}")
    chart.axes("episode", f"{name} saved", whole=True)
    chart.horizontal(0.0, "zero")
    for price, span in _spans(saved, lambda part: part.prices[cost]):
        chart.line(span, [price] * 2, "price")
    chart.line([0.0, *xs], [0.0, *ys], "running")
    return chart


def path(saved: Sequence[Saved], cost: int) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return the episodes, and what one account held after each; of long runs the lowest of every step."""
    if not saved:
        return np.zeros(0), np.zeros(0)
    values, step = np.concatenate([each.holds[:, cost] for each in saved]), _step(saved)
    starts = np.arange(0, len(values), step)
    return np.minimum(starts + step, len(values)).astype(np.float64), np.minimum.reduceat(values, starts)


def _step(saved: Sequence[Saved]) -> int:
    return max(math.ceil(sum(len(each.holds) for each in saved) / _POINTS), 1)


def _spans(saved: Sequence[Saved], of: Callable[[Saved], _V]) -> Iterator[tuple[_V, tuple[float, float]]]:
    """Return every value of something with the episodes over which it held, neighbors together."""
    for value, group in groupby(saved, key=of):
        parts = list(group)
        yield value, (parts[0].first - 0.5, parts[-1].first + len(parts[-1].holds) - 0.5)
