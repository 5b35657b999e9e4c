"""Show the results of a contest: tables on standard output, a page and the numbers in a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HEADINGS = ("contestant", "what", "median", "min - max", "ratio")


def write(results: dict[str, Any], directory: Path) -> None:
    """Write optimizer.json and optimizer.md."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "optimizer.json").write_text(json.dumps(results, indent=2) + "\n")
    (directory / "optimizer.md").write_text(page(results))


def show(results: dict[str, Any]) -> None:
    """Print one table per number of candidates, then the goals."""
    console = Console()
    for size in results["sizes"]:
        table = Table(title=f"{size['candidates']:,} candidates", caption=found(size))
        for heading in HEADINGS:
            table.add_column(heading, justify="left" if heading in HEADINGS[:2] else "right")
        for row in size["rows"]:
            table.add_row(*cells(row))
        console.print(table)
    for line in results["goals"]:
        console.print(line)


def page(results: dict[str, Any]) -> str:
    """Return the results in Markdown."""
    versions = [f"{name}: {pairs(values)}" for name, values in results["versions"].items()]
    lines = [f"# One ask + tell with {results['observations']} observations", ""]
    lines += ["Made by `make bench`.", "", *results["how"], ""]
    lines += [f"{results['cpu']}, {results['system']}, one thread. {'; '.join(versions)}."]
    for size in results["sizes"]:
        lines += ["", f"## {size['candidates']:,} candidates", "", found(size), ""]
        lines += ["| " + " | ".join(HEADINGS) + " |", "|---|---|---:|---:|---:|"]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in size["rows"]]
    if results["goals"]:
        lines += ["", "## Goals", "", *(f"- {line}" for line in results["goals"])]
    return "\n".join(lines) + "\n"


def found(size: dict[str, Any]) -> str:
    """Return what the contestants found, for instance how many candidates each holds for safe."""
    return "; ".join(f"{name}: {pairs(facts)}" for name, facts in size["facts"].items() if facts)


def pairs(values: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in values.items()
    )


def cells(row: dict[str, Any]) -> list[str]:
    """Return a row as it is shown; what is extrapolated is marked by ~."""
    about = "~" if row["extrapolated"] else ""
    return [
        row["contestant"],
        row["what"] + (f" ({100 * row['extrapolated']:.1g} %)" if about else ""),
        about + duration(row["median"]),
        span(row["min"], row["max"]),
        about + times(row["ratio"]) if row["ratio"] else "",
    ]


def times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def span(low: float, high: float) -> str:
    """Return a range of times, with the unit once where both ends have the same."""
    first, unit = duration(low).split()
    last = duration(high)
    return f"{first} - {last}" if last.split()[1] == unit else f"{first} {unit} - {last}"


def duration(seconds: float) -> str:
    """Return a time with three digits, in the unit in which it reads well."""
    for unit, scale, least in (("h", 3600, 7200), ("min", 60, 120), ("s", 1, 1), ("ms", 1e-3, 0)):
        if seconds >= least:
            return f"{seconds / scale:.3g} {unit}"
    raise ValueError(f"A duration is at least 0; got {seconds}.")
