"""Noise of a trial's mean: honest when costs are rare, and pooled over trials."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.optimizer.noise import SCORE, WORTH, Dispersion, score_sd, shrunk_variance

counts = st.integers(1, 500)
spreads = st.floats(1e-3, 1e4)


def dispersion(trials: list[np.ndarray], limit: float, prior: float) -> float:
    pooled = Dispersion(limit, prior)
    for costs in trials:
        pooled.add(costs)
    return pooled.phi


@given(episodes=counts, phi=spreads)
def test_a_trial_without_any_cost_is_still_uncertain(episodes: int, phi: float) -> None:
    assert score_sd(0.0, episodes, phi) == pytest.approx(SCORE * phi / episodes)
    assert score_sd(0.0, episodes, phi) > 0


def test_twenty_free_episodes_of_a_lumpy_cost_prove_little() -> None:
    assert score_sd(0.0, 20, 120.0) >= 10


@given(low=st.floats(0, 1e3), more=st.floats(1e-6, 1e3), episodes=counts, phi=spreads)
def test_noise_grows_with_the_mean(low: float, more: float, episodes: int, phi: float) -> None:
    assert score_sd(low + more, episodes, phi) > score_sd(low, episodes, phi)


@given(mean=st.floats(0, 1e3), episodes=counts, phi=spreads)
def test_noise_shrinks_with_episodes_and_grows_with_dispersion(mean: float, episodes: int, phi: float) -> None:
    assert score_sd(mean, episodes + 1, phi) < score_sd(mean, episodes, phi)
    assert score_sd(mean, episodes, 2 * phi) > score_sd(mean, episodes, phi)


@given(mean=st.floats(0, 1e3), episodes=counts, phi=spreads)
def test_the_upper_end_of_the_score_interval_solves_its_equation(mean: float, episodes: int, phi: float) -> None:
    top = mean + SCORE * score_sd(mean, episodes, phi)  # the mean m with m - xbar = c sqrt(phi m / n)
    assert top - mean == pytest.approx(SCORE * math.sqrt(phi * top / episodes), rel=1e-9)


@given(mean=st.floats(-1e3, 0), episodes=counts, phi=spreads)
def test_a_negative_mean_counts_as_none(mean: float, episodes: int, phi: float) -> None:
    assert score_sd(mean, episodes, phi) == score_sd(0.0, episodes, phi)


def test_without_trials_the_dispersion_is_the_prior_one() -> None:
    assert dispersion([], limit=20.0, prior=7.0) == pytest.approx(7.0)


def test_many_trials_outweigh_the_prior() -> None:
    rng = np.random.default_rng(0)
    trials = [rng.poisson(rng.gamma(2.0, 5.0, 20)).astype(float) for _ in range(300)]  # mean 10, variance 60
    assert dispersion(trials, limit=20.0, prior=50.0) == pytest.approx(6.0, rel=0.15)


def test_the_prior_is_worth_some_episodes_at_the_limit() -> None:
    costs = np.array([10.0, 30.0])  # squares 200, one degree of freedom at mean 20
    expected = (WORTH * 3.0 * 20.0 + 200.0) / (WORTH * 20.0 + 20.0)
    assert dispersion([costs], limit=20.0, prior=3.0) == pytest.approx(expected)


@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=5), max_size=5))
def test_dispersion_is_always_positive(trials: list[list[float]]) -> None:
    assert dispersion([np.array(trial) for trial in trials], limit=20.0, prior=10.0) > 0


def test_one_reward_has_the_variance_of_the_prior() -> None:
    assert shrunk_variance(np.array([3.0]), prior_sd=0.5) == pytest.approx(0.25)


def test_many_rewards_have_their_own_variance() -> None:
    values = np.random.default_rng(1).normal(0, 2.0, 4000)
    assert shrunk_variance(values, prior_sd=0.1) == pytest.approx(4.0 / 4000, rel=0.1)
