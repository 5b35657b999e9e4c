"""The picture shows the numbers of the run."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lifesafe.errors import ConfigError
from lifesafe.report.figures import (
    LIMIT,
    compose,
    draw_account,
    draw_costs,
    draw_forecasts,
    draw_ledger,
    draw_line,
    draw_plane,
    draw_reward,
    save,
)
from lifesafe.report.forecasts import is_doubtful, outcomes
from lifesafe.report.planes import LIKELY, moments_shown, planes, small_risk
from lifesafe.report.promise import statement
from lifesafe.report.reading import Reading, episodes_of, scout_of
from report_runs import KINDS


class Readings:
    """Every kind of run, made when it is asked for."""

    def __init__(self, place: Path) -> None:
        self.of = cache(lambda kind: Reading.read(KINDS[kind](place / kind), replay=False))


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Readings:
    return Readings(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def ax() -> Axes:
    found: Axes = Figure().subplots()
    return found


def line(ax: Axes, label: str) -> Line2D:
    return next(line for line in ax.lines if line.get_label() == label)


def steps(ax: Axes, label: str) -> np.ndarray:
    return np.asarray(next(patch for patch in ax.patches if patch.get_label() == label).get_data().values)


def texts(figure: Figure) -> str:
    found = [text.get_text() for part in figure.subfigs for text in part.texts]
    return " ".join([*found, *(part.get_suptitle() for part in figure.subfigs)])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_can_be_drawn_and_no_text_runs_out_of_the_picture(readings: Readings, kind: str) -> None:
    figure = compose(readings.of(kind), title="a run")
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    box = figure.get_tightbbox()  # inches
    assert min(box.x0, box.y0) >= 0
    assert box.x1 * figure.dpi <= width
    assert box.y1 * figure.dpi <= height
    told = texts(figure).replace("\n", " ")
    assert statement(readings.of(kind)) in told
    assert f"{readings.of(kind).tally.total} real episode" in told


def test_means_of_trials_of_their_centers_and_of_their_scouts_are_drawn(readings: Readings, ax: Axes) -> None:
    reading = readings.of("searched")
    draw_costs(ax, reading)
    drawn = dict(point for container in ax.containers for point in zip(*container[0].get_data(), strict=True))
    assert drawn == {each.number: pytest.approx(each.episodes[:, 1].mean()) for each in reading.history.told}
    assert [container.get_label() for container in ax.containers] == ["trial, start", "trial, search"]
    scouted = [each for each in reading.history.told if scout_of(each) is not None]
    for which, label in ((0, "its center"), (1, "its scout")):
        np.testing.assert_array_equal(line(ax, label).get_xdata(), [each.number for each in scouted])
        expected = [episodes_of(each, which)[:, 1].mean() for each in scouted]
        np.testing.assert_allclose(line(ax, label).get_ydata(), expected)


def test_bars_are_two_deviations_and_end_at_zero(readings: Readings, ax: Axes) -> None:
    reading = readings.of("searched")
    draw_costs(ax, reading)
    tops = {}
    for container in ax.containers:
        (marks, _, (bars,)) = container
        for x, (low, high) in zip(marks.get_xdata(), bars.get_segments(), strict=True):
            tops[x] = (low[1], high[1])
    for tried in reading.history.told:
        mean, half = tried.episodes[:, 1].mean(), reading.doubt(tried.episodes)[1]
        assert tops[tried.number] == pytest.approx((max(mean - half, 0.0), mean + half))


def test_two_or_three_episodes_of_a_newcomer_have_no_bars(readings: Readings, ax: Axes) -> None:
    draw_costs(ax, readings.of("total"))
    assert all(not container[2] for container in ax.containers)


def test_the_limit_is_drawn_where_it_is(readings: Readings, ax: Axes) -> None:
    reading = readings.of("other_limit")
    draw_costs(ax, reading)
    (stairs,) = (patch for patch in ax.patches if patch.get_label() == "limit")
    limits = [tried.limits[0] for tried in reading.history.trials.values()]
    assert set(limits) == {20.0, 26.0}
    np.testing.assert_array_equal(stairs.get_data().values, limits)
    assert to_rgba(LIMIT) == stairs.get_edgecolor()
    assert ax.get_ylim()[1] > 26.0


def test_a_trial_clearly_above_is_marked(readings: Readings, ax: Axes) -> None:
    reading = readings.of("held")
    draw_costs(ax, reading)
    last = reading.history.told[-1]
    np.testing.assert_allclose(line(ax, "clearly above").get_data(), [[last.number], [last.episodes[:, 1].mean()]])


def test_the_plane_is_colored_by_the_risk_of_that_moment(readings: Readings, ax: Axes) -> None:
    reading = readings.of("searched")
    (plane,), at = planes(reading), moments_shown(reading)
    draw_plane(ax, reading, plane, at[1])
    found = plane.grid(plane.risks(at[1].beliefs))
    colors = np.asarray(ax.collections[0].get_array()).reshape(found.shape)
    np.testing.assert_array_equal(colors, (found <= LIKELY).astype(int) + (found <= small_risk(reading.problem)))
    (star,) = (line for line in ax.lines if line.get_marker() == "*")
    assert tuple(star.get_xydata()[0]) == reading.best_after[at[1].trial].point
    tried = [each for each in reading.history.told if each.number <= at[1].trial]
    assert len(ax.lines) == 1 + len(tried) + sum(scout_of(each) is not None for each in tried)


def test_a_finite_list_is_drawn_as_points(readings: Readings, ax: Axes) -> None:
    reading = readings.of("listed")
    draw_plane(ax, reading, planes(reading)[0], moments_shown(reading)[-1])
    np.testing.assert_allclose(ax.collections[0].get_offsets(), reading.problem.targets)


def test_where_there_is_no_plane_beliefs_along_every_axis_are_drawn(readings: Readings, ax: Axes) -> None:
    reading = readings.of("one_knob")
    draw_line(ax, reading, 0)
    assert ax.get_xlabel() == "speed, m/s"
    assert line(ax, ax.lines[-1].get_label()).get_xdata()[0] == reading.focus[0]
    visible = [axis for axis in compose(readings.of("six_knobs")).axes if axis.get_visible()]
    assert [axis.get_xlabel() for axis in visible[4:10]] == list(readings.of("six_knobs").problem.names)


def test_the_reward_of_the_recommendation_is_followed(readings: Readings, ax: Axes) -> None:
    reading = readings.of("searched")
    draw_reward(ax, reading)
    best = [reading.best_after.get(each.number) for each in reading.history.told]
    np.testing.assert_allclose(steps(ax, "mean of its episodes"), [np.nan if b is None else b.means[0] for b in best])
    np.testing.assert_allclose(steps(ax, "by the model"), [np.nan if b is None else 500 * b.modeled for b in best])
    assert any(b is not None for b in best)


def test_no_target_that_is_fit_is_said(readings: Readings, ax: Axes) -> None:
    draw_reward(ax, readings.of("failed"))
    assert [text.get_text() for text in ax.texts] == ["no target is fit\nto be operated"]


def test_the_ledger_is_drawn_against_delta(readings: Readings, ax: Axes) -> None:
    reading = readings.of("searched")
    draw_ledger(ax, reading)
    np.testing.assert_allclose(steps(ax, "charged"), [spent for _, spent in reading.spent_after])
    assert line(ax, "delta = 0.1").get_ydata()[0] == 0.1
    assert ax.get_ylim()[1] > 0.1


def test_the_account_is_drawn_in_limits_against_the_price(readings: Readings, ax: Axes) -> None:
    reading = readings.of("total")
    draw_account(ax, reading)
    held = np.concatenate([part.holds[:, 0] for part in reading.saved])
    np.testing.assert_allclose(line(ax, "holds, cost").get_ydata(), [0.0, *held / 20])
    assert line(ax, "price of a newcomer").get_ydata()[0] == pytest.approx(21 / 20)


def test_the_picture_has_the_account_or_the_ledger(readings: Readings) -> None:
    titles = {
        kind: [axis.get_title(loc="left") for axis in compose(readings.of(kind)).axes] for kind in ("searched", "total")
    }
    assert "(d) Risk ledger" in titles["searched"]
    assert "(d) Account" in titles["total"]
    assert "(d) Risk ledger" not in titles["total"]


def test_forecasts_are_drawn_beside_what_came_back(readings: Readings, ax: Axes) -> None:
    reading = readings.of("searched")
    draw_forecasts(ax, reading)
    (container,) = ax.containers
    found = outcomes(reading, 1)
    x, y = container[0].get_data()
    np.testing.assert_allclose(x, [each.forecast[0] / 20 for each in found])
    np.testing.assert_allclose(y, [each.measured / 20 for each in found])
    assert len(found) == sum(1 + (scout_of(each) is not None) for each in reading.history.told)


def test_an_outcome_is_a_surprise_only_if_it_is_clearly_beyond(readings: Readings) -> None:
    for axis in (0, 1):
        for each in outcomes(readings.of("held"), axis):
            low, high = each.forecast
            above, below = each.measured - each.half > high, each.measured + each.half < low
            assert each.is_surprise == (above or (axis == 0 and below))
    assert any(each.is_surprise for each in outcomes(readings.of("held"), 1))
    assert is_doubtful(outcomes(readings.of("failed"), 1)[:1]) == outcomes(readings.of("failed"), 1)[0].is_surprise
    assert not is_doubtful([])


def test_several_costs_have_a_panel_each(readings: Readings, tmp_path: Path) -> None:
    figure = compose(readings.of("two_costs"))
    assert [ax.get_ylabel() for ax in figure.axes[:2]] == ["mean cost 1", "mean cost 2"]
    labels = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel().startswith("target")]
    assert labels == ["target cost 1", "target cost 2"]
    save(figure, tmp_path / "report.svg")
    assert (tmp_path / "report.svg").read_text().startswith("<?xml")


def test_the_longest_legend_leaves_the_title_free(readings: Readings) -> None:
    figure = compose(readings.of("held"))
    figure.draw_without_rendering()
    ax = figure.axes[0]
    legend = ax.get_legend()
    assert legend is not None
    names = {text.get_text() for text in legend.get_texts()}
    assert {"limit", "clearly above", "its center", "its scout", "trial, search"} <= names
    assert not legend.get_window_extent().overlaps(ax._left_title.get_window_extent())


def test_a_picture_is_written_whole(readings: Readings, tmp_path: Path) -> None:
    save(compose(readings.of("searched")), tmp_path / "made" / "report.png")
    assert (tmp_path / "made" / "report.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "made" / "report.png").stat().st_size > 50_000
    save(compose(readings.of("begun")), tmp_path / "empty.pdf")
    assert (tmp_path / "empty.pdf").read_bytes().startswith(b"%PDF")


def test_an_unknown_format_is_refused(readings: Readings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.png, \.pdf, \.svg"):
        save(compose(readings.of("begun")), tmp_path / "report.bmp")
    assert list(tmp_path.iterdir()) == []


def test_drawing_does_not_touch_pyplot(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it fails now
    compose(readings.of("searched"))
