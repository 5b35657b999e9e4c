import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError
from lifesafe.lab.theory.gap import (
    Density,
    Determinism,
    bias_bound,
    likelihood_bias,
    likelihood_bias_at,
    rcsl_bias,
    rcsl_bias_by_step,
    rcsl_bias_hoelder,
    rcsl_bias_without_noise,
)

CHANCE = Determinism(epsilon_reward=0.01, epsilon_state=0.02, delta=0.1)
DENSITY = Density(coverage=0.5, bound=2.0, continuity=0.03)

shares = st.floats(0.0, 0.2)


def test_rcsl_bias_is_theorem_5_word_by_word():
    assert rcsl_bias(4, DENSITY, determinism=CHANCE) == pytest.approx((2 * 2.0 * (16 * 0.03 + 0.1) + 16 * 0.03) / 0.5)


def test_a_density_below_one_counts_as_one():
    small = Density(coverage=0.5, bound=0.6)
    assert rcsl_bias(4, small, determinism=CHANCE) == pytest.approx(2 * (16 * 0.03 + 0.1) / 0.5)


def test_the_printed_bound_is_theorem_4_word_by_word():
    gap = bias_bound(4, DENSITY, determinism=CHANCE, realizability=0.08, literal=True)
    assert gap.likelihood == pytest.approx(16 * math.sqrt(0.04))
    assert gap.total == pytest.approx((2 * 2.0 * (16 * 0.03 + 0.1) + 16 * 0.03) / 0.5 + 16 * math.sqrt(0.04))


def test_without_chance_and_misfit_there_is_no_bias():
    assert bias_bound(9, Density(coverage=0.001), determinism=Determinism()).total == 0.0


@given(st.integers(1, 9), shares, shares, st.floats(0.0, 0.5), st.floats(0.01, 1.0))
def test_the_remark_by_step_is_never_above_theorem_5(horizon, epsilon, continuity, delta, coverage):
    by_step = rcsl_bias_by_step(coverage, 1.5, [continuity] * (horizon - 1), epsilon=epsilon, last_delta=delta)
    density = Density(coverage=coverage, bound=1.5, continuity=continuity)
    whole = rcsl_bias(horizon, density, determinism=Determinism(epsilon_state=epsilon, delta=delta))
    assert by_step <= whole * (1 + 1e-12)
    assert whole - by_step == pytest.approx(horizon * continuity / coverage, rel=1e-6, abs=1e-9)


def test_corollary_1_is_theorem_5_without_noise():
    chance = Determinism(epsilon_state=0.03)
    density = Density(coverage=0.2, bound=3.0)
    assert rcsl_bias_without_noise(5, density, epsilon=0.03) == rcsl_bias(5, density, determinism=chance)
    assert rcsl_bias_without_noise(5, density, epsilon=0.03) == pytest.approx(2 * 3.0 * 25 * 0.03 / 0.2)


@given(st.integers(1, 9), shares, st.floats(0.0, 1.0), st.floats(0.0, 5.0), st.floats(0.1, 1.0))
def test_corollary_2_follows_from_theorem_5(horizon, epsilon, delta, constant, exponent):
    chance = Determinism(epsilon_state=epsilon, delta=delta)
    worst = Density(coverage=0.1, bound=constant + 1, continuity=constant * (2 * delta) ** exponent)
    hoelder = rcsl_bias_hoelder(horizon, 0.1, constant=constant, exponent=exponent, determinism=chance)
    assert rcsl_bias(horizon, worst, determinism=chance) <= hoelder * (1 + 1e-12)


def test_the_mended_likelihood_bias_is_the_printed_one_where_all_episodes_return_the_target():
    sure = Density(coverage=1.0)
    assert likelihood_bias_at(3, sure, determinism=Determinism(), realizability=0.2) == likelihood_bias(3, 0.2)


def test_the_mended_likelihood_bias_grows_for_rare_targets_and_with_chance():
    rare = Density(coverage=0.01)
    calm = likelihood_bias_at(3, rare, determinism=Determinism(), realizability=0.2)
    assert calm == pytest.approx(10 * likelihood_bias(3, 0.2))
    chancy = likelihood_bias_at(3, rare, determinism=Determinism(epsilon_state=0.001), realizability=0.2)
    assert chancy - calm == pytest.approx(9 * 2 * 0.001 / (2 * 0.01))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Determinism(epsilon_state=1.5), "Got epsilon_state = 1.5; give a probability from 0 to 1"),
        (lambda: Determinism(delta=-0.1), "Got delta = -0.1; give a finite number that is not negative"),
        (lambda: Determinism(epsilon_reward=math.nan), "Got epsilon_reward = nan"),
        (lambda: Density(coverage=0.0), "Got coverage = 0.0; give a finite number above 0"),
        (lambda: Density(coverage=0.5, bound=0.4), "Got bound = 0.4 below coverage = 0.5"),
        (lambda: Density(coverage=0.5, continuity=-1.0), "Got continuity = -1.0"),
        (lambda: rcsl_bias(0, DENSITY, determinism=CHANCE), "Got horizon = 0"),
        (lambda: rcsl_bias_by_step(0.1, 1.0, [-1.0], epsilon=0.0, last_delta=0.0), "Got continuity = -1.0"),
        (lambda: rcsl_bias_without_noise(3, DENSITY, epsilon=-1.0), "Got epsilon = -1.0"),
        (
            lambda: rcsl_bias_hoelder(3, 0.1, constant=1.0, exponent=1.5, determinism=CHANCE),
            "Got exponent = 1.5; a Hoelder exponent is above 0 and at most 1",
        ),
        (lambda: likelihood_bias(3, -0.1), "Got realizability = -0.1"),
        (lambda: bias_bound(3, DENSITY, determinism=CHANCE, realizability=math.inf), "Got realizability = inf"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
