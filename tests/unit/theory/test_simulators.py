import numpy as np
import pytest

from lifesafe.theory.simulators import FAMILIES, GPLaw, dithered_map, gp_flat, gp_target

NAMES = sorted(FAMILIES)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_generator_draws_the_same_map(name):
    first, second = (FAMILIES[name](np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first.cost, second.cost)
    assert np.array_equal(first.reward, second.reward)
    assert first.seed == second.seed


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_safe_and_reachable_targets_are_safe(name):
    for number in range(30):
        world = FAMILIES[name](np.random.default_rng(number))
        assert world.is_safe[world.seed]
        assert world.is_reachable[world.seed]
        assert not (world.is_reachable & ~world.is_safe).any()


@pytest.mark.parametrize("name", NAMES)
def test_episodes_scatter_around_the_true_means(name):
    world = FAMILIES[name](np.random.default_rng(1))
    rng = np.random.default_rng(2)
    for index in (world.seed, int(np.flatnonzero(world.is_reachable)[-1])):
        episodes = world.draw(index, 20_000, rng)
        error = episodes.std(axis=0) / np.sqrt(len(episodes)) + 1e-9
        cost = world.cost.flat[index]
        truth = np.array([world.reward.flat[index], cost if world.law == "gaussian" else max(cost, 0.0)])
        assert (np.abs(episodes.mean(axis=0) - truth) < 5 * error).all()


def test_a_policy_asked_for_the_limit_overshoots_it():
    shares = []
    for number in range(40):
        world = FAMILIES["overshoot"](np.random.default_rng(number))
        column = np.abs(world.cost_axis - world.limit).argmin()
        shares.append(world.cost[-1, column] / world.limit)
    assert 1.3 < np.mean(shares) < 1.9


def test_the_conservative_optimum_asks_for_more_than_the_limit():
    for number in range(20):
        world = FAMILIES["conservative"](np.random.default_rng(number))
        reachable = np.flatnonzero(world.is_reachable)
        best = reachable[world.reward.reshape(-1)[reachable].argmax()]
        assert world.candidates[best, 1] > world.limit


def test_the_cliff_rises_by_its_middle_half_within_forty_units_of_reward():
    for number in range(20):
        world = FAMILIES["cliff"](np.random.default_rng(number))
        row = world.cost[:, 0]
        low, high = row.min(), row.max()
        if high - low < 24:  # an edge near the end of the axis is cut off
            continue
        quarters = np.interp([low + 0.25 * (high - low), low + 0.75 * (high - low)], row, world.reward_axis)
        assert 15 < np.diff(quarters)[0] < 45


def test_the_edge_jumps_by_more_than_a_limit_between_neighbors_and_nothing_foretells_it():
    for number in range(10):
        world = FAMILIES["edge"](np.random.default_rng(number))
        assert max(np.diff(world.cost, axis=axis).max() for axis in (0, 1)) > world.limit
        assert (world.cost < 0.1).mean() > 0.4
        assert world.cost.flat[world.seed] < 0.6 * world.limit


def test_dither_keeps_the_episodes_around_the_means_that_it_states_and_makes_edges_smooth():
    world = FAMILIES["edge"](np.random.default_rng(3))
    assert dithered_map(world, 0.0) is world
    smooth = dithered_map(world, 0.05)
    assert np.abs(np.diff(smooth.cost, axis=0)).max() < 0.25 * np.abs(np.diff(world.cost, axis=0)).max()
    index = int(np.abs(smooth.cost - world.limit).argmin())
    drawn = smooth.draw(index, 6000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn[:, 1].mean(), smooth.cost.flat[index], atol=4 * drawn[:, 1].std() / 6000**0.5)
    np.testing.assert_allclose(drawn[:, 0].mean(), smooth.reward.flat[index], atol=4 * drawn[:, 0].std() / 6000**0.5)


def test_rare_costs_come_in_lumps():
    world = FAMILIES["rare"](np.random.default_rng(0))
    costs = world.draw(world.seed, 500, np.random.default_rng(0))[:, 1]
    assert set(np.unique(costs)) == {0.0, 120.0}


@pytest.mark.parametrize(("family", "mean"), [(gp_target, "target"), (gp_flat, "limit")])
def test_gaussian_maps_have_the_stated_mean_and_deviation(family, mean):
    worlds = [family(np.random.default_rng(number), size=8) for number in range(400)]
    around = worlds[0].candidates[:, 1].reshape(8, 8) if mean == "target" else np.full((8, 8), 20.0)
    residuals = np.stack([world.cost - around for world in worlds])
    assert np.abs(residuals.mean(axis=0)).max() < 5 * 8.0 / np.sqrt(400)
    assert residuals.std() == pytest.approx(8.0, rel=0.1)


def test_a_longer_length_scale_makes_a_smoother_map():
    def roughness(lengthscale: float) -> float:
        worlds = [gp_flat(np.random.default_rng(n), size=20, law=GPLaw(lengthscale=lengthscale)) for n in range(20)]
        return float(np.mean([np.abs(np.diff(world.cost, axis=0)).mean() for world in worlds]))

    assert roughness(0.6) < 0.7 * roughness(0.3)
