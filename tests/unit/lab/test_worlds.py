import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import ConfigError, DatasetError
from lifesafe.lab.coverage.laws import Law, lumps, nearly_fixed, negative_binomial, poisson, steady_with_falls
from lifesafe.lab.coverage.worlds import FAMILIES, HELD_OUT, HELD_OUT_2, World
from measured import TASKS, plane

ALL = FAMILIES | HELD_OUT | HELD_OUT_2
PLANES = Path(__file__).parents[3] / "benchmarks" / "results" / "alignment"
LAWS = {
    "negative binomial": negative_binomial(),
    "heavy": negative_binomial(0.5),
    "poisson": poisson(),
    "nearly fixed": nearly_fixed(),
    "lumps": lumps(150.0),
    "falls": steady_with_falls(150.0),
    "small falls": steady_with_falls(13.0, share=0.3),
}
DRAWS = 20_000


def flat(costs: tuple[float, ...], law: Law, **given: float) -> World:
    """Return a world whose means are the same everywhere."""
    means = np.array([[300.0, *costs]])
    return World(
        family="flat", axes={"reward": (0.0, 500.0), "cost": (0.0, 60.0)}, start=(0.0, 0.0),
        limits=(20.0,) * len(costs), rewards=(0.0, 600.0), reward_sd=40.0, law=law,
        truth=lambda x: np.repeat(means, len(x), axis=0), **given,
    )  # fmt: skip


def assert_means_are_those_of_draws(world, draws, stop):
    means, error = world.means(np.zeros((1, 2)), stop)[0], draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - means) <= 4 * error + 1e-4), (means, draws.mean(axis=0), error)


@pytest.mark.parametrize("stop", [None, 40.0, 9.5])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_means_are_the_averages_of_many_episodes(law, stop):
    for cost in (8.0, 35.0):
        world = flat((cost,), law)
        draws = world.draw(np.zeros((DRAWS, 2)), np.random.default_rng(7), stop)
        assert_means_are_those_of_draws(world, draws, stop)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_any_of_several_costs_stops_an_episode(law):
    world = flat((12.0, 40.0, 25.0), law)
    for stop in (40.0, (25.0, 60.0, 30.0)):
        draws = world.draw(np.zeros((DRAWS, 2)), np.random.default_rng(3), stop)
        assert_means_are_those_of_draws(world, draws, stop)
        assert np.all(draws[:, 1:] <= np.broadcast_to(stop, 3) + world.largest_step)


@pytest.mark.parametrize("stop", [None, 30.0])
def test_vigorous_episodes_of_a_correlated_world_earn_and_cost_more(stop):
    world = flat((25.0,), negative_binomial(), correlation=0.3)
    draws = world.draw(np.zeros((DRAWS, 2)), np.random.default_rng(2), stop)
    assert_means_are_those_of_draws(world, draws, stop)
    assert stop or np.corrcoef(draws.T)[0, 1] > 0.3


@pytest.mark.parametrize("stop", [None, 40.0])
def test_means_are_averages_over_days(stop):
    world, rng = flat((25.0,), negative_binomial(), day=0.6), np.random.default_rng(5)
    trials = np.array([world.draw(np.zeros((5, 2)), rng, stop).mean(axis=0) for _ in range(1500)])
    assert_means_are_those_of_draws(world, trials, stop)


def test_episodes_of_one_trial_share_their_day():
    world, rng = flat((1000.0,), poisson(), day=0.6), np.random.default_rng(6)
    days = np.array([world.draw(np.zeros((10, 2)), rng)[:, 1] for _ in range(1000)]) / 1000.0
    assert days.std(axis=1).max() < 0.3 * days.mean(axis=1).std()
    assert np.log(days.mean(axis=1)).std() == pytest.approx(0.6, rel=0.1)
    assert days.mean() == pytest.approx(1.0, abs=4 * 0.66 / np.sqrt(1000))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_stop_lowers_the_mean_and_bounds_every_episode(law):
    world = flat((35.0,), law)
    means = [world.means(np.zeros((1, 2)), stop)[0] for stop in (20.0, 40.0, 60.0, 5000.0, None)]
    assert all(np.all(a < b + 1e-12) for a, b in itertools.pairwise(means))
    assert means[-2] == pytest.approx(means[-1])
    assert np.all(means[0] < means[-1])
    draws = world.draw(np.zeros((DRAWS, 2)), np.random.default_rng(1), 19.5)
    assert 19.5 <= draws[:, 1].max() <= 19.5 + world.largest_step
    assert 0 <= draws[:, 0].min() <= draws[:, 0].max() <= 600


