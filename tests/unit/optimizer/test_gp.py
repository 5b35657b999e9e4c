"""GridGP beyond its posterior, which tests/reference/test_gp.py compares with other implementations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.optimizer.gp import GridGP
from lifesafe.theory.kernels import correlation_matrix


def line(points: int = 11, sd: float = 2.0) -> GridGP:
    X = np.linspace(0, 1, points)[None, :]
    return GridGP(X, "matern52", (0.3,), sd, np.full(points, 5.0))


def test_without_observations_there_is_only_the_prior() -> None:
    gp = line()
    assert len(gp) == 0
    np.testing.assert_array_equal(gp.mean, np.full(11, 5.0))
    np.testing.assert_array_equal(gp.var, np.full(11, 4.0))
    assert gp.covariance_with(3)[3] == pytest.approx(4.0)


def test_the_innovation_is_standardised_by_what_was_predicted() -> None:
    gp = line()
    assert gp.append(4, 8.0, 5.0) == pytest.approx((8.0 - 5.0) / math.sqrt(4.0 + 5.0))
    mean, var = float(gp.mean[4]), float(gp.var[4])
    assert gp.append(4, 1.0, 0.5) == pytest.approx((1.0 - mean) / math.sqrt(var + 0.5))


def test_an_observation_pulls_near_candidates_more_than_far_ones() -> None:
    gp = line()
    gp.append(5, 9.0, 0.01)
    assert gp.mean[5] > gp.mean[6] > gp.mean[8] > 5.0
    assert gp.var[5] < gp.var[6] < gp.var[8] < 4.0


def test_variance_stays_positive_however_often_one_candidate_is_measured_exactly() -> None:
    gp = line()
    for _ in range(40):
        gp.append(5, 7.0, 0.0)
    assert gp.var.min() > 0
    assert gp.mean[5] == pytest.approx(7.0)
    assert np.isfinite(gp.mean).all()


def test_more_observations_than_were_foreseen_are_kept() -> None:
    gp, rng = line(), np.random.default_rng(0)
    for _ in range(50):
        gp.append(int(rng.integers(11)), float(rng.normal(5)), 0.3)
    assert len(gp) == 50
    np.testing.assert_allclose(gp.covariance(np.arange(11), np.arange(11)).diagonal(), gp.var, atol=1e-12)


def test_a_copy_goes_its_own_way() -> None:
    gp = line()
    gp.append(2, 6.0, 0.1)
    before = gp.mean.copy(), gp.var.copy(), gp.log_likelihood, gp.covariance_with(7)
    twin = gp.copy()
    np.testing.assert_array_equal(twin.mean, gp.mean)
    for _ in range(9):  # beyond the rows that were set aside
        twin.append(7, 1.0, 0.1)
    assert len(gp) == 1
    np.testing.assert_array_equal(gp.mean, before[0])
    np.testing.assert_array_equal(gp.var, before[1])
    assert gp.log_likelihood == before[2]
    np.testing.assert_array_equal(gp.covariance_with(7), before[3])


def test_the_prior_mean_given_is_not_changed() -> None:
    mean = np.full(3, 1.0)
    GridGP(np.array([[0.0, 0.5, 1.0]]), "rbf", (0.5,), 1.0, mean).append(0, 9.0, 0.1)
    np.testing.assert_array_equal(mean, np.full(3, 1.0))


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(2, 30),
    members=st.integers(1, 6),
    count=st.integers(0, 20),
    scale=st.sampled_from([0.01, 1.0, 5.0]),
)
def test_with_a_factor_the_posterior_is_that_of_dense_regression(
    seed: int, size: int, members: int, count: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    X, mean, F = rng.uniform(0, 1, (2, size)), rng.normal(0, 1, size), scale * rng.normal(0, 1, (size, members))
    indices, y = rng.integers(0, size, count), rng.normal(0, 2, count)
    noise = rng.uniform(0.05, 1.0, count)
    gp = GridGP(X, "matern32", (0.3, 0.7), 0.8, mean, F)
    innovations = [gp.append(int(i), float(v), float(s)) for i, v, s in zip(indices, y, noise, strict=True)]
    scaled = (X / np.array([[0.3], [0.7]])).T
    K = 0.64 * correlation_matrix("matern32", scaled, scaled) + F @ F.T
    C = K[np.ix_(indices, indices)] + np.diag(noise)
    gain = np.linalg.solve(C, K[indices]) if count else np.empty((0, size))
    posterior = K - K[:, indices] @ gain
    tolerance = 1e-9 * (1 + K.max())
    np.testing.assert_allclose(gp.mean, mean + gain.T @ (y - mean[indices]), atol=1e-7 * (1 + scale))
    np.testing.assert_allclose(gp.var, np.diag(posterior), atol=tolerance)
    everything = np.arange(size)
    np.testing.assert_allclose(gp.covariance(everything, everything), posterior, atol=tolerance)
    np.testing.assert_allclose(gp.covariance_with(size - 1), posterior[size - 1], atol=tolerance)
    whitened = np.linalg.solve(np.linalg.cholesky(C), y - mean[indices]) if count else np.empty(0)
    np.testing.assert_allclose(innovations, whitened, atol=1e-7)
    logs = np.log(np.diag(np.linalg.cholesky(C))).sum() if count else 0.0
    expected = -0.5 * whitened @ whitened - logs - 0.5 * count * math.log(2 * math.pi)
    assert gp.log_likelihood == pytest.approx(expected, abs=1e-7)


def test_a_factor_carries_what_is_seen_at_one_end_to_the_other() -> None:
    X, mean = np.linspace(0, 1, 11)[None, :], np.zeros(11)
    near = GridGP(X, "matern52", (0.1,), 1.0, mean)
    both = GridGP(X, "matern52", (0.1,), 1.0, mean, np.linspace(1, -2, 11)[:, None])
    for gp in (near, both):
        gp.append(0, 1.0, 0.1)
    assert abs(near.mean[10]) < 1e-3
    assert both.mean[10] < -0.5
