"""The Gaussian process of Theorem 1 against many datasets, with fixed seeds and the tolerance of chance."""

import numpy as np
import pytest

from theorem1 import Settings, make_case, study

ASYMPTOTIC = (8_000, 32_000)  # where the remainder is small beside what a few hundred datasets can tell
# The law was first tested at ASYMPTOTIC with 2,000 datasets too, and `soft` failed at 8,000 episodes: a covariance
# error of 0.077 where chance gives 0.038. Seeds 2 to 4 gave 0.033 to 0.040, so most of that was the draw; but a tenth
# of the deviation is not of first order there, whatever the seed, which so many datasets can tell. Hence larger sizes.
LARGE = (32_000, 128_000)


def agrees(found):
    for row in found.agreements:
        assert row.covariance_error < 2.0 * row.chance_error
        assert row.remainder < 0.15
        assert min(row.distance_p_value, row.leading_p_value) > 0.001


def test_the_covariance_of_fitted_policies_is_the_predicted_one():
    found = study(make_case("unrealizable"), Settings(datasets=300, episodes=ASYMPTOTIC))
    agrees(found)
    assert all(row.scale == pytest.approx(1.0, abs=0.2) for row in found.agreements)
    assert all(row.printed_p_value < 1e-6 for row in found.agreements)
    errors = [(row.found - row.predicted) / row.error for row in found.correlations]
    assert np.sqrt(np.mean(np.square(errors))) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["soft", "stochastic", "noisy", "unrealizable"])
def test_the_law_of_fitted_policies_is_the_gaussian_process_by_episodes(name):
    found = study(make_case(name), Settings(datasets=2_000, episodes=LARGE, seed=1))
    agrees(found)
    assert all(row.scale == pytest.approx(1.0, abs=0.1) for row in found.agreements)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "horizon"), [("stochastic", 4), ("noisy", 3)])
def test_the_printed_process_has_h_times_the_variance_found(name, horizon):
    found = study(make_case(name), Settings(datasets=2_000, episodes=(32_000,), seed=2))
    assert found.agreements[0].printed_scale == pytest.approx(1 / horizon, rel=0.1)
    assert found.agreements[0].printed_p_value < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["soft", "stochastic", "noisy", "unrealizable"])
def test_deviations_shrink_with_the_root_of_n_and_the_remainder_with_n(name):
    found = study(make_case(name), Settings(datasets=1_000, episodes=(8_000, 32_000, 128_000), seed=3))
    assert found.slope is not None
    assert abs(found.slope.value + 0.5) < 4 * found.slope.error + 0.005
    sizes = np.log([row.episodes for row in found.agreements])
    slope = np.polyfit(sizes, np.log([row.remainder for row in found.agreements]), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.05)