@pytest.mark.parametrize("name", ALL)
def test_worlds_begin_safely_inside_their_box_with_something_to_gain(name):
    for number in range(2):
        world = ALL[name](np.random.default_rng(number))
        assert world.family == name
        assert all(low <= at <= high for at, (low, high) in zip(world.start, world.axes.values(), strict=True))
        means = world.means(np.array([world.start]))[0]
        assert np.all(means[1:] <= 0.5 * np.array(world.limits))
        reached = world.best(connected=True)
        assert reached.best - means[0] >= 0.09 * (reached.best - reached.lowest)
        assert reached.best <= world.best(connected=False).best
        assert np.all(world.means(np.array([reached.target]))[0, 1:] <= world.limits)
        draws = world.draw(np.array([world.start] * 50), np.random.default_rng(0), 60.0)
        assert world.rewards[0] <= draws[:, 0].min() <= draws[:, 0].max() <= world.rewards[1]


@pytest.mark.parametrize("name", ALL)
def test_the_same_generator_gives_the_same_world_and_episodes(name):
    worlds = [ALL[name](np.random.default_rng(5)) for _ in range(2)]
    points = np.array([worlds[0].start] * 3)
    draws = [world.draw(points, np.random.default_rng(1), 40.0) for world in worlds]
    assert worlds[0].start == worlds[1].start
    assert np.array_equal(*draws)


def test_the_best_of_six_knobs_is_far_from_the_start():
    worlds = [FAMILIES["knobs_6"](np.random.default_rng(number)) for number in range(5)]
    assert all(np.abs(np.subtract(world.best(connected=False).target, world.start)).max() > 0.25 for world in worlds)


def test_unreachable_targets_count_only_when_connection_is_not_asked_for():
    def truth(x):
        return np.column_stack([500 * x[:, 0], 100.0 * ((x[:, 0] > 0.4) & (x[:, 0] < 0.6))])

    world = replace(flat((0.0,), poisson()), truth=truth)
    assert world.best(connected=True).best == pytest.approx(200.0, abs=10.0)
    assert world.best(connected=False).best == pytest.approx(500.0)


def test_targets_outside_of_the_box_and_impossible_worlds_are_refused():
    world = flat((20.0,), poisson())
    with pytest.raises(ConfigError, match="outside"):
        world.means(np.array([[600.0, 0.0]]))
    with pytest.raises(ConfigError, match="axes"):
        world.means(np.zeros((1, 3)))
    with pytest.raises(ConfigError, match="start"):
        replace(world, start=(0.0,))
    with pytest.raises(ConfigError, match="correlation"):
        replace(world, correlation=0.3)
    with pytest.raises(ConfigError, match="largest_step"):
        replace(world, largest_step=0.5)
    with pytest.raises(ConfigError, match="share"):
        Law(share=2.0)


@pytest.mark.parametrize("task", TASKS)
def test_planes_agree_with_what_was_measured(task):
    points = json.loads((PLANES / f"{task}.json").read_text())["points"]
    worlds = {(seed, limit): plane(PLANES, task, seed, limit) for seed in (0, 1, 2) for limit in (20.0, 40.0)}
    assert any(worlds.values())
    for (seed, _), world in worlds.items():
        if world is None:
            continue
        (left, right), (_, top) = world.axes.values()
        inside = [point for point in points if point["seed"] == seed and point["target"][1] <= top]
        targets = np.array([point["target"] for point in inside]).clip([left, 0.0], [right, top])
        largest = 150.0 if task == "AntCircle" else np.inf
        measured = np.minimum([point["mean"] for point in inside], [np.inf, largest])
        assert world.means(targets) == pytest.approx(measured, rel=1e-4, abs=1e-3)
        assert world.means(np.array([world.start]))[0, 1] <= 0.5 * world.limits[0]
        reached = world.best(connected=True)
        assert reached.best >= world.means(np.array([world.start]))[0, 0] >= reached.lowest


def test_a_plane_that_was_never_measured_is_refused():
    assert plane(PLANES, "CarCircle", 99, 20.0) is None
    with pytest.raises(DatasetError, match="NoTask"):
        plane(PLANES, "NoTask", 0, 20.0)
