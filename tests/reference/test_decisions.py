"""Whole runs, compared at every step with the slow reference: bands, safe sets, decisions, recommendations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import GuaranteeWarning, NoSafeTargetError
from lifesafe.optimizer import Prior, Priors, Problem, SafeOptimizer, Schedule
from lifesafe.returns import Returns, returns_array
from lifesafe.theory import simulators
from properties.runs import from_map, plant
from reference.slow_reference import Reference

Episodes = Callable[[int, int, np.random.Generator], list[Returns]]


def follow(
    problem: Problem, schedule: Schedule, episodes: Episodes, *, trials: int, seed: int = 0, at_once: int = 1
) -> SafeOptimizer:
    """Run optimizer and reference side by side and compare them before and after every event."""
    rng = np.random.default_rng(seed)
    live, slow = SafeOptimizer(problem, schedule), Reference(problem, schedule)
    compare(live, slow)
    for _ in range(trials):
        if not ask(live, slow, at_once):
            break
        trial = live.open_trials[int(rng.integers(len(live.open_trials)))]
        told = episodes(trial.index, trial.episodes, rng)
        live.tell(trial, told)
        slow.tell(trial.number, returns_array(told))
        compare(live, slow)
    return live


def ask(live: SafeOptimizer, slow: Reference, at_once: int) -> bool:
    """Open so many trials, each among the choices of the reference; return whether any is open."""
    while len(live.open_trials) < at_once:
        choices, before = slow.choices(), {t.number for t in live.open_trials}
        if choices == {}:
            with pytest.raises(NoSafeTargetError):
                live.ask_many(len(before) + 1)
            return False
        live.ask_many(len(before) + 1)
        new = [t for t in live.open_trials if t.number not in before]
        assert bool(new) == (choices is not None)
        if not new:
            break
        (trial,) = new
        known = slow.known()
        assert choices is not None
        assert trial.index in choices.get(trial.stage.value, ())
        assert trial.risk == pytest.approx(known["risk"][trial.index], rel=1e-7, abs=1e-15)
        slow.ask(trial.number, trial.index, trial.stage.value, trial.risk)
    return bool(live.open_trials)


def compare(live: SafeOptimizer, slow: Reference) -> None:
    lower, upper = slow.bands()
    bands, scale = live.bands, np.array([[live.problem.extents[0]], *([b] for b in live.problem.limits)])
    for ours, theirs in ((bands.lower, lower), (bands.upper, upper)):
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(ours / scale, theirs / scale, rtol=1e-8, atol=1e-8)
    safe = set(np.flatnonzero(live.safe))
    assert slow.safe(-1e-9) <= safe <= slow.safe(1e-9)
    assert live.spent == pytest.approx(slow.spent, rel=1e-12)
    assert live.frozen == slow.frozen
    best = live.best
    assert best.index in slow.best() if best else not slow.best()


def costs(**changes: Any) -> Priors:
    settings = {"mean": "limit", "kernel": "matern52", "lengthscales": (1.5,), "sd": 1.0, "scale": "log"}
    return Priors(cost=Prior(**{**settings, **changes}))


def quick(**changes: Any) -> Schedule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # the fixed schedule bounds nothing
        return Schedule(**{"reach": 0.2, "episodes": 20, "exploration": 5, **changes})


def visited(live: SafeOptimizer) -> int:
    return len({result.trial.index for result in live.trials})


@pytest.mark.parametrize("family", sorted(simulators.FAMILIES))
def test_a_run_on_each_family_equals_the_reference(family: str) -> None:
    simulated = simulators.FAMILIES[family](np.random.default_rng(5), size=10)
    problem, episodes = from_map(simulated, delta=0.3, priors=costs())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # so confident a prior goes wrong on a cliff
        live = follow(problem, quick(), episodes, trials=10)
    assert len(live.trials) == 10


@pytest.mark.parametrize("mixture", [1, 3, 9])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_run_with_a_mixture_equals_the_reference(mixture: int, scale: str) -> None:
    system = plant(np.random.default_rng(1), size=9, delta=0.3, priors=costs(mixture=mixture, scale=scale))
    live = follow(system.problem, quick(), system.episodes, trials=8)
    assert visited(live) > 2


@pytest.mark.parametrize("mean", ["limit", "larger"])
@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
def test_a_run_with_each_kernel_and_mean_equals_the_reference(mean: str, kernel: str) -> None:
    prior = costs(mean=mean, kernel=kernel, lengthscales=(1.5, 1.0))
    system = plant(np.random.default_rng(2), size=9, delta=0.3, priors=prior)
    live = follow(system.problem, quick(certification="asserted"), system.episodes, trials=8)
    assert visited(live) > 2


@pytest.mark.parametrize(
    "settings",
    [
        {"share": 0.1},
        {"share": None, "trials": 7},
        {"risk": "paper"},
        {"risk": "fixed", "multiplier": 1.5},
        {"risk": "fixed", "multiplier": 3.0, "on_violation": "stop"},
        {"risk": "fixed", "multiplier": 0.5, "on_violation": "hold"},
        {"exploration": 0},
        {"reach": 2.0},
        {"tolerance": 1.0},
        {"surprises": 1},
        {"episodes": 3, "seed_trials": 2},
    ],
    ids=str,
)
def test_a_run_under_each_schedule_equals_the_reference(settings: dict[str, Any]) -> None:
    system = plant(np.random.default_rng(3), size=9, seeds=2, delta=0.3, priors=costs())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # trials may go wrong here
        follow(system.problem, quick(**settings), system.episodes, trials=9)


@pytest.mark.parametrize("risk", ["ledger", "paper", "fixed"])
def test_a_run_with_two_costs_equals_the_reference(risk: str) -> None:
    system = plant(
        np.random.default_rng(4), costs=2, size=6, delta=0.3, priors=costs(mixture=3, sd=0.6, lengthscales=(5.0,))
    )
    live = follow(system.problem, quick(risk=risk, episodes=100), system.episodes, trials=7)
    assert visited(live) > 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_with_bounds_on_the_slopes_equals_the_reference(count: int) -> None:
    system = plant(
        np.random.default_rng(6), costs=count, size=9 if count == 1 else 6, lipschitz=(40.0,) * count,
        priors=costs(scale="linear", sd=1.0), trust_prior=True,
    )  # fmt: skip
    schedule = quick(risk="paper", certification="asserted", episodes=200)
    live = follow(system.problem, schedule, system.episodes, trials=6)
    assert live.safe.sum() > 1


def test_a_run_over_a_cliff_with_wrong_bounds_on_the_slopes_equals_the_reference() -> None:
    prior = costs(scale="linear", sd=1.0)
    system = plant(np.random.default_rng(6), size=9, lipschitz=(40.0,), priors=prior, trust_prior=True)
    system.means[system.problem.candidates[:, 0] > 160, 1] += 90.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        schedule = quick(risk="paper", certification="asserted", episodes=200, reach=0.6, surprises=99)
        live = follow(system.problem, schedule, system.episodes, trials=6)
    assert any(result.violated for result in live.trials)


@pytest.mark.parametrize("mixture", [1, 3])
def test_a_run_with_several_open_trials_equals_the_reference(mixture: int) -> None:
    system = plant(np.random.default_rng(7), size=9, delta=0.3, priors=costs(mixture=mixture))
    live = follow(system.problem, quick(), system.episodes, trials=9, at_once=3)
    assert visited(live) > 2


@pytest.mark.parametrize(("surprises", "reach"), [(1, 0.2), (2, 0.2), (99, 0.2), (2, 0.6), (99, 0.6)])
def test_a_run_over_a_cliff_equals_the_reference(surprises: int, reach: float) -> None:
    system = plant(np.random.default_rng(8), size=9, delta=0.3, priors=costs())
    system.means[system.problem.candidates[:, 0] > 240, 1] += 90.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        live = follow(system.problem, quick(surprises=surprises, reach=reach), system.episodes, trials=9)
    assert any(result.violated for result in live.trials)
    assert visited(live) > 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_long_random_runs_equal_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = costs(
        mean=str(rng.choice(["limit", "larger"])), kernel=str(rng.choice(["rbf", "matern32", "matern52"])),
        scale=str(rng.choice(["linear", "log"])), mixture=int(rng.choice([1, 3, 9])),
        lengthscales=(float(rng.uniform(0.6, 2.0)),), sd=float(rng.uniform(0.6, 1.5)),
    )  # fmt: skip
    system = plant(rng, costs=1 + seed % 2, size=(12, 6)[seed % 2], seeds=1 + seed % 3, delta=0.3, priors=prior)
    schedule = quick(
        risk=str(rng.choice(["ledger", "paper", "fixed"])), share=float(rng.uniform(0.05, 0.5)),
        reach=float(rng.uniform((0.1, 0.21)[seed % 2], 0.5)), exploration=int(rng.integers(0, 12)),
        certification=str(rng.choice(["score", "asserted"])), surprises=int(rng.integers(1, 4)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # some of these settings are bad on purpose
        follow(system.problem, schedule, system.episodes, trials=15, seed=seed, at_once=1 + seed % 3)
