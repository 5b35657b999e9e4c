from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from lifesafe.coverage import SUITES, Outcome, Row, simulate, summarize
from lifesafe.coverage.simulation import wilson
from lifesafe.coverage.table import load, markdown, save
from lifesafe.errors import ConfigError, DatasetError

ROW = Row(family="cliff", rule="plain")
GOOD = Outcome(
    violations=0, operates_unsafe=False, found=True, trials_to_found=9.0, gain=1.0, recall=0.5, spent=0.02, frozen=False
)
BAD = replace(GOOD, violations=2, operates_unsafe=True, found=False, trials_to_found=np.inf, gain=0.5, recall=0.1)


def test_a_summary_counts_deployments_not_trials():
    summary = summarize(ROW, [GOOD, GOOD, GOOD, BAD])
    assert (summary.violated, summary.unsafe_operation, summary.found) == (0.25, 0.25, 0.75)
    assert summary.median_trials == 9.0
    assert summary.recall == pytest.approx(0.4)
    assert summary.gain == pytest.approx(0.875)


def test_the_interval_is_wilsons():
    for successes, total in ((0, 50), (3, 100), (99, 100)):
        expected = binomtest(successes, total).proportion_ci(method="wilson")
        assert wilson(successes, total) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_the_promise_is_broken_only_beyond_chance():
    assert summarize(ROW, [BAD] * 12 + [GOOD] * 88).keeps_promise
    assert not summarize(ROW, [BAD] * 30 + [GOOD] * 70).keeps_promise


def test_workers_give_what_one_process_gives():
    counted = []
    parallel = simulate(ROW, 25, workers=2, advance=counted.append)
    assert parallel == simulate(ROW, 25)
    assert sum(counted) == 25


def test_other_first_numbers_draw_other_maps():
    row = Row(family="elm", rule="plain")
    assert simulate(row, 12, first=0)[5:] == simulate(row, 7, first=5)


def test_no_deployments_are_refused():
    with pytest.raises(ConfigError, match="0 deployments"):
        simulate(ROW, 0)


def test_summaries_survive_a_file(tmp_path):
    summaries = [summarize(row, [GOOD, BAD]) for row in (ROW, Row(family="rare", mean="target", mixture=3))]
    summaries.append(summarize(ROW, [BAD]))
    save(tmp_path / "a.json", summaries)
    assert load(tmp_path / "a.json") == summaries
    assert load(tmp_path / "none.json") == []


def test_a_foreign_file_is_refused_by_name(tmp_path):
    (tmp_path / "a.json").write_text('[{"row": 3}]')
    with pytest.raises(DatasetError, match=r"a\.json"):
        load(tmp_path / "a.json")


def test_the_table_has_a_line_per_row():
    text = markdown([summarize(ROW, [GOOD, BAD]), summarize(ROW, [BAD])])
    assert text.count("\n") == 4
    assert "| cliff | plain, default model | 0.1 | 50.0% " in text
    assert text.splitlines()[-1].split("|")[7].strip() == "-"


def test_the_suites_have_no_row_twice():
    for rows in SUITES.values():
        assert len(set(rows)) == len(rows)
