"""The likelihood: a scale with an inverse, evidence that adds up, and a dispersion that zeros cannot argue away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.safety.likelihood import FLOOR, dispersion_weights, dispersions, floored, kept, mean_of, scale_of
from lifesafe.safety.process import fit, kernels

weights_of = st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda values: sum(values) > 0.01)
largest = st.floats(0.05, 500.0)


def normalized(values):
    return np.array(values) / np.sum(values)


def samples(random, mean, phi, count):
    """Return costs of some mean, in limits, whose variance is phi times that: Poisson in steps of phi."""
    return phi * random.poisson(mean / phi, count)


def group(costs):
    return float(len(costs)), float(costs.sum()), float((costs**2).sum())


def test_the_scale_is_one_at_the_limit():
    assert mean_of(np.array(1.0)) == pytest.approx(1.0, rel=1e-12)
    assert scale_of(np.array(1.0)) == pytest.approx(1.0, rel=1e-12)


@given(f=st.floats(-0.5, 8.0))
def test_a_mean_comes_back_from_its_place_on_the_scale(f):
    assert scale_of(mean_of(np.array(f))) == pytest.approx(f, abs=1e-6)


@given(m=st.floats(1e-6, 9e4))
def test_a_place_on_the_scale_comes_back_from_its_mean(m):
    assert mean_of(scale_of(np.array(m))) == pytest.approx(m, rel=1e-6)


@given(f=st.floats(-30.0, 7.9), more=st.floats(1e-3, 5.0))
def test_a_larger_place_has_a_larger_mean(f, more):
    low, high = mean_of(np.array([f, f + more]))
    assert 0 < low <= high
    if f > -1:
        assert low < high


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
    once = fit(np.array([[0.3]]), np.array([40.0]), np.array([total]), np.array([0.4, 3.0]))
    twice = fit(np.array([[0.3], [0.3]]), np.full(2, 20.0), np.full(2, total / 2), np.array([0.4, 3.0]))
    of_twice = twice.moments(kernels(Z, np.array([[0.3], [0.3]])))
    of_once = once.moments(kernels(Z, np.array([[0.3]])))
    np.testing.assert_allclose(of_twice.means, of_once.means, atol=0.2)
    np.testing.assert_allclose(of_twice.sds, of_once.sds, atol=0.2)


@given(s=largest)
def test_dispersions_rise_by_factors_of_two_up_to_the_largest(s):
    phis = dispersions(s)
    assert phis[-1] == s
    assert (np.diff(phis) > 0).all()
    assert (phis[1:-1] / phis[:-2] == pytest.approx(2.0)) if len(phis) > 2 else len(phis) >= 1


@given(s=largest, episodes=st.integers(1, 10_000))
def test_zeros_say_nothing_of_the_size_of_lumps(s, episodes):
    phis = dispersions(s)
    np.testing.assert_array_equal(
        dispersion_weights(phis, [(float(episodes), 0.0, 0.0)] * 5), dispersion_weights(phis, [])
    )


@pytest.mark.parametrize("phi", [0.1, 0.4, 1.6])
@pytest.mark.parametrize("mean", [0.3, 1.0])
def test_the_dispersion_is_learned_from_squares_within_targets(phi, mean):
    random, phis = np.random.default_rng(int(100 * phi + 10 * mean)), dispersions(6.4)
    found = np.mean([
        dispersion_weights(phis, [group(samples(random, mean * share, phi, 60)) for share in (0.5, 1.0, 1.5)])
        for _ in range(30)
    ], axis=0)  # fmt: skip
    assert phi / 1.5 < np.exp(found @ np.log(phis)) < 1.5 * phi
    assert found[np.abs(np.log2(phis / phi)) < 1.5].sum() > 0.9


def test_differences_between_targets_say_nothing_of_the_dispersion():
    phis = dispersions(6.4)
    near = [(50.0, 10.0, 10.0 * 0.3), (50.0, 10.0, 10.0 * 0.3)]
    far = [(50.0, 10.0, 10.0 * 0.3), (50.0, 20.0, 10.0 * 0.1 + 20.0**2 / 50)]  # equal spreads over the mean
    np.testing.assert_allclose(dispersion_weights(phis, near[1:] * 2), dispersion_weights(phis, near), rtol=1e-12)
    assert dispersion_weights(phis, far).argmax() == dispersion_weights(phis, near).argmax()


@given(values=weights_of)
def test_small_weights_move_upwards_only_and_none_is_lost(values):
    before = normalized(values)
    after = kept(before)
    assert after.sum() == pytest.approx(1.0)
    assert (np.cumsum(after) <= np.cumsum(before) + 1e-12).all()  # nowhere more weight on smaller dispersions
    assert ((after[:-1] == 0) | (after[:-1] >= 0.01)).all()


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
    phis = dispersions(3.0)
    steady = [group(samples(np.random.default_rng(0), 0.5, 0.1, 5000))]
    assert floored(kept(dispersion_weights(phis, steady)))[-1] == pytest.approx(FLOOR)
