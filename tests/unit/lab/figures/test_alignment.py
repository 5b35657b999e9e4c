"""The picture of target against actual returns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.alignment.results import Alignment, TargetResult
from lifesafe.lab.figures.alignment import draw_alignment
from lifesafe.lab.figures.saving import save_figure


def part(seed: int, costs: int = 1) -> Alignment:
    rng = np.random.default_rng(seed)
    points = []
    for reward in (100.0, 200.0, 300.0):
        for cost in (0.0, 20.0, 40.0, 60.0):
            mean = np.array([0.9 * reward + cost, *[5.0 + 0.8 * cost] * costs])
            episodes = mean + rng.normal(0, 3, (20, 1 + costs))
            points.append(TargetResult(target=(reward, *[cost] * costs), episodes=tuple(map(tuple, episodes.tolist()))))
    return Alignment(
        task="PointCircle",
        seed=seed,
        dataset="ab" * 32,
        config="cd" * 32,
        training=1.0,
        evaluation=1.0,
        points=tuple(points),
    )


def test_every_line_goes_through_the_mean_over_seeds() -> None:
    parts = [part(seed) for seed in range(3)]
    figure = draw_alignment(parts, limits=(20.0,))
    costs, rewards = figure.axes
    line = next(line for line in costs.lines if line.get_label() == "200")
    expected = np.mean([[point.mean[1] for point in each.points[4:8]] for each in parts], axis=0)
    np.testing.assert_allclose(line.get_ydata(), expected)
    np.testing.assert_allclose(line.get_xdata(), [0.0, 20.0, 40.0, 60.0])
    assert costs.get_ylabel() == "actual mean cost"
    assert rewards.get_ylabel() == "actual mean reward"


def test_each_cost_has_a_panel_and_its_limit() -> None:
    figure = draw_alignment([part(0, costs=2)], limits=(20.0, 35.0))
    assert [ax.get_ylabel() for ax in figure.axes] == ["actual mean cost 1", "actual mean cost 2", "actual mean reward"]
    words = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert "limit 20" in words
    assert "limit 35" in words


def test_seeds_with_other_targets_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 different grids"):
        draw_alignment([part(0), replace(part(1), points=part(1).points[1:])], limits=(20.0,))


def test_without_seeds_there_is_nothing_to_draw() -> None:
    with pytest.raises(ConfigError, match="no seeds"):
        draw_alignment([], limits=(20.0,))


def test_the_picture_can_be_written(tmp_path: Path) -> None:
    save_figure(draw_alignment([part(0)], limits=(20.0,)), tmp_path / "alignment.png")
    assert (tmp_path / "alignment.png").read_bytes().startswith(b"\x89PNG")
