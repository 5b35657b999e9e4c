"""Write the tables of README, docs/coverage.md and docs/guarantee.md from outcomes that are on disk.

    .venv/bin/python benchmarks/coverage_pages.py runs/coverage

The directory is the one that `lifesafe theory coverage` fills: one folder for each suite. Only what stands between the
markers of a page is replaced; rows without outcomes are left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lifesafe.lab.coverage.deployment import CoverageRow, Deployment
from lifesafe.lab.coverage.suite import SUITES
from lifesafe.lab.coverage.table import RowSummary, assumption, markdown, summarize_row

ROOT = Path(__file__).resolve().parents[1]
TITLES = {
    "headline": "Headline",
    "default": "Other machines",
    "held-back": "Machines held back: nobody tuned on them",
    "budgets": "What more episodes buy",
}


@dataclass(frozen=True)
class Counted:
    """A row and its outcomes."""

    row: CoverageRow
    outcomes: Sequence[Deployment]

    @property
    def summary(self) -> RowSummary:
        return summarize_row(self.row, self.outcomes)


def counted(directory: Path, suite: str) -> list[Counted]:
    """Return the rows of a suite that have outcomes."""
    found = []
    for row in SUITES[suite][0]:
        path = directory / suite / f"{row.name}.jsonl"
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        plain = [json.loads(line) for line in lines]
        outcomes = [Deployment(**each | {"regrets": tuple(each["regrets"])}) for each in plain]
        if outcomes and row.search == "ours":
            found.append(Counted(row, sorted(outcomes, key=lambda each: each.number)))
    return found


def headline(rows: Sequence[Counted]) -> str:
    """Return the table of README."""
    lines = [
        "| machines | promise | deployments | violated | at most | delta = 0.1 | regret | use | episodes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        row, s = each.row, each.summary
        promise = row.promise if row.stop is None else f"{row.promise}, stop at {row.stop:g} limits"
        broken = f"broken: {assumption(row)}; by {s.exceeded[0]:.0%} of the limit"
        verdict = "kept" if s.verdict == "keeps" else broken if assumption(row) else s.verdict
        cells = (
            f"`{row.family}`", promise, f"{s.deployments}", f"{s.violated:.1%}", f"{s.upper:.1%}", verdict,
            f"{s.regrets[-1]:.2f}", f"{s.use:.2f}", f"{s.episodes:.0f} of {row.episodes}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def broken(rows: Sequence[Counted]) -> str:
    """Return the table of the guarantee: what each broken assumption costs."""
    lines = [
        "| machines | promise | assumption broken | deployments | violated | by, median | held |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        row, s = each.row, each.summary
        if (broken := assumption(row)) is not None and row.stop is None and row.delta == 0.1:
            cells = (
                f"`{row.family}`", row.promise, broken, f"{s.deployments}", f"{s.violated:.0%}",
                f"{s.exceeded[0]:.0%} of the limit", f"{s.held:.0%}",
            )  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def everything(directory: Path) -> str:
    """Return all rows, suite by suite."""
    parts = []
    for suite, title in TITLES.items():
        rows = counted(directory, suite)
        if rows:
            parts.append(f"### {title}\n\n{markdown({each.row: each.outcomes for each in rows})}")
    return "\n".join(parts).rstrip("\n")


def fill(page: Path, marker: str, table: str) -> None:
    """Put a table in place of the first one after a marker."""
    text = page.read_text()
    pattern = rf"(<!-- {marker} -->\n(?:(?!\n\|)[\s\S])*?\n)\|[\s\S]*?\|\n(?!\|)"
    filled, count = re.subn(pattern, lambda match: f"{match[1]}{table}\n", text, count=1)
    assert count == 1, f"{page} has no table after {marker}"
    page.write_text(filled)


def main() -> None:
    """Fill the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outcomes", type=Path, help="directory with a folder for each suite")
    directory = parser.parse_args().outcomes
    head = counted(directory, "headline")
    known = {each.row.family for each in head if each.row.promise == "trial"}
    others = [each for each in counted(directory, "default") if each.row.family not in known]
    fill(ROOT / "README.md", "coverage", headline(head))
    fill(ROOT / "docs" / "guarantee.md", "broken", broken([*head, *others]))
    page = ROOT / "docs" / "coverage.md"
    text = page.read_text()
    first, rest = text.split("<!-- rows -->\n", 1)
    _, last = rest.split("<!-- /rows -->", 1)
    page.write_text(f"{first}<!-- rows -->\n\n{everything(directory)}\n\n<!-- /rows -->{last}")


if __name__ == "__main__":
    main()
