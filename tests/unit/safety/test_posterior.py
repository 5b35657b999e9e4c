"""The reward, the quantiles that reports show, and the weights of the components; the rest is compared in reference."""

import numpy as np
import pytest
from scipy.special import ndtr

from lifesafe.safety.likelihood import mean_of
from lifesafe.safety.posterior import Cost, Reward, Sums
from lifesafe.safety.process import Moments, kernels
from unit.safety.machines import sums

SEEN = {(0.2, 0.1): [0.0, 0.4, 0.2, 0.4] * 5, (0.5, 0.4): [0.5, 1.0, 0.3, 0.2] * 3, (0.6, 0.7): [1.2, 1.9, 0.8]}
Z = np.array([[0.2, 0.1], [0.4, 0.3], [0.6, 0.7], [0.9, 0.9]])


def cost(s: float = 3.0) -> Cost:
    return Cost.given(sums(SEEN), 0, s)


def known(of: Cost) -> Moments:
    return of.fitted.moments(kernels(Z, of.sums.X))


def test_weights_are_those_of_a_mixture_and_held_up_for_the_rough_and_the_lumpy() -> None:
    found = cost()
    for weights in found.weights:
        assert weights.sum() == pytest.approx(1.0)
        assert (weights >= 0).all()
    plain, careful = found.weights
    by_phi = careful.reshape(-1, 2)
    assert by_phi[-1].sum() >= 0.1 - 1e-12
    assert (by_phi[:, 0] >= 0.25 * by_phi.sum(axis=1) - 1e-12).all()
    # So whatever the posterior says of roughness, a charge is at least a quarter of nine tenths of it.
    assert (careful.reshape(-1, 2).sum(axis=1) >= 0.9 * plain.reshape(-1, 2).sum(axis=1) - 1e-12).all()


def test_quantiles_are_those_of_the_mixture() -> None:
    found = cost()
    at = known(found)
    levels = (0.05, 0.5, 0.95)
    quantiles = found.quantiles(at, levels)
    f = np.linspace(-8, 6, 200_001)
    for j in range(len(Z)):
        cdf = found.weights[0] @ ndtr((f - at.means[:, j, None]) / at.sds[:, j, None])
        for level, value in zip(levels, quantiles[:, j], strict=True):
            low, high = mean_of(f[np.searchsorted(cdf, [max(level - 0.06, 0.002), min(level + 0.06, 0.998)])])
            assert low <= value <= high


def test_moments_are_those_of_the_careful_mixture() -> None:
    found, rng = cost(), np.random.default_rng(0)
    at, careful = known(found), found.weights[1]
    mean, sd = found.of_f(at)
    component = rng.choice(len(careful), 200_000, p=careful)
    for j in range(len(Z)):
        f = rng.normal(at.means[component, j], at.sds[component, j])
        assert (mean[j], sd[j]) == pytest.approx((f.mean(), f.std()), abs=0.02)


def test_a_tail_is_the_larger_of_both_mixtures() -> None:
    found = cost()
    at = known(found)
    expected = (found.weights @ ndtr((at.means - 1) / at.sds)).max(axis=0)
    np.testing.assert_allclose(found.tails(at), expected)
    assert (np.diff([found.tails(at, limit) for limit in (0.5, 1.0, 2.0)], axis=0) < 0).all()


def test_the_dispersion_is_that_of_the_costs() -> None:
    rng = np.random.default_rng(0)
    for phi in (0.2, 0.8):
        seen = {(x, 0.5): (phi * rng.poisson(0.6 / phi, 80)).tolist() for x in (0.1, 0.5, 0.9)}
        assert Cost.given(sums(seen), 0, 5.0).phi == pytest.approx(phi, rel=0.35)


def test_more_lumps_leave_more_doubt() -> None:
    means = [cost(s).tails(known(cost(s))) for s in (1.0, 3.0, 30.0)]
    assert (np.diff(means, axis=0)[:, :2] > -1e-3).all()


def rewarded(rewards: dict[tuple[float, ...], list[float]]) -> Sums:
    rows = [np.array(each) for each in rewards.values()]
    n = np.array([float(len(each)) for each in rows])
    totals = np.column_stack([[each.sum() for each in rows], np.zeros(len(n))])
    squares = np.column_stack([[(each**2).sum() for each in rows], np.zeros(len(n))])
    return Sums(np.array(list(rewards)), n, totals, squares)


def moments(reward: Reward, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return reward.moments(at, kernels(at, reward.sums.X))


def test_before_the_first_episode_the_reward_is_the_one_asked_for_and_of_knobs_nothing_is_known() -> None:
    nothing = Sums(np.empty((0, 2)), np.empty(0), np.empty((0, 2)), np.empty((0, 2)))
    mean, sd = moments(Reward(nothing, 0), Z)
    np.testing.assert_allclose(mean, Z[:, 0])
    np.testing.assert_allclose(sd, 0.2)
    mean, sd = moments(Reward(nothing, None), Z)
    np.testing.assert_allclose(mean, 0.5)
    np.testing.assert_allclose(sd, 0.5)


def test_rewards_that_came_move_the_mean_there_and_nearby() -> None:
    reward = Reward(rewarded({(0.2, 0.1): [0.5, 0.52, 0.48] * 5}), 0)
    mean, sd = moments(reward, np.array([[0.2, 0.1], [0.25, 0.1], [1.0, 1.0]]))
    assert mean[0] == pytest.approx(0.5, abs=0.01)
    assert 0.45 < mean[1] < 0.6  # asked for 0.25, and the neighbor gave 0.3 more
    assert sd[0] < 0.01 < sd[1] < 0.05 < sd[2] < 0.2


def test_around_the_first_reward_of_knobs_everything_is_open() -> None:
    mean, sd = moments(Reward(rewarded({(0.2, 0.1): [0.3] * 10}), None), np.array([[0.2, 0.1], [1.0, 1.0]]))
    assert mean == pytest.approx([0.3, 0.3], abs=0.02)
    assert sd[1] > 0.2


def test_the_reward_is_that_of_a_process_with_the_noise_of_its_episodes() -> None:
    rng = np.random.default_rng(3)
    seen = {(0.1, 0.2): rng.normal(0.3, 0.1, 12).tolist(), (0.4, 0.2): rng.normal(0.5, 0.1, 8).tolist()}
    X, n = np.array(list(seen)), np.array([12.0, 8.0])
    means = np.array([np.mean(each) for each in seen.values()])
    squares = sum(((np.array(each) - np.mean(each)) ** 2).sum() for each in seen.values())
    noise = (squares + 4 * 0.05**2) / (18 + 4)

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        r = np.sqrt(5) * np.linalg.norm(A[:, None] - B[None], axis=-1)
        return 0.2**2 * (1 + r + r**2 / 3) * np.exp(-r)

    gain = kernel(Z, X) @ np.linalg.inv(kernel(X, X) + np.diag(noise / n))
    mean, sd = moments(Reward(rewarded(seen), 0), Z)
    np.testing.assert_allclose(mean, Z[:, 0] + gain @ (means - X[:, 0]), rtol=1e-4)
    np.testing.assert_allclose(sd, np.sqrt(0.2**2 - (gain * kernel(Z, X)).sum(axis=1)), rtol=1e-3)
