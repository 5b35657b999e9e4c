import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import ConfigError
from small_mdp import Numbering, behaving, paths, random_behavior, random_mdp
from theorem1 import blind, limit, log_episodes, paced, tabular
from theorem1.cases import machine


def made(seed, kind="paced", penalty=1e-2):
    mdp = random_mdp(seed)
    behavior = random_behavior(mdp, seed)
    logged = log_episodes(mdp, behavior)
    policies = paced(logged.graph, penalty=penalty) if kind == "paced" else tabular(logged, penalty=penalty)
    return logged, policies, paths(mdp, behaving(behavior))


@pytest.mark.parametrize("kind", ["paced", "tabular"])
@pytest.mark.parametrize("seed", range(3))
def test_the_matrices_are_means_over_all_episodes(seed, kind):
    logged, policies, episodes = made(seed, kind)
    law = limit(logged, policies)
    numbers, H = Numbering(logged.graph), law.horizon
    logs = policies.log_probabilities(law.theta)
    scores = policies.scores(np.exp(logs))
    by_step, by_episode, risk = np.zeros_like(law.by_step), np.zeros_like(law.by_step), 0.0
    gradient = np.zeros_like(law.theta)
    for path in episodes:
        at = [(numbers.of(move, path.returns), move.action) for move in path.moves]
        psi = np.array([policies.penalty * law.theta - scores[x, a] for x, a in at])
        by_step += path.probability * psi.T @ psi / H
        by_episode += path.probability * np.outer(psi.mean(axis=0), psi.mean(axis=0))
        gradient += path.probability * psi.mean(axis=0)
        risk += path.probability * np.mean([np.log(logged.actions[x, a]) - logs[x, a] for x, a in at])
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
    np.testing.assert_allclose(law.by_step, by_step, atol=1e-12)
    np.testing.assert_allclose(law.by_episode, by_episode, atol=1e-12)
    assert law.realizability == pytest.approx(risk + policies.penalty * law.theta @ law.theta / 2)


def test_the_information_is_the_second_derivative_of_the_risk():
    logged, policies, _ = made(0)
    law = limit(logged, policies)
    step = 1e-4
    moves = step * np.eye(len(law.theta))
    numeric = np.array(
        [
            [
                sum(i * j * policies.risk(law.theta + i * one + j * two, logged) for i in (-1, 1) for j in (-1, 1))
                / (4 * step**2)
                for two in moves
            ]
            for one in moves
        ]
    )
    np.testing.assert_allclose(law.information, numeric, atol=1e-6)


def test_the_covariance_is_the_sandwich_of_theorem_7():
    logged, policies, _ = made(1)
    law = limit(logged, policies)
    inverse = np.linalg.inv(law.information)
    U = law.U.reshape(-1, len(law.theta))
    np.testing.assert_allclose(law.covariance(), U @ inverse @ law.by_episode @ inverse @ U.T, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(law.covariance("step"), U @ inverse @ law.by_step @ inverse @ U.T, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(law.jacobian, law.horizon**2 * law.U)


def test_u_is_the_normalized_policy_jacobian_of_the_paper():
    """U = 1/H E over a random step of Q(x, a) grad ln p(a | x), summed over all episodes of the policy itself."""
    logged, policies, _ = made(2)
    law = limit(logged, policies)
    graph, policy = logged.graph, policies.policy(law.theta)
    scores, Q = policies.scores(policy), graph.action_values(policy)
    arrivals = np.zeros(len(graph) + 1)
    arrivals[graph.starts[0]] = 1.0
    U = np.zeros_like(law.U[0])
    for x in range(len(graph)):
        for a in range(graph.mdp.actions):
            chance = arrivals[x] * policy[x, a]
            U += chance * np.outer(Q[x, a], scores[x, a]) / law.horizon**2
            np.add.at(arrivals, graph.children[x, a], chance * graph.outcomes[x, a])
    np.testing.assert_allclose(law.U[0], U, atol=1e-12)


@pytest.mark.parametrize("horizon", [2, 3, 4])
def test_the_printed_covariance_is_h_times_too_large_where_the_class_holds_the_behavior(horizon):
    logged = log_episodes(machine(horizon, slip=0.1), np.full((horizon, 2, 3), 1 / 3))
    law = limit(logged, tabular(logged))
    assert law.realizability == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(law.by_step, horizon * law.by_episode, atol=1e-9)
    np.testing.assert_allclose(law.covariance("step"), horizon * law.covariance(), rtol=1e-6, atol=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["paced", "tabular"]))
def test_the_printed_covariance_is_never_too_small(seed, kind):
    logged, policies, _ = made(seed, kind)
    law = limit(logged, policies)
    assert np.linalg.eigvalsh(law.by_step - law.by_episode)[0] >= -1e-10


def test_nothing_varies_without_chance_in_a_class_that_holds_the_behavior():
    logged = log_episodes(machine(4), np.full((4, 2, 3), 1 / 3))
    policies = tabular(logged, penalty=1e-3)
    law = limit(logged, policies)
    np.testing.assert_allclose(law.jacobian, 0.0, atol=1e-12)
    anywhere = policies.policy(np.random.default_rng(0).normal(size=policies.dimension))
    np.testing.assert_allclose(logged.graph.expected_returns(anywhere), logged.graph.asked, atol=1e-12)


def test_the_covariance_has_at_most_as_many_dimensions_as_the_policy_has_parameters():
    logged, policies, _ = made(0)
    values = np.linalg.eigvalsh(limit(logged, policies).covariance())
    assert len(values) > policies.dimension
    assert np.sum(values > 1e-10 * values[-1]) <= policies.dimension


def test_the_linear_deviation_is_the_first_order_of_the_fitted_returns():
    logged, policies, _ = made(1)
    law = limit(logged, policies)
    weights = logged.visits / law.horizon
    other = logged.draw(10, 1, np.random.default_rng(0))[0] / (10 * law.horizon)
    small = 1e-5
    mixed = (1 - small) * weights + small * other
    moved = logged.graph.expected_returns(policies.policy(policies.fit(mixed, law.theta, tolerance=1e-13)))
    linear = law.linear(policies.gradient(law.theta, mixed))
    np.testing.assert_allclose(moved - law.returns, linear, atol=1e-8)
    assert np.abs(linear).max() > 1e-7


def test_a_flat_risk_is_refused():
    logged = log_episodes(machine(2), np.full((2, 2, 3), 1 / 3))
    doubled = blind(logged.graph)
    features = np.concatenate([doubled.features, doubled.features], axis=2)
    with pytest.raises(ConfigError, match="no finite maximum, or none that is single"):
        limit(logged, type(doubled)(features=features, allowed=doubled.allowed))
