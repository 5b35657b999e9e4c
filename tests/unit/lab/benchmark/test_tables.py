"""Tables: what is safe, what is best, and the same text for the same rows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.benchmark.published import published, published_for
from lifesafe.lab.benchmark.results import Cell, Cells, Key, read_rows, write_rows
from lifesafe.lab.benchmark.tables import table_text
from small_results import ROW, ROWS


def test_a_cell_is_mean_and_deviation_over_seeds() -> None:
    cell = Cell.of(ROWS[:2])
    assert (cell.reward, cell.cost) == (pytest.approx(0.55), pytest.approx(0.6))
    assert (cell.reward_deviation, cell.cost_deviation) == (pytest.approx(0.05), pytest.approx(0.1))
    assert (cell.seeds, cell.idle, cell.safe) == (2, 0, True)


def test_a_seed_that_ran_nothing_is_told_apart() -> None:
    cell = Cell.of(ROWS[2:4])
    assert (cell.seeds, cell.idle, cell.reward) == (1, 1, pytest.approx(0.75))
    nothing = Cell.of(ROWS[3:4])
    assert (nothing.seeds, nothing.idle, nothing.safe) == (0, 1, False)


def test_the_best_is_safe() -> None:
    table = Cells.of(ROWS)
    assert not table.cells[Key("CarCircle", "cdt", 20.0)].safe  # 25 on average
    assert table.best("CarCircle", 20.0) == ("pls",)
    assert Cells.of(ROWS[4:]).best("CarCircle", 20.0) == ()


def test_methods_that_earn_just_the_same_are_both_the_best() -> None:
    table = Cells.of([ROW, replace(ROW, method="bc-safe"), replace(ROW, method="bc-all", reward=200.0)])
    assert table.best("CarCircle", 20.0) == ("cpq", "bc-safe")
    assert table_text(table, "md").count("**0.50**") == 2


def test_a_mean_of_just_the_limit_is_safe_whatever_its_parts_round_to() -> None:
    costs = (0.4, 6.9, 52.7)
    assert sum(cost / 20 for cost in costs) / 3 > 1  # which is not what is asked
    assert Cell.of([replace(ROW, cost=cost, seed=seed) for seed, cost in enumerate(costs)]).safe
    assert not Cell.of([replace(ROW, cost=cost, seed=seed) for seed, cost in enumerate((*costs[:2], 52.8))]).safe


def test_markdown_marks_what_is_unsafe_and_what_is_best() -> None:
    text = table_text(Cells.of(ROWS), "md")
    assert "| task | | CDT | CPQ | PLS |" in text
    assert "| CarCircle | reward | 0.90 ± 0.00 | 0.55 ± 0.05 | **0.75** (1 of 2) |" in text
    assert "| | cost | 1.25 ± 0.25 ✗ | 0.60 ± 0.10 | 0.95 |" in text
    assert "In brackets: of so many seeds" in text
    assert "In brackets" not in table_text(published(), "md")


def test_latex_marks_what_is_best_and_what_is_unsafe() -> None:
    tex = table_text(Cells.of(ROWS), "tex")
    assert r"\textbf{0.75}" in tex
    assert r"\textcolor{red}{1.25 $\pm$ 0.25}" in tex


def test_tables_say_what_was_learned_from() -> None:
    known = replace(ROW, data="CarCircle.hdf5", fingerprint="1e6d0ee0c1ed", source="lifesafe data collect <CarCircle>")
    table = Cells.of([known, replace(known, seed=1), replace(ROW, seed=2, fingerprint="77aa77aa77aa")])
    said = "CarCircle: CarCircle.hdf5 1e6d0ee0 (lifesafe data collect <CarCircle>) and the task's own 77aa77aa"
    assert f"\nData:\n\n- {said}\n" in table_text(table, "md")
    assert f"% Data of {said}\n" in table_text(table, "tex")
    assert "Data:" not in table_text(published(), "md")


def test_csv_has_a_verdict_for_every_cell() -> None:
    lines = table_text(Cells.of(ROWS), "csv").splitlines()
    assert lines[1] == "here,20,CarCircle,cdt,0.9000,0.0000,1.2500,0.2500,2,0,unsafe"
    assert lines[2].endswith(",2,0,safe")
    assert lines[3].endswith(",1,1,best safe")


def test_a_tiny_loss_is_written_as_nothing() -> None:
    assert "**0.00**" in table_text(Cells.of([replace(ROW, reward=99.9)]), "md")


def test_the_order_of_rows_does_not_matter() -> None:
    for form in ("md", "tex", "csv"):
        first, second = (table_text(Cells.of(rows), form) for rows in (ROWS, ROWS[::-1]))  # type: ignore[arg-type]
        assert first == second


def test_rows_come_back_from_disk(tmp_path: Path) -> None:
    write_rows(tmp_path, "first", ROWS[:3])
    write_rows(tmp_path, "second", ROWS[3:])
    assert read_rows(tmp_path) == ROWS
    assert read_rows(tmp_path / "rows" / "second.json") == ROWS[3:]


def test_a_run_counts_once_though_two_jobs_measured_it(tmp_path: Path) -> None:
    small, large = (
        [ROW],
        [replace(ROW, seconds=9.0, settings="ab"), replace(ROW, limit=40.0)],
    )  # first one limit, then both
    write_rows(tmp_path / "a", "CarCircle-bc-all-20-0", small)
    write_rows(tmp_path / "a", "CarCircle-bc-all-20-40-0", large)
    write_rows(tmp_path / "b", "CarCircle-bc-all-20-0", small)
    assert read_rows(tmp_path / "a") == read_rows(tmp_path / "a", tmp_path / "b") == [ROW, large[1]]


@pytest.mark.parametrize("other", [{"cost": 11.0}, {"fingerprint": "77aa77aa77aa"}, {"reward": None, "cost": None}])
def test_two_accounts_of_one_run_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    write_rows(tmp_path / "a", "x", [ROW])
    write_rows(tmp_path / "b", "y", [replace(ROW, **other)])
    with pytest.raises(ConfigError, match=r"x\.json and .*y\.json disagree about cpq on CarCircle under 20, seed 0"):
        read_rows(tmp_path / "a", tmp_path / "b")


def test_results_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no results"):
        read_rows(tmp_path)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "x.json").write_text("[{")
    with pytest.raises(ConfigError, match="not JSON"):
        read_rows(tmp_path)
    (tmp_path / "rows" / "x.json").write_text(json.dumps([{"task": "CarCircle"}]))
    with pytest.raises(ConfigError, match="missing key"):
        read_rows(tmp_path)


def test_the_published_numbers_are_all_there_and_agree_with_the_verdicts_of_the_paper() -> None:
    table = published()
    assert (len(table.tasks), len(table.methods), table.limits) == (9, 7, (20.0, 40.0))
    assert len(table.cells) == 9 * 7 * 2
    assert sum(cell.safe for key, cell in table.cells.items() if key.method == "pls") == 18
    cell = table.cells[Key("AntRun", "bcq-lag", 20.0)]
    assert (cell.reward, cell.reward_deviation, cell.safe) == (0.79, 0.05, False)


def test_published_numbers_stand_beside_the_same_tasks_and_limits() -> None:
    table = published_for(Cells.of(ROWS))
    assert (table.tasks, table.limits) == (("CarCircle",), (20.0,))
    assert len(table.cells) == 7
    with pytest.raises(ConfigError, match="no numbers for PointCircle"):
        published_for(Cells.of([replace(ROW, task="PointCircle")]))
