import json
from dataclasses import replace

import pytest
from scipy.stats import binomtest

from lifesafe.errors import ConfigError, DatasetError
from lifesafe.lab.coverage.deployment import CoverageRow, Deployment, deploy
from lifesafe.lab.coverage.simulation import simulate
from lifesafe.lab.coverage.suite import SUITES
from lifesafe.lab.coverage.table import assumption, markdown, summarize_row, upper_end
from lifesafe.lab.coverage.worlds import HELD_OUT, HELD_OUT_2

ROW, OTHER = (
    CoverageRow(family="overshoot", episodes=40),
    CoverageRow(family="overshoot", search="consistent", episodes=40),
)
KEPT = Deployment(
    number=0, violated=False, worst=0.8, share=0.0, broken_sure=False, lowest=0.0, window=0.0, operates_unsafe=False,
    regrets=(0.1,), use=0.7, recommended=True, episodes=40, held=False, ended="over", spent=0.05,
)  # fmt: skip
BROKEN = replace(KEPT, violated=True, worst=1.3, share=0.2)


def verdict(row, broken, kept, **changes):
    return summarize_row(row, [replace(BROKEN, **changes)] * broken + [KEPT] * kept).verdict


def test_processes_give_what_this_one_gives(tmp_path):
    told = []
    rows = [ROW, OTHER]
    found = simulate(rows, 3, tmp_path, workers=2, report=told.append)
    assert found == {row: [deploy(row, number) for number in range(3)] for row in rows}
    assert [(each.done, each.total) for each in told] == [(done, 6) for done in range(7)]


def test_a_study_that_was_stopped_goes_on_with_what_is_missing(tmp_path):
    done = []

    def run(row, number):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(number)
        return replace(KEPT, number=number)

    with pytest.raises(KeyboardInterrupt):
        simulate([ROW], 5, tmp_path, workers=1, run=run)
    file = tmp_path / f"{ROW.name}.jsonl"
    file.write_text(file.read_text()[:-30])  # killed while it wrote the third outcome
    again = []
    found = simulate([ROW], 5, tmp_path, workers=1, run=lambda row, n: again.append(n) or replace(KEPT, number=n))
    assert again == [2, 3, 4]
    assert found == {ROW: [replace(KEPT, number=n) for n in range(5)]}
    assert simulate([ROW], 4, tmp_path, workers=1, run=run) == {ROW: found[ROW][:4]}
    assert len(file.read_text().splitlines()) == 6


def test_outcomes_of_other_code_are_not_mixed_in(tmp_path):
    simulate([ROW], 1, tmp_path, workers=1, run=lambda row, n: KEPT)
    file = tmp_path / f"{ROW.name}.jsonl"
    head, *lines = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({"code": "0" * 16}), *lines, ""]))
    with pytest.raises(DatasetError, match="another version of the search"):
        simulate([ROW], 2, tmp_path, workers=1)
    file.write_text(head + '\n{"number": 3}\n')
    with pytest.raises(DatasetError, match="no outcome"):
        simulate([ROW], 2, tmp_path, workers=1)


def test_no_deployments_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="0 deployments"):
        simulate([ROW], 0, tmp_path)


def test_the_interval_is_one_sided():
    for successes, total in ((0, 40), (3, 100), (99, 100), (100, 100)):
        expected = binomtest(successes, total, alternative="less").proportion_ci(0.95, method="exact").high
        assert upper_end(successes, total) == pytest.approx(expected)


def test_a_promise_is_kept_only_if_the_upper_end_is_at_most_delta():
    assert verdict(ROW, 0, 40) == "keeps"
    assert verdict(ROW, 10, 190) == "keeps"
    assert verdict(ROW, 0, 20) == "too few deployments to tell"
    assert verdict(ROW, 9, 91) == "too few deployments to tell"
    assert verdict(ROW, 12, 88) == "too few deployments to tell"
    assert verdict(ROW, 30, 70) == "**VIOLATES** by 30% of the limit, at most 30%"


def test_a_row_that_breaks_an_assumption_names_it_and_the_price():
    cliff = CoverageRow(family="cliff")
    assert verdict(cliff, 12, 88) == (
        "assumption broken: maps are no rougher than the prior; by 30% of the limit, at most 30%"
    )
    assert verdict(cliff, 0, 40) == "keeps"
    assert verdict(cliff, 9, 91) == "too few deployments to tell"
    lumps = CoverageRow(family="lumps_15")
    assert "a mishap costs at most 3 limits; by 30% of the limit, at most 30%; held in 30%" in verdict(
        lumps, 30, 70, held=True
    )


def test_only_what_a_row_really_breaks_is_an_excuse():
    assert assumption(CoverageRow(family="lumps_50", stop=3.0)) is None
    assert assumption(CoverageRow(family="lumps_50", incident="horizon")) is None
    assert assumption(CoverageRow(family="lumps_15", incident=5.0)) == "a mishap costs at most 5 limits"
    assert assumption(CoverageRow(family="edge", promise="total", stop=3.0)) is None
    assert "days" in str(assumption(CoverageRow(family="day_06", promise="total", stop=3.0)))
    assert assumption(CoverageRow(family="smooth")) is None


def test_nothing_excuses_a_newcomer_that_overdraws_the_account():
    row = CoverageRow(family="day_06", promise="total", stop=3.0)
    outcomes = [replace(KEPT, regrets=(0.1, 0.1), broken_sure=n == 0) for n in range(100)]
    assert summarize_row(row, outcomes).verdict == "**BROKEN**: the account was overdrawn by a newcomer in 1"


def test_what_is_unsafe_to_operate_earns_no_praise():
    unsafe = replace(BROKEN, operates_unsafe=True, regrets=(-0.5,))
    assert summarize_row(ROW, [unsafe, KEPT]).regrets == (pytest.approx(0.05),)


def test_a_table_has_a_line_for_each_row():
    row = CoverageRow(family="edge", promise="total", stop=3.0, episodes=300)
    many = [replace(KEPT, regrets=(0.3, 0.2, 0.1), episodes=280)] * 100
    header, rule, *lines = markdown({ROW: [KEPT] * 40, row: many}).splitlines()
    assert header.count("|") == rule.count("|") == lines[0].count("|") == lines[1].count("|")
    assert "| overshoot | ours | trial | - | 0.1 | 40 | 0.0% | 7.2% | keeps |" in lines[0]
    assert "0.300 at 100, 0.200 at 150, 0.100 at 300 | 0.70 | 280 of 300 |" in lines[1]


def test_every_row_has_a_file_of_its_own():
    for rows, deployments in SUITES.values():
        assert len({row.name for row in rows}) == len(rows)
        assert deployments >= 20


def test_families_that_are_held_back_are_in_no_other_suite():
    held = set(HELD_OUT | HELD_OUT_2)
    assert {row.family for row in SUITES["held-back"][0]} == held
    assert not held & {row.family for name, (rows, _) in SUITES.items() if name != "held-back" for row in rows}
