"""Documents: table, summary and published numbers in one text."""

import csv
import io

import pytest

from lifesafe.lab.benchmark.published import SOURCE, published_for
from lifesafe.lab.benchmark.results import Cells
from lifesafe.lab.benchmark.summaries import document
from lifesafe.lab.benchmark.tables import Format, table_text
from small_results import ROWS

FORMS: tuple[Format, ...] = ("md", "tex", "csv")


@pytest.mark.parametrize("form", ["md", "tex"])
def test_a_document_holds_the_table_the_summary_and_the_published_numbers_in_this_order(form: Format) -> None:
    table = Cells.of(ROWS)
    parts = [table_text(table, form), "## Summary" if form == "md" else "", table_text(published_for(table), form)]
    text = document(ROWS, form, published=True)
    places = [text.index(part) for part in parts if part]
    assert places == sorted(places)
    assert SOURCE in text
    assert parts[-1] not in document(ROWS, form)


def test_a_spreadsheet_tells_our_cells_from_those_of_the_paper() -> None:
    cells = list(csv.DictReader(io.StringIO(document(ROWS, "csv", published=True))))
    keys = [(cell["source"], cell["limit"], cell["task"], cell["method"]) for cell in cells]
    assert len(set(keys)) == len(keys)
    assert {source for source, *_ in keys} == {"here", "paper"}
    assert document(ROWS, "csv") == table_text(Cells.of(ROWS), "csv")


@pytest.mark.parametrize("form", FORMS)
def test_a_document_does_not_depend_on_the_order_of_rows(form: Format) -> None:
    assert document(ROWS, form) == document(ROWS[::-1], form)
