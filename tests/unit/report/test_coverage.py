import pytest

from lifesafe.coverage import Outcome, Row, summarize
from lifesafe.report.coverage import coverage_figure

GOOD = Outcome(
    violations=0, operates_unsafe=False, found=True, trials_to_found=9.0, gain=1.0, recall=0.5, spent=0.02, frozen=False
)
BAD = Outcome(
    violations=1,
    operates_unsafe=True,
    found=False,
    trials_to_found=float("inf"),
    gain=0.0,
    recall=0.0,
    spent=0.1,
    frozen=False,
)
SUMMARIES = [
    summarize(Row(family="cliff"), [GOOD] * 9 + [BAD]),
    summarize(Row(family="rare", delta=0.05), [BAD] * 10),
]


def test_every_row_is_drawn_with_its_numbers():
    figure = coverage_figure(SUMMARIES)
    violations, found, trials = figure.axes
    labels = [label.get_text() for label in violations.get_yticklabels()]
    assert labels == ["cliff: ledger, default model, delta 0.1", "rare: ledger, default model, delta 0.05"]
    dots = [line.get_xdata()[0] for line in violations.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([10.0, 100.0])
    assert found.collections[0].get_offsets()[:, 0].tolist() == pytest.approx([90.0, 0.0])
    assert trials.collections[0].get_offsets()[:, 0].tolist() == [9.0]  # never found: no dot


def test_a_broken_promise_has_another_color():
    violations = coverage_figure(SUMMARIES).axes[0]
    colors = [line.get_color() for line in violations.lines if line.get_marker() == "o"]
    assert colors[0] != colors[1]
