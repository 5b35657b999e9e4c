import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError
from lifesafe.lab.theory.bounds import GainBound, paper_multiplier
from lifesafe.lab.theory.budget import (
    exploration_trials,
    gain_constant,
    maximization_trials,
    trial_budget,
)


def square(points, length_scale=0.3):
    axis = np.linspace(0, 1, points) / length_scale
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


EXAMPLE = {
    "accuracy": 25.0,
    "tolerance": 5.0,
    "reward_sd": 100.0,
    "reward_noise_sd": 10.0,
    "cost_sd": 20.0,
    "cost_noise_sd": 3.0,
}


def test_gain_constant_is_the_papers_at_prior_variance_one():
    assert gain_constant(0.25) == pytest.approx(1 / math.log(1 + 1 / 0.25))
    assert gain_constant(0.25, 100.0) == pytest.approx(100 / math.log(1 + 100 / 0.25))


@given(st.floats(0.01, 100.0), st.floats(0.01, 10.0), st.floats(0.0, 1.0))
def test_gain_constant_bounds_every_posterior_variance(variance, noise_variance, share):
    posterior = share * variance
    bound = gain_constant(noise_variance, variance) * math.log1p(posterior / noise_variance)
    assert posterior <= bound * (1 + 1e-12)


def theorem_3(N, accuracy, gain, candidates, delta, constant):
    log = math.log(candidates * math.pi**2 * N**2 / (6 * delta))
    return 4 * math.sqrt(constant * gain(N) * log / N) <= accuracy


@pytest.mark.parametrize("accuracy", [30.0, 6.0, 3.0, 1.0])
def test_maximization_trials_are_the_smallest_that_theorem_3_allows(accuracy):
    def gain(N):
        return 3.0 * math.log1p(N)

    N = maximization_trials(accuracy, gain, candidates=100, delta=0.1, constant=1.0)
    first = next(n for n in range(1, N + 2) if theorem_3(n, accuracy, gain, 100, 0.1, 1.0))
    assert first == N


def test_maximization_trials_beyond_the_scan_are_still_the_boundary():
    bound = GainBound.on("rbf", square(8), 0.1)
    N = maximization_trials(0.5, bound, candidates=64, delta=0.1, constant=gain_constant(0.1))
    assert N > 10_000
    assert theorem_3(N, 0.5, bound, 64, 0.1, gain_constant(0.1))
    assert not theorem_3(N - 1, 0.5, bound, 64, 0.1, gain_constant(0.1))


def test_a_small_trial_number_that_holds_is_found_before_the_condition_fails_again():
    # Linear gain at first: the condition holds at N = 1, then the logarithm breaks it.
    constant = 1.0 / (16 * math.log(10 * math.pi**2 / 6 / 0.1) * 1.001)
    assert maximization_trials(1.0, float, candidates=10, delta=0.1, constant=constant) == 1


def test_trials_made_before_and_shared_delta_cost_more():
    bound = GainBound.on("rbf", square(8), 0.1)
    settings = {"candidates": 64, "delta": 0.1, "constant": 1.0}
    alone = maximization_trials(1.0, bound, **settings)
    assert maximization_trials(1.0, bound, **settings, before=10_000) > alone
    assert maximization_trials(1.0, bound, **settings, events=2) > alone


def test_exploration_trials_satisfy_the_rule_of_the_proof_and_no_fewer_do():
    bound = GainBound.on("matern32", square(6), 0.1)
    N = exploration_trials(1.0, bound, candidates=36, delta=0.1, constant=0.5)

    def holds(n):
        return n / (paper_multiplier(36, n, 0.1) ** 2 * bound(n)) >= 0.5 * 37 / 1.0**2

    assert holds(N)
    assert not holds(N - 1)


def test_budget_adds_up_and_the_printed_formulas_ask_for_less():
    result = trial_budget(square(10), **EXAMPLE)
    printed = trial_budget(square(10), **EXAMPLE, literal=True)
    assert result.trials == result.exploration + result.maximization
    assert result.episodes == 20 * result.trials
    assert result.events == 2
    assert printed.events == 1
    assert printed.exploration < result.exploration
    assert printed.maximization < result.maximization


def test_budget_does_not_depend_on_the_unit_of_the_returns():
    scaled = {name: 0.01 * value for name, value in EXAMPLE.items()}
    one, two = trial_budget(square(8), **EXAMPLE), trial_budget(square(8), **scaled)
    assert two.exploration == pytest.approx(one.exploration, rel=1e-3)
    assert two.maximization == pytest.approx(one.maximization, rel=1e-3)


def test_printed_budget_at_prior_variance_one_follows_theorem_3_word_by_word():
    settings = EXAMPLE | {"reward_sd": 1.0, "reward_noise_sd": 0.5, "accuracy": 1.0}
    N = trial_budget(square(6), **settings, literal=True).maximization
    gain = GainBound.on("matern52", square(6), 0.25)
    constant = 1 / math.log(1 + 0.5**-2)
    assert theorem_3(N, 1.0, gain, 36, 0.1, constant)
    assert not theorem_3(N - 1, 1.0, gain, 36, 0.1, constant)


def test_more_costs_need_more_trials():
    assert trial_budget(square(6), **EXAMPLE, costs=3).trials > trial_budget(square(6), **EXAMPLE).trials


def test_budget_prints_as_an_aligned_table():
    text = str(trial_budget(square(6), **EXAMPLE))
    title, *lines = text.splitlines()
    assert title == "Budget of Theorem 3, corrected constants"
    assert len({line.index(symbol) for line in lines for symbol in ("|Z|", "delta", "zeta") if symbol in line}) == 1
    assert "N_dagger" in text
    assert "N_sharp" in text
    assert "as printed" in str(trial_budget(square(6), **EXAMPLE, literal=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gain_constant(0.0), "Got noise variance = 0.0; give a finite number above 0"),
        (lambda: gain_constant(1.0, math.inf), "Got variance = inf"),
        (
            lambda: maximization_trials(0.0, float, candidates=2, delta=0.1, constant=1.0),
            "Got accuracy = 0.0",
        ),
        (
            lambda: maximization_trials(1.0, float, candidates=2, delta=0.1, constant=1.0, before=-1),
            "Got before = -1",
        ),
        (
            lambda: maximization_trials(1.0, float, candidates=2, delta=0.1, constant=1.0),
            r"Got accuracy = 1.0, which needs more than 1e\+15 trials; give a larger value or less noise",
        ),
        (lambda: trial_budget(square(3), **EXAMPLE | {"cost_sd": -1.0}), "Got cost_sd = -1.0"),
        (lambda: trial_budget(square(3), **EXAMPLE, costs=0), "Got costs = 0"),
        (lambda: trial_budget(square(3), **EXAMPLE, delta=0.0), "Got delta = 0.0"),
        (lambda: trial_budget(square(3), **EXAMPLE, episodes_per_trial=0), "Got episodes_per_trial = 0"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
