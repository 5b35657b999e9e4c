"""The reward, the quantiles that reports show, and the weights of the components; the rest is compared in reference."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from lifesafe.safety.likelihood import mean_of
from lifesafe.safety.posterior import Expected, Model, Reward, Sums
from lifesafe.safety.process import kernels
from unit.safety.machines import sums

SEEN = {(0.2, 0.1): [0.0, 0.4, 0.2, 0.4] * 5, (0.5, 0.4): [0.5, 1.0, 0.3, 0.2] * 3, (0.6, 0.7): [1.2, 1.9, 0.8]}
ASKED = 0  # the axis that asks for a reward
Z = np.array([[0.2, 0.1], [0.4, 0.3], [0.6, 0.7], [0.9, 0.9]])


def model(s: float = 3.0) -> Model:
    """Return what episodes with one cost say."""
    return Model.given(sums(SEEN), [s], ASKED)


@pytest.fixture(scope="module")
def found() -> Expected:
    return model().expect(Z)


def two_costs(second: float | None = 5.0) -> Model:
    """Return the same with another cost: twice as large, and as lumpy as told, or sure."""
    one = sums(SEEN)
    totals = np.column_stack([one.totals, 2 * one.totals[:, 1]])
    return Model.given(
        Sums(one.X, one.episodes, totals, np.column_stack([one.squares, 4 * one.squares[:, 1]])), [3.0, second], ASKED
    )


def test_weights_are_those_of_a_mixture_and_held_up_for_the_rough_and_the_lumpy() -> None:
    plain, careful = model().weights[:, 0]
    for weights in (plain, careful):
        assert weights.sum() == pytest.approx(1.0)
        assert (weights >= 0).all()
    by_phi = careful.reshape(-1, 2)
    assert by_phi[-1].sum() >= 0.1 - 1e-12
    assert (by_phi[:, 0] >= 0.25 * by_phi.sum(axis=1) - 1e-12).all()
    # So whatever the posterior says of roughness, a charge is at least a quarter of nine tenths of it.
    assert (careful.reshape(-1, 2).sum(axis=1) >= 0.9 * plain.reshape(-1, 2).sum(axis=1) - 1e-12).all()


def test_quantiles_are_those_of_the_mixture(found: Expected) -> None:
    at, levels = found.at, (0.05, 0.5, 0.95)
    quantiles = found.quantiles(levels)[..., 0]
    f = np.linspace(-8, 6, 200_001)
    for j in range(len(Z)):
        cdf = found.model.weights[0, 0] @ ndtr((f - at.means[:, j, None]) / at.sds[:, j, None])
        for level, value in zip(levels, quantiles[:, j], strict=True):
            low, high = mean_of(f[np.searchsorted(cdf, [max(level - 0.06, 0.002), min(level + 0.06, 0.998)])])
            assert low <= value <= high


def test_moments_are_those_of_the_careful_mixture(found: Expected) -> None:
    at, careful, rng = found.at, found.model.weights[1, 0], np.random.default_rng(0)
    (mean,), (sd,) = found.of_f()
    component = rng.choice(len(careful), 200_000, p=careful)
    for j in range(len(Z)):
        f = rng.normal(at.means[component, j], at.sds[component, j])
        assert (mean[j], sd[j]) == pytest.approx((f.mean(), f.std()), abs=0.02)


def test_a_risk_is_the_larger_of_both_mixtures(found: Expected) -> None:
    expected = (found.model.weights[:, 0] @ ndtr((found.at.means - 1) / found.at.sds)).max(axis=0)
    np.testing.assert_allclose(found.risks(), expected)
    assert (np.diff([found.risks(limit) for limit in (0.5, 1.0, 2.0)], axis=0) < 0).all()


def test_nothing_of_one_cost_depends_on_another(found: Expected) -> None:
    both = two_costs().expect(Z)
    first = both.model.of == 0
    np.testing.assert_allclose(both.at.means[first], found.at.means, rtol=1e-12)
    np.testing.assert_allclose(both.at.sds[first], found.at.sds, rtol=1e-12)
    np.testing.assert_allclose(both.quantiles((0.5, 0.95))[..., 0], found.quantiles((0.5, 0.95))[..., 0], rtol=1e-12)
    doubled = Model.given(sums({target: [2 * x for x in costs] for target, costs in SEEN.items()}), [5.0], ASKED)
    np.testing.assert_allclose(both.at.means[~first], doubled.expect(Z).at.means, rtol=1e-12)
    assert (both.model.weights[:, 0, ~first] == 0).all()
    assert (both.model.weights[:, 1, first] == 0).all()
    assert (both.risks() > found.risks()).all()


def test_a_cost_that_is_sure_changes_nothing(found: Expected) -> None:
    both = two_costs(None).expect(Z)
    assert both.model.costs[1] is None
    np.testing.assert_allclose(both.risks(), found.risks(), rtol=1e-12)
    assert not both.quantiles((0.5, 0.95))[..., 1].any()
    assert not np.array(both.of_f())[:, 1].any()


def test_the_median_of_a_single_process_does_not_depend_on_rounding() -> None:
    model_, middles = model(), []
    for rounding in (-1e-12, 0.0, 1e-12):  # nearly all weight on one component: half of its draws are below its middle
        weights = np.zeros_like(model_.weights)
        weights[:, 0, :2] = [1 - 1e-9 + rounding, 1e-9]
        middles.append(replace(model_, weights=weights).expect(Z).quantiles((0.5,)))
    np.testing.assert_allclose(middles, [middles[0]] * 3, rtol=1e-9)


def rewarded(rewards: dict[tuple[float, ...], list[float]]) -> Sums:
    rows = [np.array(each) for each in rewards.values()]
    n = np.array([float(len(each)) for each in rows])
    totals = np.column_stack([[each.sum() for each in rows], np.zeros(len(n))])
    squares = np.column_stack([[(each**2).sum() for each in rows], np.zeros(len(n))])
    return Sums(np.array(list(rewards)), n, totals, squares)


def moments(of: Sums, asked: int | None, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return Reward(of, asked).moments(at, kernels(at, of.X))


def test_before_the_first_episode_a_lottery_has_a_risk_too() -> None:
    nothing = Sums(np.empty((0, 2)), np.empty(0), np.empty((0, 2)), np.empty((0, 2)))
    found = Model.given(nothing, [3.0], 0).expect(Z)
    added = found.added_to(found.rows(np.array([0])), 0.2)
    assert added[0] == pytest.approx(0.0, abs=1e-6)  # with itself
    assert (added[1:] > 0.01).all()
    assert (found.rows(np.array([0])).risks() == 0.5).all()


def test_before_the_first_episode_the_reward_is_the_one_asked_for_and_of_knobs_nothing_is_known() -> None:
    nothing = Sums(np.empty((0, 2)), np.empty(0), np.empty((0, 2)), np.empty((0, 2)))
    mean, sd = moments(nothing, ASKED, Z)
    np.testing.assert_allclose(mean, Z[:, 0])
    np.testing.assert_allclose(sd, 0.2)
    mean, sd = moments(nothing, None, Z)
    np.testing.assert_allclose(mean, 0.5)
    np.testing.assert_allclose(sd, 0.5)


def test_rewards_that_came_move_the_mean_there_and_nearby() -> None:
    seen = rewarded({(0.2, 0.1): [0.5, 0.52, 0.48] * 5})
    mean, sd = moments(seen, ASKED, np.array([[0.2, 0.1], [0.25, 0.1], [1.0, 1.0]]))
    assert mean[0] == pytest.approx(0.5, abs=0.01)
    assert 0.45 < mean[1] < 0.6  # asked for 0.25, and the neighbor gave 0.3 more
    assert sd[0] < 0.01 < sd[1] < 0.05 < sd[2] < 0.2


def test_around_the_first_reward_of_knobs_everything_is_open() -> None:
    mean, sd = moments(rewarded({(0.2, 0.1): [0.3] * 10}), None, np.array([[0.2, 0.1], [1.0, 1.0]]))
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
    mean, sd = moments(rewarded(seen), ASKED, Z)
    np.testing.assert_allclose(mean, Z[:, 0] + gain @ (means - X[:, 0]), rtol=1e-4)
    np.testing.assert_allclose(sd, np.sqrt(0.2**2 - (gain * kernel(Z, X)).sum(axis=1)), rtol=1e-3)
