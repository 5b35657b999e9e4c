import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from lifesafe.errors import ConfigError
from lifesafe.lab.theory.bounds import (
    GainBound,
    paper_multiplier,
    residual_variances,
)
from lifesafe.lab.theory.kernels import correlation_matrix

KERNELS = ("rbf", "matern32", "matern52")


def information_gain(K, noise_variance):
    return 0.5 * np.linalg.slogdet(np.eye(len(K)) + K / noise_variance)[1]


def greedy_choice(K, noise_variance, observations):
    """Return the candidates observed one by one, each where the most is unknown."""
    left, chosen = K.copy(), []
    for _ in range(observations):
        best = int(np.argmax(np.diag(left)))
        left -= np.outer(left[best], left[best]) / (left[best, best] + noise_variance)
        chosen.append(best)
    return chosen


def square(points, length_scale=0.3):
    axis = np.linspace(0, 1, points) / length_scale
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize(
    ("candidates", "trial", "delta", "events", "expected"),
    [(400, 1, 0.05, 1, 4.36), (400, 1, 0.05, 2, 4.51), (1476, 1, 0.1, 1, 4.49), (1476, 1, 0.05, 2, 4.79)],
)
def test_paper_multiplier_has_the_values_worked_out_by_hand(candidates, trial, delta, events, expected):
    assert paper_multiplier(candidates, trial, delta, events=events) == pytest.approx(expected, abs=0.005)


@given(st.integers(1, 10**6), st.integers(1, 10**12), st.floats(1e-9, 0.99))
def test_paper_multiplier_follows_equation_5(candidates, trial, delta):
    expected = math.sqrt(2 * math.log(candidates * float(trial) ** 2 * math.pi**2 / (6 * delta)))
    assert paper_multiplier(candidates, trial, delta) == pytest.approx(expected, rel=1e-12)


def test_bands_of_the_paper_sum_to_less_than_delta_over_candidates_and_trials():
    trials = range(1, 2000)
    risk = sum(50 * 2 * norm.sf(paper_multiplier(50, j, 0.1)) for j in trials)
    assert 0 < risk < 0.1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise_variance", [0.01, 0.3, 5.0])
def test_upper_bounds_cover_the_best_choice_found_by_trying_all(kernel, noise_variance):
    Z = np.random.default_rng(3).random((6, 2)) / 0.4
    K = 2.0 * correlation_matrix(kernel, Z, Z)
    bound = GainBound.on(kernel, Z, noise_variance, variance=2.0)
    for N in range(1, 5):
        choices = itertools.combinations_with_replacement(range(6), N)
        best = max(information_gain(K[np.ix_(c, c)], noise_variance) for c in choices)
        assert best <= bound(N) * (1 + 1e-12)
        assert best <= bound._nystrom(N) * (1 + 1e-12)
        assert best <= bound._spectral(N) * (1 + 1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gain_bound_covers_greedy_and_even_designs_on_a_grid(kernel):
    Z = square(9)
    K = correlation_matrix(kernel, Z, Z)
    chosen = greedy_choice(K, 0.05, 400)
    bound = GainBound.on(kernel, Z, 0.05)
    for N in (1, 3, 10, 81, 400):
        assert information_gain(K[np.ix_(chosen[:N], chosen[:N])], 0.05) <= bound(N) * (1 + 1e-9)
    # N / n observations of every candidate, for N far beyond what can be chosen one by one.
    eigenvalues = np.maximum(np.linalg.eigvalsh(K), 0)
    for N in (10**4, 10**7, 10**10):
        assert 0.5 * np.sum(np.log1p(N / 81 * eigenvalues / 0.05)) <= bound(N)


def test_gain_bound_grows_with_the_trials_and_shrinks_with_the_noise():
    Z = square(10)
    values = [GainBound.on("rbf", Z, 0.05)(N) for N in (1, 2, 5, 20, 100, 1000, 10**6)]
    assert np.all(np.diff(values) > 0)
    assert GainBound.on("rbf", Z, 0.5)(100) < GainBound.on("rbf", Z, 0.05)(100)


def test_gain_bound_without_eigenvalues_still_covers_the_greedy_gain():
    Z = square(51)
    bound = GainBound.on("matern32", Z, 0.1, ranks=60)
    assert not len(bound.eigenvalues)
    K = correlation_matrix("matern32", Z, Z)
    chosen = greedy_choice(K, 0.1, 60)
    assert all(information_gain(K[np.ix_(chosen[:N], chosen[:N])], 0.1) <= bound(N) for N in (1, 10, 60))


def test_residual_variances_are_those_left_by_exact_observations():
    Z = square(5)
    K = 3.0 * correlation_matrix("matern52", Z, Z)
    chosen, expected = [], [3.0]
    left = np.diag(K)
    for _ in range(6):
        chosen.append(int(np.argmax(left)))
        left = np.diag(K - K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen]))
        expected.append(left.max())
    np.testing.assert_allclose(residual_variances("matern52", Z, 6, variance=3.0), expected, rtol=1e-8)


def test_residual_variances_end_with_the_candidates_or_with_rounding():
    assert len(residual_variances("matern32", square(3), 100)) == 10
    assert len(residual_variances("rbf", square(20, 2.0), 400)) < 100


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper_multiplier(0, 1, 0.1), "Got candidates = 0; give a whole number of at least 1"),
        (lambda: paper_multiplier(10, 1.5, 0.1), "Got trial = 1.5"),
        (
            lambda: paper_multiplier(10, 1, 1.0),
            "Got delta = 1.0; give a probability strictly between 0 and 1",
        ),
        (lambda: paper_multiplier(10, 1, 0.1, events=0), "Got events = 0"),
        (lambda: GainBound.on("rbf", np.array([[np.nan]]), 1.0), "finite numbers"),
        (lambda: GainBound.on("rbf", np.zeros((1, 1)), 1.0)(0), "Got observations = 0"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
