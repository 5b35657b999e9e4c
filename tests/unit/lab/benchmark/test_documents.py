"""Documents: table, summary and published numbers in one text, and a page that browsers read rightly."""

import csv
import io
from html.parser import HTMLParser

import pytest

from lifesafe.lab.benchmark.documents import document
from lifesafe.lab.benchmark.published import SOURCE, published_for
from lifesafe.lab.benchmark.results import Cells
from lifesafe.lab.benchmark.summaries import summary_text
from lifesafe.lab.benchmark.tables import Format, table_text
from small_results import ROWS

FORMS: tuple[Format, ...] = ("md", "tex", "csv", "html")


@pytest.mark.parametrize("form", ["md", "tex", "html"])
def test_a_document_holds_the_table_the_summary_and_the_published_numbers_in_this_order(form: Format) -> None:
    table = Cells.of(ROWS)
    parts = [table_text(table, form), summary_text(ROWS, form), table_text(published_for(table), form)]
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


class Tags(HTMLParser):
    """Holds the tags that are open, and complains of others that are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_names_its_encoding() -> None:
    page, tags = document(ROWS, "html", published=True), Tags()
    tags.feed(page)
    assert tags.open == []
    assert {"title", "style", "table", "p", "h2"} <= tags.seen
    assert page.startswith("<!doctype html>")
    assert page.index('<meta charset="utf-8">') < page.index("±")
