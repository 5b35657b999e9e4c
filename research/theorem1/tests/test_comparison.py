import math

import numpy as np
import pytest
from scipy import stats

from lifesafe.errors import ConfigError
from theorem1 import comparison

ROOT = np.random.default_rng(0).normal(size=(5, 5))
K = ROOT @ ROOT.T


def draws(count, seed=1):
    return np.random.default_rng(seed).normal(size=(count, 5)) @ ROOT.T


def test_the_error_of_the_covariance_is_what_chance_gives():
    errors = [comparison.covariance_error(draws(50, seed), K) for seed in range(400)]
    assert math.sqrt(np.mean(np.square(errors))) == pytest.approx(comparison.chance_error(K, 50), rel=0.1)


def test_the_scale_is_the_factor_between_sample_and_law():
    Y = draws(20_000)
    assert comparison.scale(Y, K) == pytest.approx(1.0, abs=0.05)
    assert comparison.scale(math.sqrt(3) * Y, K) == pytest.approx(3 * comparison.scale(Y, K))


def test_distances_are_those_of_mahalanobis():
    Y = draws(30)
    assert comparison.directions(np.eye(5)) == 5
    np.testing.assert_allclose(
        comparison.squared_distances(Y, np.cov(Y.T)), np.sort(np.sum(Y @ np.linalg.inv(np.cov(Y.T)) * Y, axis=1))
    )


def test_directions_without_variance_are_left_out():
    flat = np.diag([1.0, 0.5, 0.001, 0.0])
    assert comparison.directions(flat) == 2
    Y = np.array([[2.0, 1.0, 9.0, 9.0], [0.0, 0.0, 9.0, 9.0]])
    np.testing.assert_allclose(comparison.squared_distances(Y, flat), [0.0, 4.0 + 1.0 / 0.5])


def test_quantiles_are_those_of_chi_square():
    levels = (np.arange(9) + 0.5) / 9
    np.testing.assert_allclose(comparison.distance_quantiles(np.eye(3), 9), stats.chi2(3).ppf(levels))


def test_p_values_are_those_of_kolmogorov_and_smirnov():
    Y = draws(200)
    distances = stats.kstest(comparison.squared_distances(Y, np.eye(5)), stats.chi2(5).cdf).pvalue
    assert comparison.distance_p_value(Y, np.eye(5)) == pytest.approx(distances, abs=0.01)
    vector = np.linalg.eigh(K)[1][:, -1] / math.sqrt(np.linalg.eigvalsh(K)[-1])
    assert comparison.leading_p_value(Y, K) == pytest.approx(stats.kstest(Y @ vector, "norm").pvalue, abs=0.01)


def test_p_values_are_small_for_a_wrong_law_and_not_for_a_right_one():
    Y = draws(500)
    assert comparison.distance_p_value(Y, K) > 0.05
    assert comparison.leading_p_value(Y, K) > 0.05
    assert comparison.distance_p_value(Y, 2 * K) < 1e-6
    assert comparison.distance_p_value(np.sign(Y) * np.sqrt(np.diag(K)), K) < 1e-6


def test_the_slope_of_a_power_law_is_its_exponent():
    sizes = np.array([10.0, 100.0, 1000.0])
    slope = comparison.log_slope(sizes, 3 / np.sqrt(sizes), 0.02)
    assert slope.value == pytest.approx(-0.5)
    assert slope.error == pytest.approx(0.02 / (math.log(10) * math.sqrt(2)))


def test_the_error_of_a_deviation_is_what_chance_gives():
    found = [math.sqrt(np.trace(np.cov(draws(40, seed).T))) for seed in range(400)]
    assert np.std(found) / np.mean(found) == pytest.approx(comparison.deviation_error(K, 40), rel=0.15)


def test_a_slope_needs_two_sizes():
    with pytest.raises(ConfigError, match="a slope needs two that differ"):
        comparison.log_slope(np.array([10.0]), np.array([1.0]), 0.1)


def test_a_point_has_no_variance():
    assert comparison.has_variance(K)
    assert not comparison.has_variance(np.full((2, 2), 1e-33))
