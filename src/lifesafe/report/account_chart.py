"""The account of the promise "total": what served episodes have saved, and who spent it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float

from lifesafe.report.reading import Reading, Saved
from lifesafe.report.svg import Chart, both, legend, padded
from lifesafe.report.wording import number, plural

POINTS = 600
"""Points of the line; longer runs are drawn in steps of several episodes each."""
_STAGES = ("start", "base", "newcomer", "test", "operation")


def account_figure(reading: Reading) -> tuple[str, list[str]]:
    """Return the chart of every account with its legend, and what the reader must know of how it is drawn."""
    saved = reading.saved
    charts = "".join(both(partial(_account, reading, k)) for k in range(len(reading.problem.limits)))
    found = {each.stage for each in saved}
    items = [("line", "running", "the account holds"), ("line", "price", "price of an episode of a newcomer")]
    items += [("band", f"of-{stage}", stage) for stage in _STAGES if stage in found]
    step = _step(saved)
    notes = [f"Drawn in steps of {step} episodes, of each the lowest."] if step > 1 else []
    return charts + legend(items), notes


def _account(reading: Reading, cost: int, width: int) -> str:
    saved, name = reading.saved, reading.names[1 + cost]
    account = reading.beliefs.account
    assert account is not None
    xs, ys = path(saved, cost)
    total = sum(len(each.holds) for each in saved)
    lowest = float(ys.min(initial=0.0))
    chart = Chart(
        f"Account of {name} over {plural(total, 'episode')}: it holds {number(account.holds[cost])} in the end, and"
        f" held {number(lowest)} at the least; an episode of a newcomer has the price {number(account.prices[cost])}.",
        width=width, height=270, x=(0.0, max(total, 1) + 0.5), y=padded([0.0, *ys, account.capacity[cost]]),
        name=f"account-{cost}-{width}",
    )  # fmt: skip
    for stage in _STAGES:
        chart.shade(_spans(saved, stage), f"of-{stage}")
    chart.axes("episode", f"{name} saved", whole=True)
    chart.horizontal(0.0, "zero")
    for start, stop, price in _prices(saved, cost):
        chart.line([start, stop], [price, price], "price")
    chart.line([0.0, *xs], [0.0, *ys], "running")
    return chart.svg()


def path(saved: Sequence[Saved], cost: int) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return the episodes, and what one account held after each; of long runs the lowest of every step."""
    if not saved:
        return np.zeros(0), np.zeros(0)
    values, step = np.concatenate([each.holds[:, cost] for each in saved]), _step(saved)
    starts = np.arange(0, len(values), step)
    return np.minimum(starts + step, len(values)).astype(np.float64), np.minimum.reduceat(values, starts)


def _step(saved: Sequence[Saved]) -> int:
    return max(math.ceil(sum(len(each.holds) for each in saved) / POINTS), 1)


def _spans(saved: Sequence[Saved], stage: str) -> Iterator[tuple[float, float]]:
    """Return where episodes of a stage were run, neighbors together."""
    begun: float | None = None
    for each in saved:
        if each.stage == stage and begun is None:
            begun = each.first - 0.5
        elif each.stage != stage and begun is not None:
            yield begun, each.first - 0.5
            begun = None
    if begun is not None:
        yield begun, saved[-1].first + len(saved[-1].holds) - 0.5


def _prices(saved: Sequence[Saved], cost: int) -> Iterator[tuple[float, float, float]]:
    """Return where which price held, neighbors together."""
    begun = 0.5
    for i, each in enumerate(saved):
        last = i + 1 == len(saved)
        if last or saved[i + 1].prices[cost] != each.prices[cost]:
            stop = each.first + len(each.holds) - 0.5
            yield begun, stop, each.prices[cost]
            begun = stop
