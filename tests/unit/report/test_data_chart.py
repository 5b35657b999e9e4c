"""The plot of a dataset shows its returns."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lifesafe.data import Dataset
from lifesafe.errors import ConfigError
from lifesafe.report.data_chart import dataset_svg, draw_dataset, frontier_line
from logs import dataset, plane

RETURNS = [(10.0, 0.0), (40.0, 8.0), (30.0, 16.0), (80.0, 24.0)]


@given(
    arrays(np.float64, st.shared(st.integers(1, 30), key="n"), elements=st.integers(-9, 9)),
    arrays(np.float64, st.shared(st.integers(1, 30), key="n"), elements=st.integers(0, 9)),
)
def test_the_frontier_is_the_best_reward_at_a_cost_or_less(rewards: np.ndarray, costs: np.ndarray) -> None:
    steps, heights = frontier_line(rewards, costs)
    assert (np.diff(steps) >= 0).all()
    for cost in range(10):
        if (costs <= cost).any():
            assert heights[steps <= cost][-1] == rewards[costs <= cost].max()
    assert steps[-1] == costs.max()
    assert len(set(heights)) == len(heights) - 1  # only where it rises, and at the end


def test_every_episode_is_a_point() -> None:
    made = dataset(40)
    drawn = re.findall(r'class="(dots|rings) (safe|unsafe)" d="([^"]*)"', dataset_svg(made, 3.0))
    counts = {(shape, kind): d.count("M") for shape, kind, d in drawn if d != "M-6 2h0M0-3h0M6 1h0"}
    safe, early = made.returns[:, 1] <= 3, made.terminated
    assert counts == {
        ("dots", "safe"): (safe & ~early).sum(), ("rings", "safe"): (safe & early).sum(),
        ("dots", "unsafe"): (~safe & ~early).sum(), ("rings", "unsafe"): (~safe & early).sum(),
    }  # fmt: skip


def test_the_legend_names_what_is_there() -> None:
    assert "ended early" in dataset_svg(dataset(30))
    plain, limited = dataset_svg(plane(RETURNS)), dataset_svg(plane(RETURNS), (30.0, 20.0))
    assert not re.search("safe episode|limit", re.sub("<style>.*</style>", "", plain, flags=re.DOTALL))
    for words in ("unsafe episode", "limit 20", "limit 30", "best safe episode: 40"):  # the lowest limit counts
        assert f">{words}<" in limited
    assert "best safe" not in dataset_svg(plane(RETURNS), -1.0)


def test_every_cost_has_a_panel() -> None:
    drawn = dataset_svg(dataset(30, costs=2), (3.0, 2.0), "A <title>")
    assert all(f">{words}<" in drawn for words in ("cost 1 return", "cost 2 return", "A &lt;title&gt;"))
    with pytest.raises(ConfigError, match="3 numbers as limits for 2 costs"):
        dataset_svg(dataset(30, costs=2), (3.0, 2.0, 1.0))


@pytest.mark.parametrize("made", [plane([(5.0, 0.0)]), plane([(0.0, 0.0)] * 3), dataset(4000, longest=1)])
def test_any_dataset_can_be_drawn(tmp_path: Path, made: Dataset) -> None:
    draw_dataset(made, 1.0, tmp_path / "new" / "plot.png")
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")
