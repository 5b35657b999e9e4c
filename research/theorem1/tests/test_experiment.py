import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe._random import generator
from lifesafe.errors import ConfigError
from small_mdp import random_behavior, random_mdp
from theorem1 import (
    CASES,
    Case,
    LatticeMDP,
    Settings,
    limit,
    log_episodes,
    make_case,
    paced,
    study,
    tabular,
    target_biases,
)

QUICK = Settings(datasets=40, episodes=(400, 1600))


@pytest.fixture(scope="module")
def few():
    return study(make_case("unrealizable"), QUICK)


def test_the_same_seed_gives_the_same_study(few):
    again = study(make_case("unrealizable"), QUICK)
    other = study(make_case("unrealizable"), replace(QUICK, seed=1))
    assert again.to_plain() == few.to_plain()
    assert other.to_plain() != few.to_plain()


def test_a_size_is_drawn_alike_whatever_the_other_sizes_are(few):
    alone = study(make_case("unrealizable"), replace(QUICK, episodes=(1600,)))
    np.testing.assert_array_equal(alone.samples[0].deviations, few.samples[1].deviations)
    assert alone.slope is None


def test_deviations_are_those_of_the_fitted_policies(few):
    case, law = few.case, few.limit
    counts = case.logged.draw(400, 40, generator(0, "theorem 1", "unrealizable", 400))
    theta = case.policies.fit(counts[7] / (400 * 4))
    returns = case.logged.graph.expected_returns(case.policies.policy(theta))[few.shown]
    expected = np.sqrt(400) / 16 * (returns - law.returns[few.shown])
    np.testing.assert_allclose(few.samples[0].deviations[7], expected.reshape(-1), atol=1e-7)


def test_the_covariance_is_that_of_the_targets_looked_at(few):
    rows = np.repeat(few.shown, 2)
    np.testing.assert_array_equal(few.covariance(), few.limit.covariance()[rows][:, rows])
    assert len(few.bias) == few.shown.sum() < len(few.shown)


def test_every_size_of_dataset_is_told():
    told = []
    study(make_case("rare"), Settings(datasets=3, episodes=(50, 100)), report=told.append)
    assert [(each.done, each.total) for each in told] == [(0, 6), (3, 6)]


def test_correlations_are_those_of_the_covariance(few):
    K = few.covariance()
    first = few.correlations[0]
    assert first.predicted == pytest.approx(K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]))
    assert first.found == pytest.approx(np.corrcoef(few.samples[-1].deviations[:, :2].T)[0, 1])
    assert len(few.correlations) == few.shown.sum()


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_studied_and_told_to_machines(name):
    found = study(make_case(name), Settings(datasets=3, episodes=(200,)))
    told = json.loads(json.dumps(found.to_plain(), allow_nan=False))
    assert told["case"] == name
    assert len(told["bias"]) == found.shown.sum()
    assert len(told["law"]) == (0 if name == "exact" else 1)


def test_datasets_that_do_not_differ_have_numbers_too():
    found = study(make_case("rare"), Settings(datasets=2, episodes=(1, 2)))  # all of the usual returns
    told = found.to_plain()
    assert [row["deviation"] for row in told["law"]] == [0.0, 0.0]
    assert told["slope"] is None
    assert told["correlations"] == []
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize("name", CASES)
def test_the_bias_keeps_its_bound_in_every_case(name):
    case = make_case(name)
    for row in target_biases(case, limit(case.logged, case.policies)):
        assert row.rcsl <= row.bound.rcsl + 1e-9
        assert row.likelihood <= row.bound.likelihood + 1e-9


def test_a_rare_target_breaks_the_printed_bound_on_the_likelihood():
    case = make_case("rare")
    rare = target_biases(case, limit(case.logged, case.policies))[1]
    assert rare.target == (1.0, 1.0)
    assert rare.likelihood == pytest.approx(0.99, abs=0.001)
    assert rare.printed_likelihood < 0.2
    assert rare.bound.likelihood > 0.99


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.03, 0.003, 0.0003]), st.booleans(), st.sampled_from([1e-1, 1e-3]))
def test_the_bias_keeps_its_bound_on_random_systems(seed, chance, small, penalty):
    mdp = random_mdp(seed)
    shares = np.stack([1 - chance * mdp.probabilities[..., 1], chance * mdp.probabilities[..., 1]], axis=-1)
    mdp = replace(mdp, probabilities=shares)
    logged = log_episodes(mdp, random_behavior(mdp, seed))
    policies = paced(logged.graph, penalty=penalty) if small else tabular(logged, penalty=penalty, masked=False)
    case = Case(name="random", says="", logged=logged, policies=policies)
    for row in target_biases(case, limit(logged, policies)):
        assert row.rcsl <= row.bound.rcsl + 1e-9
        assert row.likelihood <= row.bound.likelihood + 1e-9


def fine_noise(seed, delta_steps, unit):
    """A deterministic system but for a reward that varies by so many steps of a fine lattice."""
    rng = np.random.default_rng(seed)
    usual = rng.integers(delta_steps, unit - delta_steps + 1, size=(2, 3))
    shifts = np.arange(-delta_steps, delta_steps + 1)
    rewards = usual[:, :, None] + shifts
    return LatticeMDP(
        horizon=2,
        units=(unit,),
        probabilities=rng.dirichlet(np.ones(len(shifts)), (2, 3)),
        successors=np.repeat(rng.integers(2, size=(2, 3, 1)), len(shifts), axis=2),
        rewards=rewards[..., None],
    )


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(6, 20))
def test_noise_of_the_rewards_keeps_the_bound_for_that_noise(seed, steps, unit):
    mdp = fine_noise(seed, steps, unit)
    delta = steps / unit
    assert mdp.determinism(delta).epsilon == pytest.approx(0.0, abs=1e-12)
    logged = log_episodes(mdp, random_behavior(mdp, seed))
    case = Case(name="noise", says="", logged=logged, policies=tabular(logged, penalty=1e-2, masked=False), delta=delta)
    for row in target_biases(case, limit(logged, case.policies)):
        assert row.rcsl <= row.bound.rcsl + 1e-9
        assert row.likelihood <= row.bound.likelihood + 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"datasets": 0}, "Got datasets = 0"),
        ({"datasets": 1}, "Got one dataset; give at least 2"),
        ({"episodes": ()}, "Got episodes = ()"),
        ({"episodes": (0,)}, "Got episodes = 0"),
        ({"episodes": (5, 5)}, "give sizes that differ"),
        ({"coverage": 0.0}, "Got coverage = 0.0"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        replace(QUICK, **change)


def test_targets_that_nobody_returns_are_refused():
    with pytest.raises(ConfigError, match=r"the most frequent has 0\.139\. Give a smaller coverage"):
        study(make_case("exact"), replace(QUICK, coverage=0.5))


def test_an_unknown_case_is_refused():
    with pytest.raises(ConfigError, match=r"Unknown case 'sof'\. Did you mean 'soft'"):
        make_case("sof")
