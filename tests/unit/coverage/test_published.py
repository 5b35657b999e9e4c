"""The tables in the docs are made from the committed numbers."""

from pathlib import Path

import pytest

from lifesafe.coverage import SUITES
from lifesafe.coverage.table import load, markdown

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_the_table_in_the_docs_is_that_of_the_committed_numbers(suite):
    table = markdown(load(ROOT / "benchmarks" / "results" / "coverage" / f"{suite}.json"))
    assert table in (ROOT / "docs" / "coverage.md").read_text()
    assert table == (ROOT / "benchmarks" / "results" / "coverage" / f"{suite}.md").read_text()


@pytest.mark.parametrize("suite", ["default", "held-back"])
def test_the_published_default_keeps_its_promise_in_every_row(suite):
    summaries = load(ROOT / "benchmarks" / "results" / "coverage" / f"{suite}.json")
    assert [s.row for s in summaries] == list(SUITES[suite])
    for summary in summaries:
        assert summary.deployments >= 1000
        assert summary.keeps_promise
        assert summary.unsafe_operation < 0.01
