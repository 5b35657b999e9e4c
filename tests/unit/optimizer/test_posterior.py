"""Posterior: returns as they are modeled, mixtures, pooled dispersion, pretended trials."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from lifesafe.optimizer import Observation, Prior, Priors, Problem
from lifesafe.optimizer.posterior import Posterior

GRID = np.stack(np.meshgrid(np.linspace(0, 500, 6), np.linspace(0, 60, 4), indexing="ij"), axis=-1).reshape(-1, 2)


def problem(**changes: Any) -> Problem:
    cost = {"mean": "limit", "kernel": "matern52", "lengthscales": (0.5,), "sd": 1.0, "scale": "linear", **changes}
    return Problem(candidates=GRID, seeds=(8,), limits=(20.0,), priors=Priors(cost=Prior(**cost)))


def episodes(reward: float, cost: float, count: int = 20) -> np.ndarray:
    spread = np.linspace(-1, 1, count)
    return np.stack([reward + 10 * spread, np.maximum(cost * (1 + 0.5 * spread), 0.0)], axis=1)


@pytest.mark.parametrize(
    ("mean", "expected"),
    [("limit", np.ones(4)), ("target", np.array([0, 1, 2, 3.0])), ("larger", np.array([1, 1, 2, 3.0]))],
)
def test_the_prior_mean_is_the_limit_the_target_or_the_larger(mean: str, expected: np.ndarray) -> None:
    posterior = Posterior(problem(mean=mean))
    np.testing.assert_allclose(posterior.costs[0].moments()[0][:4], expected)
    np.testing.assert_allclose(posterior.reward.mean, GRID[:, 0] / 500)


def test_many_episodes_bring_the_posterior_to_their_mean() -> None:
    posterior = Posterior(problem())
    for _ in range(50):
        posterior.observe(Observation(9, episodes(300.0, 10.0)))
    mean, sd = posterior.costs[0].moments()
    assert mean[9] * 20 == pytest.approx(10.0, rel=0.05)
    assert posterior.reward.mean[9] * 500 == pytest.approx(300.0, rel=0.02)
    assert sd[9] < 0.1


def test_a_mixture_trusts_the_processes_that_predicted_well() -> None:
    posterior = Posterior(problem(mixture=9))
    before = posterior.costs[0].weights
    rng = np.random.default_rng(0)
    for i in range(24):  # white noise over the candidates: short length-scales predict it best
        posterior.observe(Observation(i, episodes(100.0, float(rng.choice([1.0, 60.0])), 200)))
    after = posterior.costs[0].weights
    assert before.sum() == pytest.approx(1)
    assert after.sum() == pytest.approx(1)
    assert after[:3].sum() > 0.9 > before[:3].sum()  # the first three have the shortest length-scale


def test_the_tail_of_a_mixture_is_the_average_of_its_tails() -> None:
    posterior = Posterior(problem(mixture=3))
    posterior.observe(Observation(3, episodes(100.0, 4.0)))
    model = posterior.costs[0]
    np.testing.assert_allclose(model.tail(-1e9), 1.0)
    np.testing.assert_allclose(model.tail(1e9), 0.0)
    tails = np.array([model.tail(b) for b in np.linspace(-1, 3, 9)])
    assert (np.diff(tails, axis=0) <= 0).all()
    mean = np.zeros(24)
    for weight, gp in zip(model.weights, model.processes, strict=True):
        mean += weight * norm.sf(0.7, gp.mean, np.sqrt(gp.var))
    np.testing.assert_allclose(model.tail(0.7), mean, rtol=1e-9)


def test_a_trial_of_another_dispersion_changes_the_noise_of_all() -> None:
    posterior = Posterior(problem())
    posterior.observe(Observation(3, episodes(100.0, 4.0)))
    before = posterior.dispersions[0]
    lumps = episodes(100.0, 6.0)
    lumps[:, 1] = [120.0] + [0.0] * 19
    for _ in range(5):
        posterior.observe(Observation(4, lumps))
    assert posterior.dispersions[0] > 1.5 * before
    again = Posterior(problem())
    again.dispersions = list(posterior.dispersions)
    assert again.noise_sd(0, lumps[:, 1]) == posterior.noise_sd(0, lumps[:, 1])
    assert len(posterior.observations) == 6
    assert posterior.own_episodes(4).shape == (100, 2)
    assert posterior.own_episodes(5).shape == (0, 2)


def test_a_pretended_trial_narrows_bands_moves_no_mean_and_leaves_the_original_alone() -> None:
    posterior = Posterior(problem())
    posterior.observe(Observation(3, episodes(100.0, 4.0)))
    mean, sd = (array.copy() for array in posterior.costs[0].moments())
    twin = posterior.copy()
    twin.pretend(4, 20)
    twin_mean, twin_sd = twin.costs[0].moments()
    np.testing.assert_allclose(twin_mean, mean, atol=1e-12)
    assert (twin_sd <= sd + 1e-12).all()
    assert twin_sd[4] < 0.9 * sd[4]
    np.testing.assert_array_equal(posterior.costs[0].moments()[1], sd)
    np.testing.assert_allclose(twin.reward.mean, posterior.reward.mean, atol=1e-12)
    assert len(posterior.observations) == len(twin.observations) == 1


def test_the_innovation_tells_how_surprising_a_trial_was() -> None:
    calm, wild = Posterior(problem()), Posterior(problem())
    for posterior, cost in ((calm, 10.0), (wild, 200.0)):
        for _ in range(5):
            posterior.observe(Observation(9, episodes(300.0, 10.0)))
        (innovation,) = posterior.observe(Observation(9, episodes(300.0, cost)))
        assert (abs(innovation) < 1) == (cost == 10.0)
        assert innovation < 1 or innovation > 5
