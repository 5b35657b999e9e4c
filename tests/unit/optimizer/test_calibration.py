"""Calibration is what refitting without each trial would give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from lifesafe.optimizer import Prior, Priors, Problem, Schedule
from lifesafe.optimizer.calibration import Calibration, ReturnCalibration, calibration, half_width
from lifesafe.optimizer.posterior import Observation, Posterior
from lifesafe.optimizer.state import State
from lifesafe.theory.kernels import correlation_matrix

AXES = (np.linspace(0, 500, 6), np.linspace(0, 60, 5))


def state_after(trials: list[tuple[int, float]], *, mixture: int = 1, costs: int = 1, seed: int = 0) -> State:
    """Return the state after trials at (candidate, mean cost), with several episodes of random returns each."""
    prior = Prior(mean="limit", kernel="matern52", lengthscales=(0.5,), sd=2.0, scale="log", mixture=mixture)  # type: ignore[arg-type]
    axes = [AXES[0], *[AXES[1]] * costs]
    Z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 1 + costs)
    problem = Problem(candidates=Z, seeds=(0,), limits=(20.0,) * costs, priors=Priors(cost=prior))
    state, rng = State(problem, Schedule()), np.random.default_rng(seed)
    for index, mean in trials:
        rewards = rng.normal(Z[index, 0], 30.0, 8)
        returns = np.stack([rewards, *(rng.gamma(2.0, mean / 2, 8) for _ in range(costs))], axis=1)
        state.posterior.observe(Observation(index, returns))
    return state


def brute_force(state: State, row: int, i: int, others: list[int]) -> float:
    """Return the normal quantile of observation i under every process refitted to the others, one by one."""
    problem, posterior = state.problem, state.posterior
    values, noises = posterior.modeled()
    y, noise = values[row], noises[row]
    X = problem.scaled.T[[o.index for o in posterior.observations]]
    prior = problem.priors.reward if row == 0 else problem.priors.cost
    mean = X[:, 0] if row == 0 else np.ones(len(X))
    log_weights, scores = [], []
    for length, sd, weight in prior.components:
        K = (sd * prior.sd) ** 2 * correlation_matrix(prior.kernel, X / (length * 0.5), X / (length * 0.5))
        C = K[np.ix_(others, others)] + np.diag(noise[others])
        gain = np.linalg.solve(C, K[others, i]) if others else np.empty(0)
        predicted = mean[i] + gain @ (y[others] - mean[others])
        variance = K[i, i] - gain @ K[others, i] + noise[i]
        scores.append((y[i] - predicted) / np.sqrt(variance))
        residual = y[others] - mean[others]
        evidence = (
            -0.5 * (residual @ np.linalg.solve(C, residual) + np.linalg.slogdet(2 * np.pi * C)[1]) if others else 0.0
        )
        log_weights.append(np.log(weight) + evidence)
    weights = np.exp(log_weights - logsumexp(log_weights))
    return float(norm.ppf(weights @ norm.cdf(scores)))


trials = st.lists(st.tuples(st.integers(0, 29), st.floats(0.5, 40.0)), min_size=1, max_size=6)


@given(trials=trials, mixture=st.sampled_from([1, 3, 9]), seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_residuals_are_those_of_a_refit_without_the_trial(
    trials: list[tuple[int, float]], mixture: int, seed: int
) -> None:
    state, n = state_after(trials, mixture=mixture, seed=seed), len(trials)
    for row, part in enumerate(calibration(state).returns):
        expected = [brute_force(state, row, i, [j for j in range(n) if j != i]) for i in range(n)]
        np.testing.assert_allclose(part.residuals, expected, rtol=1e-5, atol=1e-7)


@given(trials=trials, mixture=st.sampled_from([1, 3, 9]), seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_innovations_are_predictions_from_the_trials_before(
    trials: list[tuple[int, float]], mixture: int, seed: int
) -> None:
    state = state_after(trials, mixture=mixture, seed=seed)
    for row, part in enumerate(calibration(state).returns):
        expected = [brute_force(state, row, i, list(range(i))) for i in range(len(trials))]
        np.testing.assert_allclose(part.innovations, expected, rtol=1e-5, atol=1e-7)


def test_the_observations_as_modeled_are_those_the_posterior_was_fed() -> None:
    state = state_after([(3, 5.0), (7, 9.0), (3, 6.0), (20, 15.0)], mixture=3, costs=2)
    values, noises = state.posterior.modeled()
    refitted = Posterior(state.problem)
    for column, observation in enumerate(state.posterior.observations):
        refitted.reward.append(observation.index, values[0, column], noises[0, column])
        for k, model in enumerate(refitted.costs):
            for process in model.processes:
                process.append(observation.index, values[1 + k, column], noises[1 + k, column])
    np.testing.assert_array_equal(refitted.reward.mean, state.posterior.reward.mean)
    for ours, theirs in zip(refitted.costs, state.posterior.costs, strict=True):
        np.testing.assert_array_equal(ours.moments()[0], theirs.moments()[0])


def test_every_return_is_judged_by_name() -> None:
    parts = calibration(state_after([(1, 5.0), (2, 5.0)], costs=2)).returns
    assert [part.name for part in parts] == ["reward", "cost 1", "cost 2"]
    assert all(part.residuals.shape == part.innovations.shape == (2,) for part in parts)


def test_without_trials_nothing_is_claimed() -> None:
    found = calibration(state_after([]))
    assert all(len(part.residuals) == 0 and part.verdict == "unknown" for part in found.returns)
    assert "each of 0 trials" in str(found)


def test_looking_does_not_change_what_is_looked_at() -> None:
    state = state_after([(1, 5.0), (8, 9.0)])
    before = state.posterior.costs[0].tail(1.0)
    calibration(state)
    np.testing.assert_array_equal(state.posterior.costs[0].tail(1.0), before)


def judged(residuals: np.ndarray) -> ReturnCalibration:
    return ReturnCalibration("cost", residuals, residuals)


def test_coverage_is_the_share_inside_the_band() -> None:
    part = judged(np.array([0.1, -0.5, 1.0, -1.5, 3.0]))
    assert part.coverage(0.5) == pytest.approx(0.4)
    assert part.coverage(0.8) == pytest.approx(0.6)
    assert part.coverage(0.95) == pytest.approx(0.8)
    assert half_width(0.95) == pytest.approx(1.959964, abs=1e-5)


@pytest.mark.parametrize(("spread", "verdict"), [(1.0, "plausible"), (3.0, "too narrow"), (0.3, "cautious")])
def test_the_verdict_follows_the_misses(spread: float, verdict: str) -> None:
    for trials in (40, 2000):
        assert judged(spread * norm.ppf((np.arange(trials) + 0.5) / trials)).verdict == verdict


def test_the_table_names_every_band() -> None:
    text = str(Calibration((judged(np.array([0.1, -0.5, 1.0])), judged(np.array([0.0, 0.2, 0.3])))))
    assert text.splitlines()[1].split() == [
        "return",
        "50%",
        "band",
        "80%",
        "band",
        "95%",
        "band",
        "mean",
        "sd",
        "bands",
        "are",
    ]
    assert len({len(line) for line in text.splitlines()[2:]}) == 1
