import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from lifesafe.errors import ConfigError
from lifesafe.theory.bounds import (
    GainBound,
    greedy_information_gain,
    greedy_information_gain_on,
    information_gain,
    ledger_multiplier,
    paper_multiplier,
    residual_variances,
)
from lifesafe.theory.kernels import correlation_matrix

KERNELS = ("rbf", "matern32", "matern52")


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


def test_ledger_multiplier_inverts_the_tail():
    for risk in (1e-12, 0.001, 0.01, 0.5, 0.9):
        alpha = ledger_multiplier(risk)
        assert norm.sf(alpha) == pytest.approx(risk, rel=1e-9)
    assert ledger_multiplier(0.01) == pytest.approx(2.326, abs=0.001)


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_information_gain_equals_the_determinant(n, seed):
    random = np.random.default_rng(seed)
    A = random.normal(size=(n, n))
    K, noise = A @ A.T, random.uniform(0.1, 3.0, n)
    root = np.diag(noise**-0.5)
    expected = 0.5 * np.linalg.slogdet(np.eye(n) + root @ K @ root)[1]
    assert information_gain(K, noise) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_information_gain_takes_one_noise_variance_for_all():
    K = correlation_matrix("rbf", square(3), square(3))
    assert information_gain(K, 0.2) == pytest.approx(information_gain(K, np.full(9, 0.2)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_greedy_gain_is_the_gain_of_its_own_choice(kernel):
    Z = square(6)
    K = 4.0 * correlation_matrix(kernel, Z, Z)
    greedy = greedy_information_gain(K, 0.3, 60)
    for N in (1, 2, 10, 60):
        chosen = greedy.indices[:N]
        assert greedy.values[N - 1] == pytest.approx(information_gain(K[np.ix_(chosen, chosen)], 0.3), rel=1e-8)


def test_greedy_picks_the_most_informative_point_at_every_step():
    Z = square(4)
    K = correlation_matrix("matern52", Z, Z)
    chosen = []
    for index in greedy_information_gain(K, 0.1, 6).indices:
        gains = [information_gain(K[np.ix_([*chosen, i], [*chosen, i])], 0.1) for i in range(len(Z))]
        assert gains[index] == pytest.approx(max(gains), rel=1e-12)
        chosen.append(index)


def test_greedy_on_candidates_equals_greedy_on_their_matrix():
    Z = square(12)
    one = greedy_information_gain(2.5 * correlation_matrix("matern32", Z, Z), 0.1, 50)
    two = greedy_information_gain_on("matern32", Z, 0.1, 50, variance=2.5)
    np.testing.assert_allclose(two.values, one.values, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise_variance", [0.01, 0.3, 5.0])
def test_upper_bounds_cover_the_best_choice_found_by_trying_all(kernel, noise_variance):
    Z = np.random.default_rng(3).random((6, 2)) / 0.4
    K = 2.0 * correlation_matrix(kernel, Z, Z)
    greedy = greedy_information_gain(K, noise_variance, 4)
    bound = GainBound.on(kernel, Z, noise_variance, variance=2.0)
    for N in range(1, 5):
        choices = itertools.combinations_with_replacement(range(6), N)
        best = max(information_gain(K[np.ix_(c, c)], noise_variance) for c in choices)
        assert greedy.values[N - 1] <= best * (1 + 1e-12)
        assert best <= greedy.upper[N - 1]
        assert best <= bound(N) * (1 + 1e-12)
        assert best <= bound._nystrom(N) * (1 + 1e-12)
        assert best <= bound._spectral(N) * (1 + 1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gain_bound_covers_greedy_and_even_designs_on_a_grid(kernel):
    Z = square(9)
    K = correlation_matrix(kernel, Z, Z)
    greedy = greedy_information_gain(K, 0.05, 400)
    bound = GainBound.on(kernel, Z, 0.05)
    for N in (1, 3, 10, 81, 400):
        assert greedy.values[N - 1] <= bound(N) * (1 + 1e-9)
    # N / n observations of every candidate, for N far beyond what can be chosen one by one.
    eigenvalues = np.maximum(np.linalg.eigvalsh(K), 0)
    for N in (10**4, 10**7, 10**10):
        assert 0.5 * np.sum(np.log1p(N / 81 * eigenvalues / 0.05)) <= bound(N)


def test_gain_bound_grows_with_the_trials_and_shrinks_with_the_noise():
    Z = square(10)
    values = [GainBound.on("rbf", Z, 0.05)(N) for N in (1, 2, 5, 20, 100, 1000, 10**6)]
    assert np.all(np.diff(values) > 0)
    assert GainBound.on("rbf", Z, 0.5)(100) < GainBound.on("rbf", Z, 0.05)(100)


def test_gain_bound_of_rbf_grows_like_a_power_of_the_logarithm():
    bound = GainBound.on("rbf", square(20), 0.05)
    ratios = [bound(N) / math.log(N) ** 3 for N in (10**2, 10**4, 10**6, 10**8)]
    assert np.all(np.diff(ratios) < 0)
    assert bound(10**6) < 0.001 * 10**6


def test_gain_bound_without_eigenvalues_still_covers_the_greedy_gain():
    Z = square(51)
    bound = GainBound.on("matern32", Z, 0.1, ranks=60)
    assert not len(bound.eigenvalues)
    greedy = greedy_information_gain_on("matern32", Z, 0.1, 60)
    assert all(greedy.values[N - 1] <= bound(N) for N in (1, 10, 60))


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
        (lambda: ledger_multiplier(0.0), "Got risk = 0.0"),
        (lambda: ledger_multiplier(float("nan")), "Got risk = nan"),
        (lambda: information_gain(np.ones((2, 3)), 1.0), r"shape \(2, 3\); give a square matrix"),
        (lambda: information_gain(np.eye(2), np.array([1.0, 0.0])), "Got a noise variance of 0.0"),
        (lambda: greedy_information_gain(np.ones((2, 3)), 1.0, 1), "give a square matrix"),
        (lambda: greedy_information_gain(np.eye(2), 0.0, 1), "Got noise variance = 0.0"),
        (lambda: greedy_information_gain(np.eye(2), 1.0, 0), "Got observations = 0"),
        (lambda: greedy_information_gain_on("rbf", np.empty((0, 2)), 1.0, 1), r"shape \(0, 2\)"),
        (lambda: GainBound.on("rbf", np.array([[np.nan]]), 1.0), "finite numbers"),
        (lambda: GainBound.on("rbf", np.zeros((1, 1)), 1.0)(0), "Got observations = 0"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
