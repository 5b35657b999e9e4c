import pytest

from theorem1 import Settings, make_case, study
from theorem1.table import markdown

QUICK = Settings(datasets=10, episodes=(200, 800))


@pytest.fixture(scope="module")
def studies():
    return [study(make_case(name), QUICK) for name in ("exact", "unrealizable", "rare")]


def rows(text, heading):
    part = text.split(f"## {heading}")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"][2:]


def test_every_case_that_varies_has_a_line_for_each_size(studies):
    found = rows(markdown(studies), "The law of sqrt(n)")
    assert [row[:2] for row in found] == [
        ["unrealizable", "200"], ["unrealizable", "800"], ["rare", "200"], ["rare", "800"]
    ]  # fmt: skip
    assert float(found[0][6]) == pytest.approx(studies[1].agreements[0].scale, abs=0.005)


def test_a_case_in_which_nothing_varies_says_so(studies):
    text = markdown(studies[:1])
    assert "In the case *exact* k is 0: the 20 fitted policies differ" in text
    assert "The law of" not in text
    assert "Correlation" not in text
    assert rows(text, "Bias")[0][:3] == ["exact", "13", "0.000"]


def test_the_bias_that_breaks_the_printed_bound_is_counted(studies):
    found = {row[0]: row for row in rows(markdown(studies), "Bias")}
    assert found["rare"][7] == "1"
    assert found["unrealizable"][7] == "0"


def test_columns_are_aligned(studies):
    for table in markdown(studies).split("\n\n"):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({len(line) for line in lines}) <= 1
