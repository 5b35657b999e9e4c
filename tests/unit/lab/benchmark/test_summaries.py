"""The summary: counts of every method, means over everything, and the same words on the screen and in files."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lifesafe.cli import main
from lifesafe.lab.benchmark.results import write_rows
from lifesafe.lab.benchmark.summaries import document, sections, summary
from small_results import ROW, ROWS


def test_the_summary_counts_cells_trials_and_violations() -> None:
    counts = summary(ROWS)
    assert counts["pls"] == {
        "cells": 1,
        "safe": 1,
        "best safe": 1,
        "idle seeds": 1,
        "trials": 60,
        "trials above the limit": 2,
        "clearly above": 1,
        "online episodes": 1200,
    }
    assert counts["cdt"]["safe"] == 0


def test_methods_stand_in_the_order_of_the_columns() -> None:
    counts, overall = sections(ROWS)
    assert [line[0] for line in counts.table.rows] == [line[0] for line in overall.table.rows] == ["CDT", "CPQ", "PLS"]


def test_a_method_that_ran_nothing_is_counted_but_has_no_means() -> None:
    counts, overall = sections([ROWS[0], ROWS[3]])
    assert [line[0] for line in counts.table.rows] == ["CPQ", "PLS"]
    assert [line[0] for line in overall.table.rows] == ["CPQ"]


def test_means_over_different_cells_are_not_said_to_compare() -> None:
    assert "different cells" not in sections(ROWS)[1].note
    elsewhere = [replace(row, task="AntRun") if row.method == "cdt" else row for row in ROWS]
    assert "different cells" in sections(elsewhere)[1].note  # as many cells each, but others


def test_markdown_holds_the_words_of_the_summary() -> None:
    tables = [section.table for section in sections(ROWS)]
    words = [word for table in tables for line in (table.heading, *table.rows) for word in line]
    text = document(ROWS, "md").partition("## Summary")[2]
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    assert [word.strip() for line in lines for word in line.split(" | ")] == words


@pytest.mark.parametrize("form", ["md", "tex", "csv"])
def test_the_summary_is_shown_once_and_kept_in_files_that_can_hold_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    write_rows(tmp_path, "all", ROWS)
    file = tmp_path / f"table.{form}"
    assert main(["bench", "table", str(tmp_path), "--format", form]) == 0
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("online episodes") == 1
    assert main(["bench", "table", str(tmp_path), "--format", form, "--out", str(file)]) == 0
    assert capsys.readouterr().err.count("online episodes") == 1
    assert file.read_text() == printed.out.removesuffix("\n")
    assert ("online episodes" in file.read_text()) == (form == "md")


@pytest.mark.parametrize(
    ("promise", "said"),
    [("trial", "no trial's mean cost"), ("total", "never exceeds what was allowed"), ("", "version 0.1's search")],
)
def test_the_summary_names_the_promise_of_the_search(promise: str, said: str) -> None:
    note = sections([replace(row, promise=promise) if row.method == "pls" else row for row in ROWS])[0].note
    assert said in note
    assert sum(words in note for words in ("no trial's mean", "what was allowed", "version 0.1")) == 1


def test_the_summary_of_baselines_names_no_search() -> None:
    assert "PLS" not in sections([ROW])[0].note


def test_one_row_has_a_summary() -> None:
    counts, overall = sections([ROW])
    assert counts.table.rows[0] == ["CPQ", "1", "1", "1", "0", "0", "0", "0", "0"]
    assert overall.table.rows[0] == ["CPQ", "0.50", "0.50", "1.00", "1", "0"]
