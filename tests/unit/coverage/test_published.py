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


def test_the_numbers_in_the_readme_are_the_committed_ones():
    readme = (ROOT / "README.md").read_text()
    results = ROOT / "benchmarks" / "results" / "coverage"
    shaped = {s.row.family: s for s in load(results / "default.json") if s.row.delta == 0.1}
    names = {"overshoot": "cost overshoots its target", "cliff": "a cliff in the cost"}
    names |= {"conservative": "cost far below its target, then rises", "rare": "rare lumps of cost"}
    for family, name in names.items():
        summary = shaped[family]
        assert f"| {name} | {100 * summary.violated:.1f} % | {100 * summary.found:.0f} %" in readme
    held = [s for s in load(results / "held-back.json") if s.row.delta == 0.1]
    low, high = (f(100 * s.violated for s in held) for f in (min, max))
    assert f"| five families held back until the end | {low:.1f} to {high:.1f} % |" in readme
    few, many = (f(100 * s.found for s in held) for f in (min, max))
    little, much = (f(100 * s.gain for s in held) for f in (min, max))
    assert f"| {few:.0f} to {many:.0f} % (gain {little:.0f} to {much:.0f} % of what is possible) |" in readme


@pytest.mark.parametrize("suite", ["default", "held-back"])
def test_the_published_default_keeps_its_promise_in_every_row(suite):
    summaries = load(ROOT / "benchmarks" / "results" / "coverage" / f"{suite}.json")
    assert [s.row for s in summaries] == list(SUITES[suite])
    for summary in summaries:
        assert summary.deployments >= 1000
        assert summary.keeps_promise
        assert summary.unsafe_operation < 0.01
