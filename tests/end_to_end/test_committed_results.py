"""Results in benchmarks/results are whole, and their tables are what their rows give, byte for byte."""

from pathlib import Path

import pytest

from lifesafe.cli import main
from lifesafe.lab.benchmark.results import ROWS

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PUBLISHED = "table-published"


def is_comparison(directory: Path) -> bool:
    """Return whether a directory holds results of a suite, or a part of such."""
    return directory.name.startswith("bench-") or (directory / ROWS).exists() or bool([*directory.glob("table*.*")])


def problems(directory: Path, scratch: Path) -> list[str]:
    """Return what is missing from the results of a suite, and which tables are not those of the rows."""
    found = [f"{name} is missing" for name in ("README.md", "table.md") if not (directory / name).exists()]
    if not [*(directory / ROWS).glob("*.json")]:
        return [*found, f"{ROWS}/ holds no rows"]
    for path in sorted(directory.glob("table*.*")):
        again = scratch / path.name
        more = ["--published"] if path.stem == PUBLISHED else []
        options = ["--format", path.suffix[1:], "--out", str(again), *more]
        if path.stem not in ("table", PUBLISHED) or main(["bench", "table", str(directory), *options]) != 0:
            found.append(f"{path.name} is no table that `lifesafe bench table` makes")
        elif again.read_bytes() != path.read_bytes():
            found.append(f"{path.name} is not the table of the rows")
    return found


@pytest.mark.parametrize("directory", sorted(path for path in RESULTS.iterdir() if path.is_dir()), ids=lambda p: p.name)
def test_committed_results_are_whole_and_their_tables_those_of_their_rows(directory: Path, tmp_path: Path) -> None:
    assert not is_comparison(directory) or problems(directory, tmp_path) == []
