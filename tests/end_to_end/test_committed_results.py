"""Results in benchmarks/results are whole, and their tables are what their rows give, byte for byte."""

from dataclasses import replace
from pathlib import Path

import pytest

from lifesafe.cli import main
from lifesafe.lab.benchmark.results import ROWS, write_rows
from small_results import ROW

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


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    """Results as they are committed."""
    directory = tmp_path / "bench-made-up"
    write_rows(directory, "one", [ROW])
    write_rows(directory, "two", [replace(ROW, seed=1, cost=30.0)])
    (directory / "README.md").write_text("The commands.\n")
    for name, more in (("table.md", []), ("table.tex", ["--format", "tex"]), (f"{PUBLISHED}.md", ["--published"])):
        assert main(["bench", "table", str(directory), "--out", str(directory / name), *more]) == 0
    return directory


def test_results_that_are_whole_are_accepted(comparison: Path, tmp_path: Path) -> None:
    assert is_comparison(comparison)
    assert problems(comparison, tmp_path) == []


@pytest.mark.parametrize("name", ["README.md", "table.md"])
def test_a_missing_file_is_noticed(comparison: Path, tmp_path: Path, name: str) -> None:
    (comparison / name).unlink()
    assert problems(comparison, tmp_path) == [f"{name} is missing"]


def test_missing_rows_are_noticed(comparison: Path, tmp_path: Path) -> None:
    for path in (comparison / ROWS).iterdir():
        path.unlink()
    assert is_comparison(comparison)
    assert problems(comparison, tmp_path) == ["rows/ holds no rows"]


def test_a_row_more_and_a_changed_digit_are_noticed(comparison: Path, tmp_path: Path) -> None:
    write_rows(comparison, "three", [replace(ROW, seed=2, cost=12.0)])
    assert len(problems(comparison, tmp_path)) == 3  # all three tables
    (comparison / ROWS / "three.json").unlink()
    table = comparison / "table.md"
    table.write_text(table.read_text().replace("1.00", "1.01"))
    assert problems(comparison, tmp_path) == ["table.md is not the table of the rows"]


def test_a_table_of_another_name_is_noticed(comparison: Path, tmp_path: Path) -> None:
    (comparison / "table-old.md").write_text("")
    assert problems(comparison, tmp_path) == ["table-old.md is no table that `lifesafe bench table` makes"]
