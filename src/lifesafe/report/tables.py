"""Tables of the page: assumptions, targets, trials, targets served, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lifesafe.journal.events import Point
from lifesafe.journal.history import Tried
from lifesafe.report.checks import WORDS, all_checks
from lifesafe.report.operation_chart import service_rows
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.wording import escaped, number
from lifesafe.safety.choice import forecasts

_SIGNS = {"holds": "✓", "quiet": "✓", "doubt": "!", "failed": "✗", "open": "○", "given": "–"}
_MOST_TARGETS = 15  # targets in their table


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, label: str, words: Iterable[int] = ()) -> str:
    """Return a table that scrolls in itself; cells are texts, which are escaped.

    Args:
        header: Names of the columns.
        rows: The cells.
        label: What the table holds, for people who do not see it.
        words: Columns that hold words; all others hold numbers, to the right.
    """
    left = set(words)
    kinds = ["" if i in left else ' class="number"' for i in range(len(header))]
    head = "".join(f'<th scope="col"{kind}>{escaped(name)}</th>' for name, kind in zip(header, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{escaped(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(label)}"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def checks_table(reading: Reading) -> str:
    """Return the assumptions with their checks."""
    rows = "".join(
        f'<tr><th scope="row">{escaped(check.assumption)}</th>'
        f'<td><span class="finding finding-{check.finding}"><span aria-hidden="true">{_SIGNS[check.finding]}</span> '
        f"{escaped(WORDS[check.finding])}</span></td>"
        f'<td>{escaped(check.outcome)}<span class="made">{escaped(check.made)}</span></td></tr>'
        for check in all_checks(reading)
    )
    return (
        '<table class="checks"><thead><tr><th scope="col">It assumes that</th><th scope="col">Finding</th>'
        f'<th scope="col">In this run</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def targets_table(reading: Reading) -> tuple[str, list[str]]:
    """Return the tried targets that earn most, those that may be served first, and what was left out."""
    beliefs = reading.beliefs
    own = beliefs.own
    order = sorted(own, key=lambda point: (point not in _servable(reading), -float(own[point].means[0])))
    order = sorted(order, key=lambda point: reading.chosen is None or point != reading.chosen.point)
    shown = order[:_MOST_TARGETS]
    if not shown:
        return "", []
    header = ["target", "status", "episodes", "mean reward"]
    for name in reading.names[1:]:
        header += [f"mean {name}", "by the model", "limit"]
    if not all(reading.problem.sure):
        header.append("risk")
    rows = []
    for point, forecast in zip(shown, forecasts(beliefs, tuple(shown)), strict=True):
        means = own[point].means.tolist()
        cells = [reading.text(point), _status(reading, point), f"{own[point].episodes:,}"]
        cells.append(number(means[0]))
        for mean, (median, upper), limit in zip(means[1:], forecast.costs, reading.problem.limits, strict=True):
            believed = f"{number(median)} to {number(upper)}" if upper else "–"
            cells += [number(mean), believed, number(limit)]
        if not all(reading.problem.sure):
            cells.append(number(forecast.risk, 2))
        rows.append(cells)
    left = len(order) - len(shown)
    notes = [f"{left} further targets that earn less or may not be served are left out."] if left else []
    return table(header, rows, label="Targets", words=(0, 1)), notes


def trials_table(reading: Reading) -> str:
    """Return all trials."""
    names, problem = reading.names, reading.problem
    several = any(scout_of(each) for each in reading.history.told)
    header = ["trial", "stage", "center", *(["scout"] if several else []), "episodes", "mean reward"]
    for name in names[1:]:
        header += [f"mean {name}", *(["center / scout"] if several else []), "limit"]
    charged = problem.promise == "trial" and not all(problem.sure)
    header += ["charged", "so far"] if charged else []
    header.append("result")
    spent = dict(reading.spent_after)
    rows = []
    for tried in reading.history.told:
        scout = scout_of(tried)
        cells = [str(tried.number), tried.asked.stage, reading.text(tried.center)]
        if several:
            cells.append("–" if scout is None else reading.text(scout))
        cells += [str(tried.was_told), *_means(reading, tried, several=several)]
        if charged:
            cells += [number(tried.asked.charge, 2), number(spent[tried.number], 2)]
        rows.append([*cells, _result(reading, tried)])
    return table(header, rows, label="All trials", words=(1, 2, *([3] if several else []), len(header) - 1))


def services_table(reading: Reading) -> str:
    """Return the targets served in operation."""
    header = [
        "target", "episodes", "why", "mean reward", "mean cost / limit", "silence proves ≤", "level", "ended by",
    ]  # fmt: skip
    return table(header, service_rows(reading), label="Targets served", words=(0, 2, 7))


def settings_tables(reading: Reading) -> Iterator[tuple[str, str]]:
    """Return what the run was begun with: for each part its name and its table."""
    plain = reading.problem.to_plain()
    plain["axes"] = "; ".join(f"{name}: {low:g} to {high:g} {unit}".rstrip() for name, low, high, unit in plain["axes"])
    starts = reading.problem.starts
    plain["starts"] = "; ".join(reading.text(start) for start in starts[:8])
    if reading.problem.targets is not None:
        plain["targets"] = f"{len(reading.problem.targets):,}, and no others"
    yield "Problem", _pairs(plain)
    for name, part in reading.manifest.items():
        yield f"{name} (run.toml)", _pairs(part if isinstance(part, Mapping) else {name: part})


def _servable(reading: Reading) -> set[Point]:
    return {each.point for each in reading.fit}


def _status(reading: Reading, point: Point) -> str:
    """Return what may be done with a target, in a few words."""
    beliefs, serving = reading.beliefs, reading.history.serving
    if point in beliefs.withdrawn and point not in beliefs.admitted:
        return "withdrawn"
    bet = beliefs.bets.get(point)
    if bet is not None and reading.problem.promise == "total":
        word = "certified" if bet.certified else "under test"
        told = f"{word} at level {number(bet.level, 2)}"
    else:
        told = (
            "paid" if point in beliefs.paid else "not paid" if reading.problem.promise == "trial" else "not certified"
        )
    if serving is not None and serving.target == point:
        return f"being served, {told}"
    if reading.chosen is not None and point == reading.chosen.point:
        return f"to be operated, {told}"
    return f"{told}, may be served" if point in _servable(reading) else told


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
    if tried.retracted is not None:
        return "retracted, told anew" if tried.told else "retracted"
    if reading.beliefs.exceeded(tried):
        return "clearly above"
    if (tried.episodes[:, 1:].mean(axis=0) > np.array(tried.limits)).any():
        if tried.asked.stage not in ("start", "search"):
            return "above, paid by the account"
        sure = (tried.episodes - reading.doubt(tried.episodes)).mean(axis=0)[1:] > np.array(tried.limits)
        return "above" if sure.any() else "above, not certain"
    early = len(tried.episodes) < len(tried.asked.tickets)
    return "kept, ended early" if early else "kept"


def _pairs(plain: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escaped(key)}</th><td>{escaped(_shown(value))}</td></tr>' for key, value in _flat(plain)
    )
    return f'<table class="pairs"><tbody>{rows}</tbody></table>'


def _flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_shown(each) for each in value)
    if isinstance(value, float):
        return f"{value:g}"
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)
