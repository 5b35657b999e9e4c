"""A whole document about some results: the table, and what it comes to, as counts and as one number over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lifesafe.console.tables import Table
from lifesafe.lab.benchmark.published import SOURCE, published_for
from lifesafe.lab.benchmark.results import Cells, Row
from lifesafe.lab.benchmark.statistics import aggregates
from lifesafe.lab.benchmark.tables import Format, csv_text, in_columns, table_text
from lifesafe.lab.methods import title

_HEADINGS = {"md": f"# {SOURCE}\n\n", "tex": f"% {SOURCE}\n"}


@dataclass(frozen=True)
class Section:
    """A small table, and what is to be known to read it."""

    table: Table
    note: str


def summary(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return, for each method, in how many cells it is safe and the best of the safe, and what its search took."""
    table = Cells.of(rows)
    counts: dict[str, dict[str, int]] = {}
    for method in in_columns(table.methods):
        cells = {key: cell for key, cell in table.cells.items() if key.method == method}
        of_method = [row for row in rows if row.method == method]
        counts[method] = {
            "cells": len(cells),
            "safe": sum(cell.safe for cell in cells.values()),
            "best safe": sum(method in table.best(key.task, key.limit) for key in cells),
            "idle seeds": sum(cell.idle for cell in cells.values()),
            "trials": sum(row.trials for row in of_method),
            "trials above the limit": sum(row.violations for row in of_method),
            "clearly above": sum(row.clear_violations for row in of_method),
            "online episodes": sum(row.online_episodes for row in of_method),
        }
    return counts


def sections(rows: Sequence[Row]) -> list[Section]:
    """Return the summary in words: the counts, and the means over everything that was run."""
    counts, found = summary(rows), aggregates(rows)
    named = {method: title(method) for method in counts}
    heading = ["", *next(iter(counts.values()))]
    overall = [
        [named[method], *map(str, (each.reward, each.cost, each.safe, each.runs, each.idle))]
        for method in counts
        if (each := found.get(method)) is not None
    ]
    measures = ["reward, middle half", "cost / limit, middle half", "runs within the limit", "runs", "idle"]
    return [
        Section(
            Table(heading, [[named[method], *map(str, values.values())] for method, values in counts.items()]),
            "A cell is a task under a limit. Trials, all on the system, are above the limit by the mean of their"
            f" episodes, and clearly so by more than two standard errors.{_promises(rows)}",
        ),
        Section(
            Table(["", *measures], overall),
            "Over all tasks, limits and seeds that a method was run on, with 95 % bootstrap intervals where there are"
            " several seeds. Idle runs count as within the limit, and are left out of the means."
            + ("" if _same_cells(rows) else " Methods were run on different cells, so these do not compare directly."),
        ),
    ]


def document(rows: Sequence[Row], form: Format, *, published: bool = False) -> str:
    """Return everything about some rows as one text, the same for the same rows.

    In Markdown the summary follows the table; LaTeX and CSV hold the table alone.

    Args:
        rows: The results.
        form: Markdown, LaTeX or CSV.
        published: Whether the paper's numbers for these tasks and limits follow.
    """
    cells = Cells.of(rows)
    if form == "csv":
        return csv_text({"here": cells} | ({"paper": published_for(cells)} if published else {}))
    parts = [table_text(cells, form)]
    if form == "md":
        parts.append("\n".join(["## Summary", "", *(f"{s.table.markdown()}\n\n{s.note}\n" for s in sections(rows))]))
    if published:
        parts.append(_HEADINGS[form] + table_text(published_for(cells), form))
    return "\n".join(parts)


def _promises(rows: Sequence[Row]) -> str:
    """Return what the searches promised, if the rows say so."""
    words = {
        "trial": " PLS promised that no trial's mean cost exceeds the limit, under its model.",
        "total": " PLS promised that what was spent never exceeds what was allowed; single trials may cost more.",
    }
    old = " PLS is version 0.1's search where a row names no promise."
    found = {row.promise for row in rows if row.trials}
    return "".join(text for promise, text in {**words, "": old}.items() if promise in found)


def _same_cells(rows: Sequence[Row]) -> bool:
    cells: dict[str, set[tuple[str, float]]] = {}
    for row in rows:
        cells.setdefault(row.method, set()).add((row.task, row.limit))
    first, *others = cells.values()
    return all(each == first for each in others)
