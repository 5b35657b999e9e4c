"""The filters of DSRL do what they say, and only that."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.data import (
    Dataset,
    Region,
    add_noise,
    add_outliers,
    cut_out,
    density,
    thin,
    thinned,
    without_best,
)
from lifesafe.errors import ConfigError, DatasetError
from logs import dataset, datasets, plane

# Four corners of the plane, (reward, cost), and a crowd in the middle.
CORNERS = [(0.0, 0.0), (0.0, 40.0), (100.0, 0.0), (100.0, 40.0)]
CROWD = [(50.0, 20.0)] * 6


@given(datasets(), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_thinning_keeps_no_more_than_asked_of_any_cell(
    made: Dataset, cost_bins: int, reward_bins: int, most: int, fewest: int, seed: int
) -> None:
    returns = made.returns
    kept = thinned(returns, cost_bins=cost_bins, reward_bins=reward_bins, most=most, fewest=fewest, seed=seed)
    low, high = returns.min(axis=0), returns.max(axis=0)
    bins = [reward_bins, *[cost_bins] * made.costs.shape[1]]

    def cell(index: int) -> tuple[int, ...]:
        fractions = np.where(high > low, (returns[index] - low) / np.where(high > low, high - low, 1), 0)
        return tuple(min(int(f * b), b - 1) for f, b in zip(fractions, bins, strict=True))

    before, after = Counter(map(cell, range(len(made)))), Counter(map(cell, kept))
    assert after == {place: min(size, most) for place, size in before.items() if size >= fewest}
    assert list(kept) == sorted(set(kept))


def test_thinning_cuts_the_crowd_and_keeps_the_corners() -> None:
    made = plane(CORNERS + CROWD)
    kept = thin(made, cost_bins=3, reward_bins=3, most=2, seed=0)
    assert sorted(map(tuple, kept.returns)) == sorted([*CORNERS, *CROWD[:2]])


def test_thinning_empties_cells_with_few() -> None:
    kept = thin(plane(CORNERS + CROWD), cost_bins=3, reward_bins=3, most=9, fewest=2, seed=0)
    assert sorted(map(tuple, kept.returns)) == CROWD


def test_which_episodes_stay_depends_on_the_seed_alone() -> None:
    made = dataset(200)
    grid = {"cost_bins": 2, "reward_bins": 2, "most": 5}
    first, again, other = (thin(made, **grid, seed=seed).fingerprint for seed in (0, 0, 1))
    assert first == again != other


def test_every_episode_of_a_cell_may_stay() -> None:
    returns = np.tile([1.0, 2.0], (6, 1))
    seen = {tuple(thinned(returns, cost_bins=1, reward_bins=1, most=1, seed=seed)) for seed in range(100)}
    assert seen == {(index,) for index in range(6)}


def test_thinning_to_nothing_is_refused() -> None:
    with pytest.raises(DatasetError, match="No cell of the grid holds 3"):
        thin(plane(CORNERS), cost_bins=2, reward_bins=2, most=9, fewest=3, seed=0)
    with pytest.raises(ConfigError, match="most must be at least 1; got 0"):
        thin(plane(CORNERS), cost_bins=2, reward_bins=2, most=0, seed=0)


def test_densities_of_dsrl_fit_into_thin() -> None:
    assert density("CarCircle", 0.75) == {"cost_bins": 10, "reward_bins": 50, "most": 9, "fewest": 3}
    assert len(thin(dataset(100), **(density("Walker2dVelocity", 0.5) | {"fewest": 1}), seed=0)) > 0


def test_a_task_without_densities_is_told_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"'HopperVelocity'.*your own numbers"):
        density("HopperVelocity", 0.5)
    with pytest.raises(ConfigError, match=r"shares of 0.5 and 0.75; got 0.1"):
        density("AntRun", 0.1)


def test_outliers_look_safe_and_better_than_they_were() -> None:
    made = plane([(10.0, 0.0)] * 10 + [(100.0, 40.0)] * 10, steps=50)
    changed = add_outliers(made, fraction=0.2, limits=20.0, seed=0)
    outliers = np.flatnonzero((changed.returns != made.returns).any(axis=1))
    assert len(outliers) == 4
    assert outliers.min() >= 10  # only risky ones
    np.testing.assert_allclose(changed.returns[outliers, 0], 150.0, rtol=1e-6)
    assert (changed.returns[outliers, 1] < 20).all()
    assert set(np.unique(changed.select(outliers).costs)) <= {0.0, 1.0}
    np.testing.assert_array_equal(changed.observations, made.observations)
    np.testing.assert_allclose(made.returns[10:, 1], 40.0, rtol=1e-6)  # the given one is as it was


def test_outliers_of_several_costs_keep_every_limit() -> None:
    made = dataset(60, longest=40, costs=2)
    changed = add_outliers(made, fraction=0.05, limits=(5.0, 2.0), seed=1)
    outliers = (changed.rewards != made.rewards)[changed.offsets[:-1]]
    assert outliers.sum() == 3
    assert (changed.returns[outliers, 1:] < (5.0, 2.0)).all()


def test_an_outlier_may_be_shorter_than_the_limit() -> None:
    made = plane([(10.0, 2.0)], steps=2)
    assert all(add_outliers(made, fraction=1.0, limits=100.0, seed=seed).returns[0, 1] <= 2 for seed in range(5))


def test_too_few_risky_episodes_are_refused() -> None:
    made = plane([(10.0, 0.0)] * 9 + [(100.0, 40.0)])
    with pytest.raises(DatasetError, match="5 episodes are to become outliers, but only 1"):
        add_outliers(made, fraction=0.5, limits=20.0, seed=0)
    with pytest.raises(ConfigError, match="fraction must lie between 0 and 1; got 2"):
        add_outliers(made, fraction=2, limits=20.0, seed=0)
    with pytest.raises(ConfigError, match=r"at least 1; got 0\.5"):
        add_outliers(made, fraction=0.1, limits=0.5, seed=0)


def test_a_region_is_cut_out() -> None:
    made = plane(CORNERS + CROWD)
    kept = cut_out(made, [(0.25, 0.75, 0.0, 1.0)])
    assert sorted(map(tuple, kept.returns)) == sorted(CORNERS)


def test_several_regions_are_cut_out_in_any_order() -> None:
    made = plane(CORNERS + CROWD)
    regions = [Region(0.0, 0.1, 0.5, 1.0), Region(0.9, 1.0, 0.0, 0.4), Region(0.6, 0.8, 0.0, 1.0)]
    kept = cut_out(made, regions)
    assert sorted(map(tuple, kept.returns)) == sorted([CORNERS[0], CORNERS[3], *CROWD])
    assert cut_out(made, regions[::-1]).fingerprint == kept.fingerprint


def test_reward_sides_are_measured_within_the_cost_sides() -> None:
    made = plane([(0.0, 0.0), (50.0, 0.0), (60.0, 40.0), (100.0, 40.0)])
    kept = cut_out(made, [(0.9, 1.0, 0.0, 0.1)])
    assert sorted(map(tuple, kept.returns)) == [(0.0, 0.0), (50.0, 0.0), (100.0, 40.0)]


@pytest.mark.parametrize("region", [(0.5, 0.2, 0, 1), (0, 1, -0.1, 1), (0, 2, 0, 1), (0, 1, float("nan"), 1)])
def test_a_region_has_sides_in_order(region: tuple[float, float, float, float]) -> None:
    with pytest.raises(ConfigError, match="fractions between 0 and 1"):
        cut_out(plane(CORNERS), [region])


def test_nothing_left_is_refused() -> None:
    with pytest.raises(DatasetError, match="none was selected"):
        cut_out(plane(CORNERS), [(0, 1, 0, 1)])


def test_the_best_safe_or_unsafe_episodes_are_left_out() -> None:
    made = plane([(10.0, 0.0), (70.0, 20.0), (80.0, 10.0), (200.0, 30.0), (300.0, 40.0)])
    harder = without_best(made, limits=20.0, within=10.0)
    assert sorted(harder.returns[:, 0]) == [10.0, 200.0, 300.0]
    easier = without_best(made, limits=20.0, within=10.0, among="unsafe")
    assert sorted(easier.returns[:, 0]) == [10.0, 70.0, 80.0, 200.0]


def test_there_must_be_a_best_one() -> None:
    with pytest.raises(DatasetError, match="No episode is safe under the limits 1"):
        without_best(plane([(10.0, 4.0)]), limits=1.0, within=0.0)
    with pytest.raises(ConfigError, match="within must not be negative"):
        without_best(plane([(10.0, 4.0)]), limits=1.0, within=-1.0)


def test_an_observation_has_the_same_noise_before_and_after_a_step() -> None:
    made = dataset(30, longest=9)
    noisy = add_noise(made, scale=0.5, seed=0)
    inner = np.setdiff1d(np.arange(made.transitions), made.offsets[1:] - 1)
    np.testing.assert_array_equal(noisy.next_observations[inner], noisy.observations[inner + 1])
    last = made.offsets[1:] - 1
    assert (noisy.next_observations[last] != made.next_observations[last]).all()


def test_noise_has_the_size_that_was_asked_for() -> None:
    made = dataset(2000, longest=20)
    noise = add_noise(made, scale=0.5, seed=0).observations - made.observations
    assert noise.std() == pytest.approx(0.5 * made.observations.std(), rel=0.02)
    assert abs(noise.mean()) < 0.01
    assert add_noise(made, scale=0.0, seed=0).fingerprint == made.fingerprint


def test_noise_depends_on_its_seed_and_changes_observations_alone() -> None:
    made = dataset(5)
    first, again, other = (add_noise(made, scale=0.1, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    for name in ("actions", "rewards", "costs", "offsets", "terminated"):
        np.testing.assert_array_equal(getattr(first, name), getattr(made, name))
    with pytest.raises(ConfigError, match="scale must not be negative"):
        add_noise(made, scale=-1.0, seed=0)
