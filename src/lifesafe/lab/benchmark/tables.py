"""Tables of results: text that is the same for the same rows, whoever makes it.

A cell is mean and standard deviation over seeds of the normalized reward and of the cost as a share of its limit, up to
1 of which is safe. Bold is the best reward of those that are safe; what is unsafe is marked.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lifesafe.lab.benchmark.results import Cell, Cells, Key
from lifesafe.lab.methods import METHODS, PLS, title

Format = Literal["md", "tex", "csv"]

METHOD_COLUMNS = (*METHODS, PLS)
"""Methods in the order of columns: ours last."""


@dataclass(frozen=True)
class Style:
    """How a format writes a number that stands out."""

    best: Callable[[str], str]
    unsafe: Callable[[str], str]
    missing: str


_STYLES = {
    "md": Style(lambda text: f"**{text}**", lambda text: f"{text} ✗", "–"),
    "tex": Style(lambda text: rf"\textbf{{{text}}}", lambda text: rf"\textcolor{{red}}{{{text}}}", "--"),
}


def table_text(table: Cells, form: Format) -> str:
    """Return a table as text."""
    if form == "csv":
        return csv_text({"here": table})
    return _markdown(table) if form == "md" else _latex(table)


def csv_text(tables: Mapping[str, Cells]) -> str:
    """Return the cells of some tables as CSV with one heading; a column says which table each is of."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    numbers = ("reward", "reward_std", "cost", "cost_std")
    writer.writerow(["source", "limit", "task", "method", *numbers, "seeds", "idle", "verdict"])
    for source, table in tables.items():
        writer.writerows([source, *line] for line in _csv_lines(table))
    return stream.getvalue()


def in_columns(methods: Iterable[str]) -> list[str]:
    """Return methods in the order of columns."""
    return sorted(methods, key=_column)


def _column(method: str) -> tuple[int, str]:
    return (METHOD_COLUMNS.index(method) if method in METHOD_COLUMNS else len(METHOD_COLUMNS), method)


def _words(table: Cells, task: str, limit: float, style: Style) -> list[tuple[str, str]]:
    """Return reward and cost of every method, as words."""
    best = table.best(task, limit)
    words = []
    for method in in_columns(table.methods):
        cell = table.cells.get(Key(task, method, limit))
        if cell is None or not cell.seeds:
            words.append((style.missing, style.missing))
            continue
        reward, cost = _pair(cell.reward, cell.reward_deviation, cell), _pair(cell.cost, cell.cost_deviation, cell)
        reward = style.best(reward) if method in best else reward
        reward += f" ({cell.seeds} of {cell.seeds + cell.idle})" if cell.idle else ""
        words.append((reward, cost) if cell.safe else (reward, style.unsafe(cost)))
    return words


def _pair(mean: float, deviation: float, cell: Cell) -> str:
    shown = f"{round(mean, 2) + 0.0:.2f}"  # a tiny loss is 0.00, not -0.00
    return f"{shown} ± {deviation:.2f}" if cell.seeds > 1 else shown


def _markdown(table: Cells) -> str:
    names = [title(method) for method in in_columns(table.methods)]
    lines = []
    for limit in table.limits:
        lines += [f"## Limit {limit:g}", "", f"| task | | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
        for task in table.tasks:
            words = _words(table, task, limit, _STYLES["md"])
            lines.append(f"| {task} | reward | {' | '.join(reward for reward, _ in words)} |")
            lines.append(f"| | cost | {' | '.join(cost for _, cost in words)} |")
        lines.append("")
    lines += [_legend(table), ""]
    if table.data:
        lines += ["Data:", "", *(f"- {line}" for line in _data(table)), ""]
    return "\n".join(lines)


def _legend(table: Cells) -> str:
    return (
        "Reward between the extremes of the public dataset, cost as a share of the limit: mean ± standard deviation"
        f" over {_seeds(table)}. ✗: above the limit. Bold: the best reward of those that are safe."
        f" –: not run, or nothing was known to be safe.{_partly_idle(table)}"
    )


def _latex(table: Cells) -> str:
    methods = in_columns(table.methods)
    names = " & ".join(_tex(title(method)) for method in methods)
    lines = [r"% needs booktabs and xcolor", rf"\begin{{tabular}}{{ll{'c' * len(methods)}}}"]
    for limit in table.limits:
        lines += [r"\toprule", rf"\multicolumn{{{2 + len(methods)}}}{{l}}{{limit {limit:g}}} \\", r"\midrule"]
        lines += [rf"Task & Metric & {names} \\", r"\midrule"]
        for task in table.tasks:
            words = [
                (reward.replace("±", r"$\pm$"), cost.replace("±", r"$\pm$"))
                for reward, cost in _words(table, task, limit, _STYLES["tex"])
            ]
            lines.append(rf"{_tex(task)} & reward & {' & '.join(reward for reward, _ in words)} \\")
            lines.append(rf" & cost & {' & '.join(cost for _, cost in words)} \\")
    notes = [f"% Data of {line}" for line in _data(table)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes, ""])


def _csv_lines(table: Cells) -> Iterator[list[object]]:
    for limit in table.limits:
        for task in table.tasks:
            for method in in_columns(table.methods):
                cell = table.cells.get(Key(task, method, limit))
                if cell is None:
                    continue
                numbers = (cell.reward, cell.reward_deviation, cell.cost, cell.cost_deviation)
                written = ["" if math.isnan(number) else f"{number:.4f}" for number in numbers]
                verdict = _verdict(table, task, limit, method)
                yield [f"{limit:g}", task, method, *written, cell.seeds, cell.idle, verdict]


def _verdict(table: Cells, task: str, limit: float, method: str) -> str:
    cell = table.cells[Key(task, method, limit)]
    if not cell.seeds:
        return "idle"
    if not cell.safe:
        return "unsafe"
    return "best safe" if method in table.best(task, limit) else "safe"


def _seeds(table: Cells) -> str:
    counts = sorted({cell.seeds + cell.idle for cell in table.cells.values()})
    return (
        f"{counts[0]} seed" + ("s" if counts[0] > 1 else "")
        if len(counts) == 1
        else f"{counts[0]} to {counts[-1]} seeds"
    )


def _partly_idle(table: Cells) -> str:
    """Return what a number of seeds beside a reward means, if there is any."""
    if not any(cell.seeds and cell.idle for cell in table.cells.values()):
        return ""
    return " In brackets: of so many seeds; with the others nothing was known to be safe, and nothing was run."


def _data(table: Cells) -> list[str]:
    """Return what the methods learned from, one line for each task."""
    return [f"{task}: {' and '.join(table.data[task])}" for task in table.tasks if task in table.data]


def _tex(text: str) -> str:
    return text.replace("_", r"\_").replace("&", r"\&")
