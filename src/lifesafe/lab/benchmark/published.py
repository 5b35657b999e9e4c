"""The paper's own numbers, to stand beside ours."""

from __future__ import annotations

import csv
from importlib.resources import files

from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.results import Cell, Cells, Key

SOURCE = "Wachi et al. 2025, Tables 1 and 3: 5 seeds, public data"


def published() -> Cells:
    """Return the numbers of Wachi et al. 2025: nine tasks, seven methods, limits 20 and 40, five seeds, public data."""
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    found: dict[Key, dict[str, tuple[float, float]]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        key = Key(row["task"], row["algorithm"].lower(), float(row["threshold"]))
        found.setdefault(key, {})[row["metric"]] = float(row["mean"]), float(row["std"])
    cells = {key: Cell(*values["reward"], *values["cost"], seeds=5) for key, values in found.items()}
    return Cells(
        tasks=tuple(dict.fromkeys(key.task for key in cells)),
        methods=tuple(dict.fromkeys(key.method for key in cells)),
        limits=tuple(sorted({key.limit for key in cells})),
        cells=cells,
    )


def published_for(table: Cells) -> Cells:
    """Return the published cells of the tasks and limits of a table.

    Raises:
        ConfigError: If there are none.
    """
    paper = published()
    beside = Cells(
        tasks=tuple(task for task in table.tasks if task in paper.tasks),
        methods=paper.methods,
        limits=tuple(limit for limit in table.limits if limit in paper.limits),
        cells={key: cell for key, cell in paper.cells.items() if key.task in table.tasks and key.limit in table.limits},
    )
    if not beside.cells:
        raise ConfigError(
            f"The paper has no numbers for {', '.join(table.tasks)} under {', '.join(f'{b:g}' for b in table.limits)};"
            f" its tasks are {', '.join(paper.tasks)}, its limits 20 and 40."
        )
    return beside
