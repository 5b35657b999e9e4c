"""Tables of the page: targets and trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lifesafe.journal.events import Point
from lifesafe.journal.history import Tried
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.wording import number
from lifesafe.safety.choice import forecasts

_MOST_TARGETS = 15  # targets in their table


@dataclass(frozen=True)
class TextTable:
    """A table of texts."""

    header: list[str]
    rows: list[list[str]]
    words: tuple[int, ...]
    """Columns that hold words; all others hold numbers, to the right."""
    notes: tuple[str, ...] = ()


def targets_table(reading: Reading) -> TextTable:
    """Return the tried targets that earn most, those that may be served first, and what was left out."""
    own, servable = reading.beliefs.own, {each.point for each in reading.fit}
    first = None if reading.chosen is None else reading.chosen.point
    order = sorted(own, key=lambda point: (point != first, point not in servable, -float(own[point].means[0])))
    shown = tuple(order[:_MOST_TARGETS])
    header = ["target", "status", "episodes", "mean reward"]
    for name in reading.names[1:]:
        header += [f"mean {name}", "by the model, median to 95\N{NO-BREAK SPACE}%", "limit"]
    risky = not all(reading.problem.sure)
    rows = []
    for point, forecast in zip(shown, forecasts(reading.beliefs, shown) if shown else (), strict=True):
        means = own[point].means.tolist()
        status = _status(reading, point, may_be_served=point in servable)
        cells = [reading.text(point), status, f"{own[point].episodes:,}", number(means[0])]
        for mean, (median, upper), limit in zip(means[1:], forecast.costs, reading.problem.limits, strict=True):
            believed = f"{number(median)} to {number(upper)}" if upper else "–"
            cells += [number(mean), believed, number(limit)]
        rows.append([*cells, *([number(forecast.risk, 2)] if risky else [])])
    left = len(order) - len(shown)
    notes = (f"{left} further targets that earn less or may not be served are left out.",) if left else ()
    return TextTable([*header, *(["risk above a limit"] if risky else [])], rows, (0, 1), notes)


def trials_table(reading: Reading) -> TextTable:
    """Return all trials, those without episodes too."""
    names, charged, trials = reading.names, reading.charges, list(reading.history.trials.values())
    several = any(scout_of(each) for each in trials)
    header = ["trial", "stage", "center", *(["scout"] if several else []), "episodes", "mean reward"]
    for name in names[1:]:
        header += [f"mean {name}", *(["center / scout"] if several else []), "limit"]
    header += ["risk", "used so far"] if charged else []
    spent = dict(reading.spent_after)
    rows = []
    for tried in trials:
        scout = scout_of(tried)
        cells = [str(tried.number), tried.asked.stage, reading.text(tried.center)]
        cells += ["–" if scout is None else reading.text(scout)] if several else []
        cells += [str(tried.was_told), *_means(reading, tried, several=several)]
        cells += [number(tried.asked.charge, 2), number(spent[tried.number], 2)] if charged else []
        rows.append([*cells, _result(reading, tried)])
    return TextTable([*header, "result"], rows, (1, 2, *((3,) if several else ()), len(header)))


def _status(reading: Reading, point: Point, *, may_be_served: bool) -> str:
    """Return what may be done with a target, in a few words."""
    beliefs, serving = reading.beliefs, reading.history.serving
    if point in beliefs.withdrawn and point not in beliefs.admitted:
        return "withdrawn"
    bet = beliefs.bets.get(point)
    if bet is not None:  # only the promise "total" has bets
        told = f"{'certified' if bet.certified else 'under test'} at level {number(bet.level, 2)}"
    elif point in beliefs.paid:
        told = "paid"
    else:
        told = "not paid" if reading.problem.promise == "trial" else "not certified"
    if serving is not None and serving.target == point:
        return f"being served, {told}"
    if reading.chosen is not None and point == reading.chosen.point:
        return f"to be operated, {told}"
    return f"{told}, may be served" if may_be_served else told


def _means(reading: Reading, tried: Tried, *, several: bool) -> Iterator[str]:
    """Return the cells of a trial with its mean returns."""
    episodes = tried.episodes
    known = len(episodes) > 0
    halves = reading.doubt(episodes) if known else np.zeros(1 + len(tried.limits))
    yield number(float(episodes[:, 0].mean()), 4) if known else "–"
    for k, limit in enumerate(tried.limits):
        costs = episodes[:, 1 + k]
        yield f"{number(float(costs.mean()))} ± {number(float(halves[1 + k]), 2)}" if known else "–"
        if several:
            own = (episodes_of(tried, which)[:, 1 + k] for which in (0, 1))
            yield " / ".join(number(float(each.mean())) if len(each) else "–" for each in own)
        yield number(limit)


def _result(reading: Reading, tried: Tried) -> str:
    if tried.dropped:
        return "dropped, never run"
    if not tried.told_at:
        return "under way"
    if tried.retracted is not None:
        return "retracted, told anew" if tried.told else "retracted"
    if tried.number in reading.exceeded:
        return "clearly above"
    if (tried.mean_costs > tried.limits).any():
        if tried.asked.stage not in ("start", "search"):
            return "above, paid by the account"
        sure = (tried.episodes - reading.doubt(tried.episodes)).mean(axis=0)[1:] > np.array(tried.limits)
        return "above" if sure.any() else "above, not certain"
    early = len(tried.episodes) < len(tried.asked.tickets)
    return "kept, ended early" if early else "kept"
