import numpy as np
import pytest

from lifesafe.errors import ConfigError
from small_mdp import Numbering, paths, random_behavior, random_mdp
from theorem1 import context_graph, log_episodes
from theorem1.cases import machine


def random_policy(graph, seed):
    return np.random.default_rng(seed).dirichlet(np.ones(graph.mdp.actions), len(graph))


def choosing(graph, policy, target):
    """Turn a policy on contexts into one on histories, asked for a target."""
    numbers = {
        (int(t), int(s), tuple(left)): n
        for n, (t, s, left) in enumerate(zip(graph.times, graph.states, graph.remaining.tolist(), strict=True))
    }
    return lambda time, state, earned: policy[
        numbers[time, state, tuple(int(z - e) for z, e in zip(target, earned, strict=True))]
    ]


@pytest.mark.parametrize("seed", range(4))
def test_expected_returns_are_the_mean_over_all_episodes(seed):
    mdp = random_mdp(seed, horizon=3)
    graph = log_episodes(mdp, random_behavior(mdp, seed)).graph
    policy = random_policy(graph, seed)
    J = graph.expected_returns(policy)
    for row, target in enumerate(graph.targets):
        episodes = paths(mdp, choosing(graph, policy, target))
        mean = sum(p.probability * np.array(p.returns) for p in episodes) / np.array(mdp.units)
        np.testing.assert_allclose(J[row], mean, atol=1e-12)


def test_action_values_are_the_means_of_what_follows():
    mdp = random_mdp(5, horizon=2)
    graph = log_episodes(mdp, random_behavior(mdp, 5)).graph
    policy = random_policy(graph, 5)
    Q, numbers, target = graph.action_values(policy), Numbering(graph), tuple(graph.targets[0])
    reached: dict[tuple[int, int], list[tuple[float, np.ndarray]]] = {}
    for path in paths(mdp, choosing(graph, policy, target)):
        for move in path.moves:
            rest = np.subtract(path.returns, move.earned) / np.array(mdp.units)
            reached.setdefault((numbers.of(move, target), move.action), []).append((path.probability, rest))
    for (x, a), found in reached.items():
        weights = np.array([p for p, _ in found])
        mean = weights @ np.array([rest for _, rest in found]) / weights.sum()
        np.testing.assert_allclose(Q[x, a], mean, atol=1e-12)


def test_the_jacobian_is_the_derivative_of_the_returns():
    mdp = random_mdp(1, horizon=3)
    graph = log_episodes(mdp, random_behavior(mdp, 1)).graph
    features = np.random.default_rng(1).normal(size=(len(graph), mdp.actions, 4))
    theta = np.array([0.3, -0.2, 0.5, 0.1])

    def policy(at):
        weights = np.exp(features @ at)
        return weights / weights.sum(axis=1, keepdims=True)

    here = policy(theta)
    scores = features - np.einsum("ca,cad->cd", here, features)[:, None]
    step = 1e-5
    numeric = np.stack(
        [
            (graph.expected_returns(policy(theta + e)) - graph.expected_returns(policy(theta - e))) / (2 * step)
            for e in step * np.eye(4)
        ],
        axis=-1,
    )
    np.testing.assert_allclose(graph.jacobian(here, scores), numeric, atol=1e-8)


def test_contexts_are_ordered_by_time_and_lead_to_the_next_step():
    graph = context_graph(machine(3), np.array([[2, 1], [4, 3], [2, 1]]))
    assert graph.starts[0] == graph.starts[2]
    assert np.all(np.diff(graph.times) >= 0)
    for layer, following in zip(graph.layers, [*graph.layers[1:], slice(len(graph), len(graph) + 1)], strict=True):
        to = graph.children[layer]
        assert to.min() >= following.start
        assert to.max() < following.stop


def test_what_is_left_is_the_target_less_what_was_earned():
    mdp = machine(2)
    graph = context_graph(mdp, np.array([[2, 1]]))
    child = graph.children[graph.starts[0], 2, 0]  # rush
    assert graph.remaining[child].tolist() == [0, 0]
    assert graph.states[child] == 1


def test_impossible_graphs_are_refused():
    with pytest.raises(ConfigError, match="Got no targets"):
        context_graph(machine(2), np.empty((0, 2), dtype=np.int64))
    with pytest.raises(ConfigError, match="more than 20,000 contexts; give a shorter horizon"):
        context_graph(machine(60), np.array([[0, 0]]))
