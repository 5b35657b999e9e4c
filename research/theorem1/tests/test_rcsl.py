from dataclasses import replace

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from small_mdp import random_behavior, random_mdp
from theorem1 import SoftmaxClass, blind, log_episodes, paced, tabular
from theorem1.cases import machine

MDP = random_mdp(3)
LOGGED = log_episodes(MDP, random_behavior(MDP, 3))
WEIGHTS = LOGGED.visits / MDP.horizon
CALM = log_episodes(machine(3), np.full((3, 2, 3), 1 / 3))

CLASSES = {
    "tabular": tabular(LOGGED, penalty=1e-3),
    "unmasked": tabular(LOGGED, penalty=1e-3, masked=False),
    "paced": paced(LOGGED.graph, penalty=1e-3),
    "blind": blind(LOGGED.graph),
}


@pytest.fixture(params=CLASSES)
def policies(request: pytest.FixtureRequest) -> SoftmaxClass:
    return CLASSES[request.param]


def somewhere(policies):
    return np.random.default_rng(0).normal(size=policies.dimension)


def test_probabilities_add_up_over_the_allowed_actions(policies):
    policy = policies.policy(somewhere(policies))
    np.testing.assert_allclose(policy.sum(axis=1), 1.0)
    assert np.all((policy > 0) == policies.allowed)


def test_large_parameters_do_not_overflow(policies):
    policy = policies.policy(1e4 * somewhere(policies))
    assert np.all(np.isfinite(policy))
    np.testing.assert_allclose(policy.sum(axis=1), 1.0)


def numeric(function, theta, step=1e-5):
    return np.stack(
        [(function(theta + e) - function(theta - e)) / (2 * step) for e in step * np.eye(len(theta))], axis=-1
    )


def test_derivatives_are_the_derivatives(policies):
    theta = somewhere(policies)
    gradient, hessian = policies.gradient(theta, WEIGHTS), policies.hessian(theta, WEIGHTS)
    np.testing.assert_allclose(gradient, numeric(lambda at: policies.loss(at, WEIGHTS), theta), atol=1e-8)
    np.testing.assert_allclose(hessian, numeric(lambda at: policies.gradient(at, WEIGHTS), theta), atol=1e-8)


def test_scores_are_the_derivatives_of_the_log_probabilities(policies):
    theta = somewhere(policies)
    found = policies.scores(policies.policy(theta))[policies.allowed]
    expected = numeric(lambda at: policies.log_probabilities(at)[policies.allowed], theta)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_fit_has_no_gradient_and_no_better_neighbor(policies):
    theta = policies.fit(WEIGHTS)
    assert np.abs(policies.gradient(theta, WEIGHTS)).max() <= 1e-10
    for move in 0.1 * np.random.default_rng(1).normal(size=(20, policies.dimension)):
        assert policies.loss(theta + move, WEIGHTS) > policies.loss(theta, WEIGHTS)


def test_the_fit_does_not_depend_on_where_it_begins(policies):
    np.testing.assert_allclose(policies.fit(WEIGHTS, somewhere(policies)), policies.fit(WEIGHTS), atol=1e-6)


def test_the_masked_tabular_class_holds_the_behavior_given_the_target():
    policies = tabular(LOGGED)
    theta = policies.fit(WEIGHTS)
    np.testing.assert_allclose(policies.policy(theta)[LOGGED.seen], LOGGED.actions[LOGGED.seen], atol=1e-6)
    assert policies.risk(theta, LOGGED) == pytest.approx(0.0, abs=1e-9)


def test_a_tabular_fit_without_penalty_is_the_share_of_actions():
    policies = tabular(CALM)
    counts = CALM.draw(3000, 1, np.random.default_rng(0))[0].astype(float)
    policy = policies.policy(policies.fit(counts / counts.sum()))
    totals = counts.sum(axis=1)
    shares = counts[totals > 0] / totals[totals > 0][:, None]
    np.testing.assert_allclose(policy[totals > 0], shares, atol=1e-6)


def test_the_risk_is_the_mean_divergence_plus_the_penalty(policies):
    theta = somewhere(policies)
    policy = policies.policy(theta)
    divergence = np.zeros(len(LOGGED.graph))
    for x, (true, fitted) in enumerate(zip(LOGGED.actions, policy, strict=True)):
        divergence[x] = sum(p * np.log(p / q) for p, q in zip(true, fitted, strict=True) if p > 0)
    mean = divergence @ LOGGED.visits.sum(axis=1) / MDP.horizon
    assert policies.risk(theta, LOGGED) == pytest.approx(mean + policies.penalty * theta @ theta / 2)


def test_the_unmasked_class_gives_impossible_actions_a_probability():
    policies = tabular(CALM, penalty=1e-4, masked=False)
    policy = policies.policy(policies.fit(CALM.visits / 3))
    impossible = ~CALM.feasible
    assert np.all(policy[impossible] > 0)
    assert policy[impossible].max() < 0.5


def test_a_blind_policy_is_the_same_everywhere():
    policies = CLASSES["blind"]
    policy = policies.policy(policies.fit(WEIGHTS))
    np.testing.assert_allclose(policy, np.broadcast_to(policy[0], policy.shape))
    np.testing.assert_allclose(policy[0], WEIGHTS.sum(axis=0), atol=1e-8)


def test_a_likelihood_without_maximum_is_refused():
    policies = tabular(CALM, masked=False)  # impossible actions want a logit of minus infinity
    with pytest.raises(ConfigError, match=r"no finite maximum.*give a larger penalty"):
        policies.fit(CALM.visits / 3)


def test_a_dataset_with_forbidden_actions_is_refused():
    policies = CLASSES["tabular"]
    weights = np.full_like(WEIGHTS, 1 / WEIGHTS.size)
    assert not policies.allowed.all()
    with pytest.raises(ConfigError, match="actions that the class of policies does not allow"):
        policies.fit(weights)


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalty": -1.0}, "Got penalty = -1.0"),
        ({"penalty": np.inf}, "Got penalty = inf"),
        ({"features": CLASSES["paced"].features[:, :, :0]}, "Got no features"),
        ({"allowed": np.zeros_like(LOGGED.feasible)}, "with an allowed action in every context"),
        ({"allowed": LOGGED.feasible[1:]}, "give"),
    ],
)
def test_an_impossible_class_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(CLASSES["paced"], **change)
