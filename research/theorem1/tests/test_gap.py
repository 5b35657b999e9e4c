import math

import pytest
from hypothesis import strategies as st

from lifesafe.errors import ConfigError
from theorem1.gap import (
    Density,
    Determinism,
    bias_bound,
    likelihood_bias,
    likelihood_bias_at,
    rcsl_bias,
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
        (lambda: likelihood_bias(3, -0.1), "Got realizability = -0.1"),
        (lambda: bias_bound(3, DENSITY, determinism=CHANCE, realizability=math.inf), "Got realizability = inf"),
    ],
)
def test_impossible_values_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
