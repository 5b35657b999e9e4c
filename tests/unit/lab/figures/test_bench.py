"""Pictures of a comparison."""

from dataclasses import replace

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.figures.bench import draw_exploration, draw_scatter
from small_results import ROW as BASE

ROW = replace(BASE, method="cdt", cost=90.0)
SEARCHED = replace(ROW, method="pls", cost=10.0, trials=3, violations=1, trial_costs=(5.0, 21.0, 9.0))


def test_every_task_and_limit_has_a_panel_and_every_method_a_mark() -> None:
    rows = [ROW, SEARCHED, replace(ROW, limit=40.0), replace(ROW, task="AntRun", method="mine")]
    figure = draw_scatter(rows)
    shown = [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()]
    assert shown == ["CarCircle, limit 20", "CarCircle, limit 40", "AntRun, limit 20", "AntRun, limit 40"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["CDT", "PLS", "mine"]


def test_costs_beyond_the_picture_are_drawn_at_its_edge() -> None:
    (ax,) = draw_scatter([ROW, replace(ROW, seed=1, cost=130.0)]).axes
    marks = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]  # type: ignore[index]
    assert marks == [3.0]
    (errors,) = ax.containers
    assert not errors.has_xerr  # the bar would be one around the edge


def test_a_search_is_drawn_trial_by_trial_and_its_violations_are_counted() -> None:
    figure = draw_exploration([ROW, SEARCHED, replace(SEARCHED, seed=1, violations=0)])
    (ax,) = figure.axes
    assert ax.get_title(loc="left") == "CarCircle, limit 20\n1 of 6 above"
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[5.0, 21.0, 9.0]] * 2  # type: ignore[arg-type]


def test_without_a_search_there_is_nothing_to_draw() -> None:
    with pytest.raises(ConfigError, match="pls"):
        draw_exploration([ROW])


def test_a_cost_beyond_the_edge_is_written_beside_its_mark() -> None:
    figure = draw_scatter([replace(ROW, cost=13 * ROW.limit)])
    assert [text.get_text() for text in figure.axes[0].texts] == ["13 →"]
    assert [text.get_text() for text in draw_scatter([SEARCHED]).axes[0].texts] == []


def test_the_largest_cost_of_a_search_is_inside_the_picture_and_seeds_are_named() -> None:
    rows = [replace(ROW, method="pls", seed=seed, trial_costs=(1.0, 4 * ROW.limit)) for seed in (0, 3)]
    figure = draw_exploration(rows)
    assert figure.axes[0].get_ylim()[1] > 4 * ROW.limit
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["seed 0", "seed 3", "limit"]


def test_normalized_rewards_are_drawn_on_all_of_their_scale() -> None:
    low, high = draw_scatter([ROW, SEARCHED]).axes[0].get_ylim()
    assert low < 0
    assert high > 1
    raw = replace(ROW, references=None, reward=1500.0)
    low, high = draw_scatter([raw, replace(raw, method="pls", reward=1600.0)]).axes[0].get_ylim()
    assert low > 1000
