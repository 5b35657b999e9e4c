"""The picture shows the numbers of the run."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from lifesafe.errors import ConfigError, GuaranteeWarning
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule
from lifesafe.report.figures import (
    LIMIT,
    compose,
    draw_calibration,
    draw_costs,
    draw_ledger,
    draw_plane,
    draw_reward,
    save,
)
from lifesafe.report.history import History
from lifesafe.report.shown import candidates_near, moments_shown
from lifesafe.report.simulation import Simulation, best_reachable
from lifesafe.report.words import checks, guarantee, settings
from lifesafe.returns import Returns
from report_runs import operated

SIMULATION = Simulation(family="conservative", seed=1)


def two_costs() -> History:
    axes = [np.linspace(0, 500, 11), np.linspace(0, 60, 7), np.linspace(0, 3, 7)]
    problem = Problem.on_grid(axes, seeds=[Returns(200, (3, 0.2))], limits=(20.0, 1.0))
    optimizer, rng = SafeOptimizer(problem, Schedule(trials=4)), np.random.default_rng(0)
    while trial := optimizer.ask():
        costs = (rng.poisson(2 + trial.target.costs[0], 20), rng.poisson(0.1, 20))
        rewards = rng.normal(trial.target.reward, 10, 20)
        optimizer.tell(trial, [Returns(r, (a, b)) for r, a, b in zip(rewards, *costs, strict=True)])
    return History.from_optimizer(optimizer)


def reckless() -> SafeOptimizer:
    """Return an optimizer that has tried targets beyond the cliff."""
    world = Simulation(family="cliff", seed=1)
    problem = replace(world.problem(0.1), trust_prior=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        optimizer = SafeOptimizer(problem, Schedule(risk="fixed", multiplier=0.3, reach=0.2))
        while trial := optimizer.ask():
            optimizer.tell(trial, world.run(trial))
    return optimizer


@pytest.fixture(scope="module")
def history() -> History:
    optimizer = SafeOptimizer(SIMULATION.problem(0.1), Schedule(trials=12, exploration=8))
    while trial := optimizer.ask():
        optimizer.tell(trial, SIMULATION.run(trial))
    return History.from_optimizer(optimizer)


def axes():
    return Figure().subplots()


def lines(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def steps(ax, label):
    return next(patch for patch in ax.patches if patch.get_label() == label).get_data()


def test_costs_and_bars_are_those_of_the_trials(history: History) -> None:
    ax = axes()
    draw_costs(ax, history)
    points, tops = {}, {}
    for container in ax.containers:
        (marks, _, (bars,)) = container
        for x, y, (low, high) in zip(*marks.get_data(), bars.get_segments(), strict=True):
            points[x], tops[x] = y, (low[1], high[1])
    for moment in history.moments:
        number, mean, sd = moment.result.trial.number, moment.mean_costs[0], moment.noise_sds[0]
        assert points[number] == pytest.approx(mean)
        assert tops[number] == pytest.approx((max(mean - 2 * sd, 0.0), mean + 2 * sd))
    labels = [container.get_label() for container in ax.containers]
    assert labels == ["seed stage", "explore stage", "maximize stage"]


def test_the_limit_is_drawn_where_it_is(history: History) -> None:
    ax = axes()
    draw_costs(ax, history)
    (stairs,) = (patch for patch in ax.patches if patch.get_label() == "limit")
    np.testing.assert_array_equal(stairs.get_data().values, [20.0] * 12)
    assert to_rgba(LIMIT) == stairs.get_edgecolor()
    assert ax.get_ylim()[1] > 20.0


def test_the_truth_is_drawn_only_where_it_is_known(history: History) -> None:
    known, unknown = axes(), axes()
    draw_costs(known, history, truth=SIMULATION.map)
    draw_costs(unknown, history)
    true = [SIMULATION.map.cost.flat[m.result.trial.index] for m in history.moments]
    np.testing.assert_allclose(lines(known, "true mean").get_ydata(), true)
    assert "true mean" not in [line.get_label() for line in unknown.lines]


def test_a_violation_is_marked() -> None:
    problem = Problem.on_grid([np.linspace(0, 9, 11), np.linspace(0, 9, 5)], seeds=[Returns(0, 0)], limits=3.0)
    optimizer = SafeOptimizer(problem)
    trial = optimizer.ask()
    assert trial is not None
    with pytest.warns(UserWarning, match="exceeded a limit"):
        optimizer.tell(trial, [Returns(1.0, 30.0)] * 20)
    history, ax = History.from_optimizer(optimizer), axes()
    draw_costs(ax, history)
    np.testing.assert_array_equal(lines(ax, "shows a violation").get_data(), [[1], [30.0]])
    assert "1 of 1 trials show a violation" in checks(history)
    assert history.moments[0].closed.any()


def test_the_plane_is_colored_by_what_is_known(history: History) -> None:
    ax = axes()
    draw_plane(ax, history, 11, truth=SIMULATION.map)
    (mesh, boundary) = ax.collections
    world, last = SIMULATION.map, history.moments[-1]
    cells = mesh.get_array().reshape(len(world.cost_axis), len(world.reward_axis))
    np.testing.assert_array_equal((cells == 3).T.reshape(-1), last.safe)
    np.testing.assert_array_equal((cells == 2).T.reshape(-1), last.frontier & ~last.safe)
    assert boundary.levels == [20.0]
    assert last.best is not None
    star = next(line for line in ax.lines if line.get_marker() == "*")
    assert tuple(star.get_xydata()[0]) == tuple(last.best.target)
    assert len(ax.lines) == 12 + 1


def test_candidates_that_are_no_grid_are_drawn_as_points() -> None:
    rng = np.random.default_rng(0)
    problem = Problem(candidates=rng.uniform(0, 9, (40, 2)), seeds=(3,), limits=(3.0,))
    optimizer = SafeOptimizer(problem)
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(1.0, 0.1)] * 20)
    history, ax = History.from_optimizer(optimizer), axes()
    draw_plane(ax, history, 0)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), problem.candidates)
    np.testing.assert_array_equal(ax.collections[0].get_array() == 3, history.moments[0].safe)


def test_the_reward_of_the_recommendation_is_followed(history: History) -> None:
    ax = axes()
    draw_reward(ax, history, truth=SIMULATION.map)
    best = [m.best for m in history.moments]
    means = [np.nan if b is None else b.means.reward for b in best]
    lower = [np.nan if b is None else b.reward_lower for b in best]
    np.testing.assert_allclose(steps(ax, "mean of its episodes").values, means)
    np.testing.assert_allclose(steps(ax, "lower bound of the model, from all trials").values, lower)
    assert lines(ax, "best reachable").get_ydata()[0] == best_reachable(SIMULATION.map)


def test_the_ledger_is_drawn_against_delta(history: History) -> None:
    ax = axes()
    draw_ledger(ax, history)
    np.testing.assert_array_equal(steps(ax, "spent").values, [m.spent for m in history.moments])
    np.testing.assert_array_equal(steps(ax, "spent").edges, np.arange(13) + 0.5)  # the last trial has its place, too
    assert lines(ax, "delta = 0.1").get_ydata()[0] == 0.1


def test_the_residuals_are_those_of_the_calibration(history: History) -> None:
    ax = axes()
    draw_calibration(ax, history)
    drawn = {str(line.get_label()).partition(":")[0]: line.get_ydata() for line in ax.lines}
    for part in history.calibration.returns:
        np.testing.assert_array_equal(drawn[part.name], part.residuals)


def test_the_reward_is_interrupted_where_no_target_is_fit(history: History) -> None:
    ax, (first, second, *rest) = axes(), history.moments
    draw_reward(ax, replace(history, moments=(first, replace(second, best=None), *rest)))
    assert np.flatnonzero(np.isnan(steps(ax, "mean of its episodes").values)).tolist() == [1]


def test_residuals_of_one_trial_claim_nothing(history: History) -> None:
    ax, optimizer = axes(), SafeOptimizer(SIMULATION.problem(0.1))
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, SIMULATION.run(trial))
    alone = History.from_optimizer(optimizer)
    draw_calibration(ax, alone)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["reward", "cost"]
    assert str(alone.calibration).startswith("Calibration: one trial, and no others to predict it from")
    assert "%" not in str(alone.calibration).partition("bands are")[2]


def test_batches_of_operation_are_not_called_trials(history: History, tmp_path: Path) -> None:
    ax, served = axes(), axes()
    operation = History.read(operated(tmp_path))
    draw_calibration(ax, history)
    draw_calibration(served, operation)
    assert (ax.get_xlabel(), served.get_xlabel()) == ("trial", "trial or batch of operation")
    assert served.get_xlim()[1] > 13
    assert "each of 12 trials predicted" in str(history.calibration)
    assert "each of 13 observations (1 from operation) predicted" in str(operation.calibration)


def test_the_legend_of_the_residuals_covers_no_outlier(history: History) -> None:
    parts = [replace(part, residuals=part.residuals - 9.0) for part in history.calibration.returns]
    far = replace(history, calibration=replace(history.calibration, returns=tuple(parts)))
    figure = compose(far)
    figure.draw_without_rendering()
    ax = figure.axes[-1]
    legend = ax.get_legend()
    assert legend is not None
    lowest = min(float(part.residuals.min()) for part in parts)
    assert legend.get_window_extent().y1 < ax.transData.transform((0.0, lowest))[1]


def test_a_seed_that_was_never_tried_does_not_stretch_the_plane() -> None:
    seeds = [Returns(400, 5), Returns(20, 5)]
    problem = Problem.on_grid([np.linspace(0, 500, 51), np.linspace(0, 200, 41)], seeds=seeds, limits=20.0)
    optimizer = SafeOptimizer(problem, Schedule(trials=1))
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(400, cost) for cost in (4, 5, 6, 5)])
    near = candidates_near(History.from_optimizer(optimizer), 0)
    assert problem.candidates[near, 0].min() > 100


def test_why_the_star_lies_outside_the_safe_set_is_said_where_it_does(history: History) -> None:
    last = history.moments[-1]
    outside = replace(history, moments=(*history.moments[:-1], replace(last, safe=np.zeros_like(last.safe))))
    assert "The star can lie outside the safe set" in _texts(compose(outside)).replace("\n", " ")
    assert "The star can lie outside the safe set" not in _texts(compose(history)).replace("\n", " ")


def test_a_search_without_seeds_is_said_to_have_ended(seedless: Path) -> None:
    history = History.read(seedless)
    assert history.is_stranded
    assert "the search has ended, since no seed is left; 2 of 2 trials show a violation" in checks(history)
    assert [bool(moment.frontier.any()) for moment in history.moments] == [True, False]


def test_of_a_plane_hardly_touched_only_that_part_is_drawn() -> None:
    problem = Problem.on_grid([np.linspace(0, 500, 51), np.linspace(0, 200, 41)], seeds=[Returns(200, 5)], limits=20.0)
    optimizer = SafeOptimizer(problem, Schedule(trials=1))
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, [Returns(200, cost) for cost in (4, 5, 6, 5)])
    history = History.from_optimizer(optimizer)
    ax = axes()
    draw_plane(ax, history, 0)
    assert 0 < ax.get_xlim()[0] < 200 < ax.get_xlim()[1] < 500
    assert ax.get_ylim()[1] < 100
    near = candidates_near(history, 0)
    assert set(np.flatnonzero(history.moments[0].safe | history.moments[0].frontier)) < set(near.tolist())
    assert "where they were tried or considered" in _texts(compose(history))


def test_all_of_a_plane_that_was_mostly_touched_is_drawn(history: History) -> None:
    reached = replace(history.moments[-1], frontier=np.ones(len(history.problem.candidates), dtype=bool))
    all_reached = replace(history, moments=(*history.moments[:-1], reached))
    ax = axes()
    draw_plane(ax, all_reached, 0)
    Z = history.problem.candidates
    assert ax.get_xlim()[0] < Z[:, 0].min() < Z[:, 0].max() < ax.get_xlim()[1]
    assert "where they were tried or considered" not in _texts(compose(all_reached))


def _texts(figure: Figure) -> str:
    return " ".join(text.get_text() for part in figure.subfigs for text in part.texts) + " ".join(
        part.get_suptitle() for part in figure.subfigs
    )


def test_the_whole_picture_has_all_panels(history: History, tmp_path: Path) -> None:
    figure = compose(history, truth=SIMULATION.map, title="a run")
    visible = [ax for ax in figure.axes if ax.get_visible()]
    assert len(visible) == 1 + len(moments_shown(12)) + 3
    save(figure, tmp_path / "made" / "report.png")
    assert (tmp_path / "made" / "report.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "made" / "report.png").stat().st_size > 50_000


def test_no_text_runs_out_of_the_picture(history: History) -> None:
    figure = compose(history, truth=SIMULATION.map, title="a run")
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    box = figure.get_tightbbox()  # inches
    assert min(box.x0, box.y0) >= 0
    assert box.x1 * figure.dpi <= width
    assert box.y1 * figure.dpi <= height


def test_the_longest_legend_leaves_the_title_free() -> None:
    optimizer = reckless()
    figure = compose(History.from_optimizer(optimizer), truth=Simulation(family="cliff", seed=1).map)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    legend = ax.get_legend()
    assert legend is not None
    names = {text.get_text() for text in legend.get_texts()}
    assert {"limit", "true mean", "shows a violation", "violation in truth", "explore stage"} <= names
    assert not legend.get_window_extent().overlaps(ax._left_title.get_window_extent())


def test_several_costs_have_a_panel_each(tmp_path: Path) -> None:
    history = two_costs()
    figure = compose(history)
    assert [ax.get_ylabel() for ax in figure.axes[:2]] == ["mean cost 1 per episode", "mean cost 2 per episode"]
    titles = [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel().startswith("target")]
    assert titles == ["target cost 1", "target cost 2"]
    save(figure, tmp_path / "report.svg")
    assert "limits 20 and 1" in settings(history)


def test_a_run_without_trials_can_be_drawn(tmp_path: Path) -> None:
    save(compose(History.from_optimizer(SafeOptimizer(SIMULATION.problem(0.1)))), tmp_path / "empty.pdf")
    assert (tmp_path / "empty.pdf").read_bytes().startswith(b"%PDF")


def test_an_unknown_format_is_refused(history: History, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.png, \.pdf, \.svg"):
        save(compose(history), tmp_path / "report.bmp")
    assert list(tmp_path.iterdir()) == []


def test_drawing_does_not_touch_pyplot(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it fails now
    compose(history)


@pytest.mark.parametrize(("count", "shown"), [(0, []), (1, [0]), (3, [0, 1, 2]), (30, [0, 1, 3, 7, 14, 29])])
def test_moments_begin_dense_and_end_with_the_last(count: int, shown: list[int]) -> None:
    assert moments_shown(count) == shown


def test_the_guarantee_names_its_assumptions(history: History) -> None:
    text = guarantee(history)
    assert text.startswith("Guarantee: with probability at least 0.9, no target that is tried breaks the limit.")
    assert all(f"({number})" in text for number in (1, 2, 3))
    assert "not of a single episode" in text


def test_a_fixed_multiplier_is_not_called_a_guarantee() -> None:
    with pytest.warns(UserWarning, match="bounds no probability"):
        optimizer = SafeOptimizer(SIMULATION.problem(0.1), Schedule(risk="fixed", multiplier=4.0))
    assert guarantee(History.from_optimizer(optimizer)).startswith("No guarantee")
