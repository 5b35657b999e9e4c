"""The likelihood: a scale with an inverse, evidence that adds up, and a dispersion that zeros cannot argue away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.safety.likelihood import FLOOR, dispersions, floored, mean_of, scale_of
from lifesafe.safety.process import fit, kernels

weights_of = st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda values: sum(values) > 0.01)
largest = st.floats(0.05, 500.0)


def normalized(values):
    return np.array(values) / np.sum(values)


def samples(random, mean, phi, count):
    """Return costs of some mean, in limits, whose variance is phi times that: Poisson in steps of phi."""
    return phi * random.poisson(mean / phi, count)


def groups(*costs):
    """Return episodes, sums and squares of the costs of each target."""
    return np.array([[len(each), each.sum(), (each**2).sum()] for each in costs], dtype=np.float64).reshape(-1, 3).T


def test_the_scale_is_one_at_the_limit():
    assert mean_of(np.array(1.0)) == pytest.approx(1.0, rel=1e-12)
    assert scale_of(np.array(1.0)) == pytest.approx(1.0, rel=1e-12)


@given(f=st.floats(-0.5, 8.0))
def test_a_mean_comes_back_from_its_place_on_the_scale(f):
    assert scale_of(mean_of(np.array(f))) == pytest.approx(f, abs=1e-6)


@given(m=st.floats(1e-6, 9e4))
def test_a_place_on_the_scale_comes_back_from_its_mean(m):
    assert mean_of(scale_of(np.array(m))) == pytest.approx(m, rel=1e-6)


def test_below_zero_the_scale_is_soft_and_means_stay_above_nothing():
    m = mean_of(np.array([-20.0, -3.0, -1.0, -0.3, 0.0, 0.3]))
    assert (m > 0).all()
    assert (m[:4] < 1e-4).all()
    assert m[4] == pytest.approx(0.25 * 0.05 * np.log(2))
    assert m[5] == pytest.approx(0.25 * (5**0.3 - 1), rel=1e-4)


def test_no_mean_is_nothing_or_infinite_however_far_the_place():
    m = mean_of(np.array([-1e6, 1e6]))
    assert m[0] > 0
    assert np.isfinite(m[1])
    assert scale_of(np.array(0.0)) == -np.inf


@pytest.mark.parametrize("total", [0.0, 3.0, 40.0])
def test_the_same_target_twice_is_nearly_one_target_with_all_the_episodes(total):
    Z = np.array([[0.3], [0.45], [0.9]])
    phis, of = np.array([0.4, 3.0]), np.zeros(2, dtype=int)
    once = fit(np.array([[0.3]]), np.array([40.0]), np.full((2, 1), total), phis, of)
    twice = fit(np.array([[0.3], [0.3]]), np.full(2, 20.0), np.full((2, 2), total / 2), phis, of)
    of_twice = twice.moments(kernels(Z, np.array([[0.3], [0.3]])))
    of_once = once.moments(kernels(Z, np.array([[0.3]])))
    np.testing.assert_allclose(of_twice.means, of_once.means, atol=0.2)
    np.testing.assert_allclose(of_twice.sds, of_once.sds, atol=0.2)


@given(s=largest)
def test_dispersions_rise_by_factors_of_two_up_to_the_largest(s):
    phis, weights = dispersions(s, *groups())
    assert phis[-1] == s
    assert (np.diff(phis) > 0).all()
    assert (phis[1:-1] / phis[:-2] == pytest.approx(2.0)) if len(phis) > 2 else len(phis) >= 1
    assert weights.sum() == pytest.approx(1.0)


@given(s=largest, episodes=st.integers(1, 10_000))
def test_zeros_say_nothing_of_the_size_of_lumps(s, episodes):
    clean = groups(*[np.zeros(episodes)] * 5)
    np.testing.assert_array_equal(dispersions(s, *clean), dispersions(s, *groups()))


@pytest.mark.parametrize("phi", [0.1, 0.4, 1.6])
@pytest.mark.parametrize("mean", [0.3, 1.0])
def test_the_dispersion_is_learned_from_squares_within_targets(phi, mean):
    random = np.random.default_rng(int(100 * phi + 10 * mean))
    for _ in range(10):
        seen = groups(*(samples(random, mean * share, phi, 60) for share in (0.5, 1.0, 1.5)))
        phis, weights = dispersions(6.4, *seen)
        assert phi / 2 < np.exp(weights @ np.log(phis)) < 2 * phi
        assert weights[np.abs(np.log2(phis / phi)) < 1.5].sum() > 0.9


def test_differences_between_targets_say_nothing_of_the_dispersion():
    one, other = (50.0, 10.0, 10.0 * 0.3), (50.0, 20.0, 10.0 * 0.1 + 20.0**2 / 50)  # equal spreads over the mean
    near, far = (dispersions(6.4, *np.transpose(pair)) for pair in ([one, one], [one, other]))
    assert near[0][near[1].argmax()] == far[0][far[1].argmax()]


@given(
    s=largest,
    targets=st.lists(st.tuples(st.integers(2, 99), st.floats(0.01, 3), st.floats(0.01, 50)), max_size=4),
)
def test_small_weights_move_upwards_only_and_none_is_lost(s, targets):
    seen = np.array([(n, n * mean, n * mean * (mean + phi)) for n, mean, phi in targets]).reshape(-1, 3).T
    phis, after = dispersions(s, *seen)
    grid = 0.1 * 2.0 ** np.arange(40)
    grid = np.append(grid[grid < 0.9 * s], s)
    n, S, squares = seen
    logs = -0.5 * (np.log(grid / min(0.5, s)) / 0.7) ** 2  # the prior, and evidence written out
    for each in zip(n, S, squares, strict=True):
        spread, weight = (each[2] - each[1] ** 2 / each[0]) / (each[1] / each[0]), min(1.0, each[0] / each[1])
        logs = logs - 0.5 * weight * ((each[0] - 1) * np.log(grid) + spread / grid)
    before = np.exp(logs - logs.max())
    before /= before.sum()
    assert after.sum() == pytest.approx(1.0)
    assert ((after[:-1] >= 0.01 - 1e-12) | (phis[:-1] == s)).all()
    for phi, below in zip(phis, np.cumsum(after), strict=True):  # nowhere more weight on smaller dispersions
        assert below <= before[grid <= phi].sum() + 1e-9


@given(values=weights_of)
def test_the_largest_dispersion_keeps_a_tenth_and_the_others_their_proportions(values):
    before = normalized(values)
    after = floored(before)
    assert after.sum() == pytest.approx(1.0)
    assert after[-1] >= min(FLOOR, 1.0) - 1e-12
    assert FLOOR == 0.1
    rest = before[:-1].sum()
    if rest > 0:
        np.testing.assert_allclose(after[:-1] / after[:-1].sum(), before[:-1] / rest, rtol=1e-9, atol=1e-12)
    if before[-1] >= FLOOR:
        np.testing.assert_array_equal(after, before)


def test_where_nothing_is_assumed_the_largest_dispersion_has_all_the_weight():
    np.testing.assert_array_equal(floored(np.array([0.9, 0.1, 0.0]), 1.0), [0.0, 0.0, 1.0])


def test_the_largest_dispersion_keeps_a_tenth_however_steady_costs_have_been():
    steady = groups(samples(np.random.default_rng(0), 0.5, 0.1, 5000))
    assert floored(dispersions(3.0, *steady)[1])[-1] == pytest.approx(FLOOR)
