"""Simulated: a prior from simulation, in a problem, in the posterior, in a journal."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.optimizer import Prior, Priors, Problem, SafeOptimizer, Schedule, Simulated, residual_priors
from lifesafe.optimizer.confidence import confidence
from lifesafe.optimizer.posterior import Posterior
from lifesafe.optimizer.priors import to_scale
from lifesafe.returns import Returns

AXES = [np.linspace(0, 500, 17), np.linspace(0, 60, 7)]
PLAIN = Problem.on_grid(AXES, seeds=[Returns(125, 10)], limits=20.0)
M = len(PLAIN.candidates)


def simulated(members: int = 3, seed: int = 0, slope: float = 0.6) -> Simulated:
    """Return what an ordinary simulation would: less reward than asked for, and less cost."""
    rng = np.random.default_rng(seed)
    means = np.stack([0.9 * PLAIN.candidates[:, 0], slope * PLAIN.candidates[:, 1]])
    factors = rng.uniform(0.7, 1.3, (members, 2, 1))
    return Simulated(means=means, members=means * factors)


def trusting() -> Priors:
    """Return a residual so narrow that a search moves within a few trials, on a grid as coarse as this one."""
    return replace(residual_priors(), cost=replace(residual_priors().cost, sd=0.8))


def problem(**changes: Any) -> Problem:
    return PLAIN.with_simulated(simulated(**changes))


def episodes(index: int, count: int, rng: np.random.Generator) -> list[Returns]:
    R, G = PLAIN.candidates[index]
    return [Returns(rng.normal(R, 10), float(rng.poisson(0.8 * G))) for _ in range(count)]


def run(optimizer: SafeOptimizer, trials: int, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        trial = optimizer.ask()
        if trial is None:
            break
        optimizer.tell(trial, episodes(trial.index, trial.episodes, rng))
    return [result.trial.index for result in optimizer.trials]


def test_before_the_first_trial_the_simulation_is_what_is_expected() -> None:
    made = problem()
    posterior = Posterior(made)
    np.testing.assert_allclose(posterior.reward.mean, made.simulated.means[0] / 500)  # type: ignore[union-attr]
    expected = to_scale("log", 0.6 * PLAIN.candidates[:, 1], 20.0)
    np.testing.assert_allclose(posterior.costs[0].moments()[0], expected, atol=1e-6)


def test_the_covariance_of_the_members_is_added_to_that_of_the_residual() -> None:
    made = problem(members=4)
    assert made.simulated is not None
    gp, everything = Posterior(made).costs[0].processes[0], np.arange(M)
    alone = Posterior(PLAIN.with_simulated(Simulated(means=made.simulated.means))).costs[0].processes[0]
    y = to_scale("log", made.simulated.members[:, 1], 20.0) - to_scale("log", made.simulated.means[1], 20.0)
    added = gp.covariance(everything, everything) - alone.covariance(everything, everything)
    np.testing.assert_allclose(added, y.T @ y / 4, atol=1e-12)


def test_every_process_of_a_mixture_has_the_covariance_of_the_members() -> None:
    priors = residual_priors()
    mixed = replace(priors, cost=replace(priors.cost, mixture=9))
    gps = Posterior(PLAIN.with_simulated(simulated(), mixed)).costs[0].processes
    factor = simulated().modeled(1, lambda raw: to_scale("log", raw, 20.0))[1]
    assert factor is not None
    for gp, (_, sd, _) in zip(gps, mixed.cost.components, strict=True):
        np.testing.assert_allclose(gp.var, (sd * mixed.cost.sd) ** 2 + (factor**2).sum(axis=1))


def test_a_surprise_at_one_target_is_carried_along_the_members() -> None:
    means = np.stack([PLAIN.candidates[:, 0], np.full(M, 5.0)])
    member = means.copy()
    member[1] = 15.0  # if it costs more, then everywhere
    small = replace(residual_priors(), cost=replace(residual_priors().cost, sd=0.1, lengthscales=(0.05,)))
    far = int(np.argmax(PLAIN.candidates.sum(axis=1)))
    expected = []
    for members in ((), (member,)):
        made = PLAIN.with_simulated(
            Simulated(means=means, members=np.array(members).reshape(len(members), *means.shape)), small
        )
        posterior = Posterior(made)
        posterior.costs[0].append(0, 15.0, 0.1)
        expected.append(posterior.costs[0].moments()[0][far])
    alone, carried = (float(to_scale("log", np.array(cost), 20.0)) for cost in (5.0, 15.0))
    assert expected[0] == pytest.approx(alone, abs=1e-3)
    assert expected[1] == pytest.approx(carried, abs=0.05)


def test_only_the_reward_may_come_from_simulation() -> None:
    priors = Priors(reward=residual_priors().reward)
    posterior = Posterior(PLAIN.with_simulated(simulated(), priors))
    np.testing.assert_allclose(posterior.costs[0].moments()[0], 1.0)
    np.testing.assert_allclose(posterior.reward.mean, 0.9 * PLAIN.candidates[:, 0] / 500)


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.3])
def test_a_simulation_without_any_cost_certifies_nothing(delta: float) -> None:
    harmless = Simulated(means=np.stack([PLAIN.candidates[:, 0], np.zeros(M)]))
    made = replace(PLAIN, delta=delta).with_simulated(harmless)
    schedule = Schedule()
    SafeOptimizer(made, schedule)
    known = confidence(schedule, made, Posterior(made), 0.25 * delta)
    assert known.risk.min() > 0.25 * delta


def test_a_residual_too_small_to_doubt_the_simulation_is_refused() -> None:
    sure = replace(residual_priors(), cost=replace(residual_priors().cost, sd=0.2))
    with pytest.raises(ConfigError, match="The prior alone certifies"):
        SafeOptimizer(PLAIN.with_simulated(simulated(members=0), sure))
    SafeOptimizer(replace(PLAIN, trust_prior=True).with_simulated(simulated(members=0), sure))


def test_a_problem_keeps_its_simulation_in_plain_values_and_under_other_limits() -> None:
    made = problem()
    again = Problem.from_plain(made.to_plain())
    assert again.fingerprint == made.fingerprint
    assert again.simulated is not None
    assert made.simulated is not None
    np.testing.assert_array_equal(again.simulated.means, made.simulated.means)
    np.testing.assert_array_equal(again.simulated.members, made.simulated.members)
    raised = made.with_limits(40.0)
    assert raised.simulated is made.simulated
    before, after = (Posterior(each).costs[0].moments()[0] for each in (made, raised))
    np.testing.assert_array_equal(before, after)  # measured in the limits of the beginning


def test_another_simulation_is_another_problem_and_none_leaves_no_trace() -> None:
    assert problem().fingerprint != problem(seed=1).fingerprint != PLAIN.fingerprint
    assert "simulated" not in PLAIN.to_plain()


def test_a_run_with_a_simulation_goes_on_from_its_journal(tmp_path: Path) -> None:
    schedule = Schedule(reach=0.3, trials=10)
    with SafeOptimizer.open(tmp_path, PLAIN.with_simulated(simulated(), trusting()), schedule) as optimizer:
        tried = run(optimizer, 6)
        following = optimizer.ask()
        mean = optimizer.bands.lower
    with SafeOptimizer.open(tmp_path) as again:
        assert [result.trial.index for result in again.trials] == tried
        assert again.ask() == following
        np.testing.assert_array_equal(again.bands.lower, mean)
    assert len(set(tried)) > 1


def test_a_simulation_that_is_right_and_trusted_finds_more_with_the_same_trials() -> None:
    rewards = []
    for made in (PLAIN, PLAIN.with_simulated(simulated(members=0, slope=0.8), trusting())):
        optimizer = SafeOptimizer(made, Schedule(reach=0.2, trials=12))
        run(optimizer, 12)
        assert optimizer.best is not None
        rewards.append(optimizer.best.means.reward)
    assert rewards[1] > rewards[0]


def test_seven_digits_are_kept_and_arrays_cannot_be_changed() -> None:
    made = Simulated(means=np.full((2, 3), np.pi))
    np.testing.assert_allclose(made.means, np.pi, rtol=1e-7)
    assert made.members.shape == (0, 2, 3)
    with pytest.raises(ValueError, match="read-only"):
        made.means[0] = 1.0


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"means": np.zeros(5)}, r"means of shape \(5,\); give one row for the reward and one per cost"),
        ({"means": np.zeros((1, 5))}, r"means of shape \(1, 5\)"),
        ({"means": np.full((2, 5), np.nan)}, r"means must be finite; at \(0, 0\) there is nan"),
        ({"means": np.full((2, 5), 1e300)}, "means must be finite"),
        (
            {"means": np.zeros((2, 5)), "members": np.zeros((3, 2, 4))},
            r"members of shape \(3, 2, 4\) beside means of shape \(2, 5\)",
        ),
        (
            {"means": np.zeros((2, 5)), "members": np.full((1, 2, 5), np.inf)},
            r"members must be finite; at \(0, 0, 0\) there is inf",
        ),
    ],
)
def test_a_simulation_of_the_wrong_shape_or_without_numbers_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Simulated(**given)


def test_a_simulation_must_fit_its_problem_and_be_used() -> None:
    with pytest.raises(ConfigError, match=r"shape \(2, 5\) for 119 candidates and 1 costs; give 2 rows of 119"):
        PLAIN.with_simulated(Simulated(means=np.zeros((2, 5))))
    with pytest.raises(ConfigError, match="needs a simulation"):
        replace(PLAIN, priors=residual_priors())
    with pytest.raises(ConfigError, match="that no prior uses"):
        replace(PLAIN, simulated=simulated())
    with pytest.raises(ConfigError, match="around its target or a simulation"):
        Priors(reward=Prior(mean="limit", kernel="rbf", lengthscales=(0.5,), sd=1.0))
