import inspect

import numpy as np
import pytest

from lifesafe.theory.held_out import HELD_OUT
from lifesafe.theory.simulators import FAMILIES

DRAWS = 60
# The steepest cliff between neighbors of a 60 x 60 grid: 40 of cost, the middle half within 20 of 500 units.
STEEPEST = 40 * np.tanh(500 / 59 * 2.2 / 20 / 4)

each_family = pytest.mark.parametrize("name", HELD_OUT)


def draws(name):
    return [HELD_OUT[name](np.random.default_rng([101, number])) for number in range(DRAWS)]


def test_there_are_five_and_none_is_among_those_tuned_on():
    assert len(HELD_OUT) == 5
    assert not set(HELD_OUT) & set(FAMILIES)
    assert all(inspect.getmodule(family).__name__ == "lifesafe.theory.held_out" for family in HELD_OUT.values())


@each_family
def test_the_same_generator_gives_the_same_map_and_episodes(name):
    one, same, other = (HELD_OUT[name](np.random.default_rng(seed)) for seed in (5, 5, 6))
    for field in ("reward_axis", "cost_axis", "reward", "cost"):
        np.testing.assert_array_equal(getattr(one, field), getattr(same, field))
    for field in ("limit", "seed", "law", "shape", "reward_sd"):
        assert getattr(one, field) == getattr(same, field)
    assert not np.array_equal(one.cost, other.cost)
    assert not np.array_equal(one.reward, other.reward)
    episodes = [each.draw(each.seed, 20, np.random.default_rng(1)) for each in (one, same)]
    np.testing.assert_array_equal(*episodes)


@each_family
def test_the_units_are_those_of_the_other_families(name):
    for drawn in draws(name):
        np.testing.assert_allclose(drawn.reward_axis, np.linspace(0, 500, 60))
        np.testing.assert_allclose(drawn.cost_axis, np.linspace(0, 60, 60))
        assert drawn.limit == 20
        assert drawn.reward.shape == drawn.cost.shape == (60, 60)
        assert drawn.reward.min() >= 0
        assert drawn.reward.max() <= 550
        assert drawn.cost.min() >= 0
        assert drawn.cost.max() <= 75


@each_family
def test_the_seed_is_safe_and_lies_low(name):
    for drawn in draws(name):
        reward_target, cost_target = drawn.candidates[drawn.seed]
        assert 0.35 * 500 <= reward_target <= 0.65 * 500
        assert cost_target <= 5
        assert drawn.cost.flat[drawn.seed] <= 0.6 * drawn.limit


@each_family
def test_a_reachable_target_beats_the_seed_by_a_tenth(name):
    gains = [drawn.reward.flat[drawn.is_reachable].max() / drawn.reward.flat[drawn.seed] for drawn in draws(name)]
    assert np.mean(np.array(gains) >= 1.1) >= 0.9


@each_family
def test_a_twentieth_of_the_grid_is_unsafe(name):
    assert all(np.mean(~drawn.is_safe) >= 0.05 for drawn in draws(name))


@each_family
def test_no_cost_is_steeper_than_the_cliff(name):
    for drawn in draws(name):
        along_reward, along_cost = np.diff(drawn.cost, axis=0)[:, :-1], np.diff(drawn.cost, axis=1)[:-1]
        assert np.hypot(along_reward, along_cost).max() <= STEEPEST


@each_family
def test_episodes_have_the_true_means(name):
    rng = np.random.default_rng(7)
    for drawn in draws(name)[:10]:
        best = np.where(drawn.is_reachable, drawn.reward.ravel(), -np.inf).argmax()
        for index in (drawn.seed, int(best), int(drawn.cost.argmax()), int(drawn.cost.argmin())):
            episodes = drawn.draw(index, 4000, rng)
            assert episodes.shape == (4000, 2)
            assert episodes[:, 1].min() >= 0
            error = episodes.mean(axis=0) - [drawn.reward.flat[index], drawn.cost.flat[index]]
            assert np.all(np.abs(error) <= 5 * episodes.std(axis=0) / np.sqrt(4000))
