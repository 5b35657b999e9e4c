"""The plot of a dataset shows its returns."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.figure import Figure

from lifesafe.data import Dataset
from lifesafe.errors import ConfigError
from lifesafe.report.data_figure import LIMIT, compose_dataset, draw_dataset, draw_returns, frontier
from logs import dataset, plane

RETURNS = [(10.0, 0.0), (40.0, 8.0), (30.0, 16.0), (80.0, 24.0)]


def drawn(made: Dataset, limits: float | tuple[float, ...] | None = None) -> Figure:
    figure = compose_dataset(made, limits)
    figure.draw_without_rendering()
    return figure


def words(figure: Figure) -> set[str]:
    return {text.get_text() for part in figure.subfigs for legend in part.legends for text in legend.get_texts()}


@given(
    arrays(np.float64, st.shared(st.integers(1, 30), key="n"), elements=st.integers(-9, 9)),
    arrays(np.float64, st.shared(st.integers(1, 30), key="n"), elements=st.integers(0, 9)),
)
def test_the_frontier_is_the_best_reward_at_a_cost_or_less(rewards: np.ndarray, costs: np.ndarray) -> None:
    steps, heights = frontier(rewards, costs)
    assert (np.diff(steps) >= 0).all()
    for cost in range(10):
        if (costs <= cost).any():
            assert heights[steps <= cost][-1] == rewards[costs <= cost].max()
    assert steps[-1] == costs.max()
    assert len(set(heights)) == len(heights) - 1  # only where it rises, and at the end


def test_every_episode_is_a_point() -> None:
    ax = Figure().subplots()
    made = dataset(40)
    draw_returns(ax, made, safe=made.returns[:, 1] <= 3)
    points = np.concatenate([np.asarray(group.get_offsets()) for group in ax.collections])
    assert sorted(map(tuple, points)) == sorted(map(tuple, made.returns[:, ::-1]))


def test_limits_are_lines_and_the_best_safe_episode_is_marked() -> None:
    ax = Figure().subplots()
    made = plane(RETURNS)
    draw_returns(ax, made, limits=(20.0,), safe=made.returns[:, 1] <= 20)
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["limit 20"].get_xdata(), [20.0, 20.0])
    assert lines["limit 20"].get_color() == LIMIT
    best = lines["best safe episode: 40"]
    assert (*best.get_xdata(), *best.get_ydata()) == (8.0, 40.0)


def test_the_legend_names_what_is_there() -> None:
    assert words(compose_dataset(plane(RETURNS))) == {"episode", "best at this cost or less"}
    assert {"safe episode", "unsafe episode", "limit 20"} < words(compose_dataset(plane(RETURNS), 20.0))
    assert "ended early" in words(compose_dataset(dataset(30)))
    assert not {word for word in words(compose_dataset(plane(RETURNS), -1.0)) if word.startswith("best safe")}


def test_one_cost_may_have_several_limits_and_the_lowest_counts() -> None:
    assert {"limit 20", "limit 30", "best safe episode: 40"} < words(compose_dataset(plane(RETURNS), (30.0, 20.0)))


def test_every_cost_has_a_panel() -> None:
    figure = compose_dataset(dataset(30, costs=2), (3.0, 2.0))
    labels = [part.axes[0].get_xlabel() for part in figure.subfigs]
    assert labels == ["cost 1 return", "cost 2 return"]
    with pytest.raises(ConfigError, match="1 limits for 2 costs"):
        compose_dataset(dataset(30, costs=2), 3.0)


@pytest.mark.parametrize("made", [plane([(5.0, 0.0)]), plane([(0.0, 0.0)] * 3), dataset(4000, longest=1)])
def test_any_dataset_can_be_drawn(made: Dataset) -> None:
    drawn(made, 1.0)


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_ending_decides_the_format(tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / "new" / f"plot.{ending}"
    draw_dataset(plane(RETURNS), 20.0, path, "A title")
    assert path.read_bytes().startswith(start)


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plot.gif: give a file that ends in"):
        draw_dataset(plane(RETURNS), None, tmp_path / "plot.gif")


def test_drawing_needs_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it fails now
    drawn(plane(RETURNS))
