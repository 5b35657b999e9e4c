from collections import defaultdict

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from small_mdp import Numbering, behaving, paths, random_behavior, random_mdp
from theorem1 import log_episodes, return_law
from theorem1.cases import machine

SEEDS = range(4)


def made(seed, horizon=3):
    mdp = random_mdp(seed, horizon=horizon)
    behavior = random_behavior(mdp, seed)
    return mdp, behavior, log_episodes(mdp, behavior), paths(mdp, behaving(behavior))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_law_of_the_returns_to_go_is_the_one_of_all_episodes(seed):
    mdp, behavior, _, episodes = made(seed)
    law = return_law(mdp, behavior)
    assert law.sum(axis=(2, 3)) == pytest.approx(1.0)
    counted = np.zeros_like(law)
    for path in episodes:
        for move in path.moves:
            counted[(move.time, move.state, *np.subtract(path.returns, move.earned))] += path.probability
    passed = counted.sum(axis=(2, 3))
    for t, s in np.argwhere(passed > 0):
        np.testing.assert_allclose(counted[t, s] / passed[t, s], law[t, s], atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_behavior_given_the_returns_is_the_share_of_actions_after_every_history(seed):
    _, _, logged, episodes = made(seed)
    numbers = Numbering(logged.graph)
    taken: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(3))
    for path in episodes:
        for t, move in enumerate(path.moves):
            context = numbers.of(move, path.returns)
            taken[path.moves[:t], path.returns, context] += path.probability * np.eye(3)[move.action]
    for (_, _, context), shares in taken.items():
        np.testing.assert_allclose(logged.actions[context], shares / shares.sum(), atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_coverage_visits_and_outcomes_are_those_of_all_episodes(seed):
    mdp, _, logged, episodes = made(seed)
    numbers = Numbering(logged.graph)
    coverage: dict[tuple[int, ...], float] = defaultdict(float)
    visits = np.zeros_like(logged.visits)
    outcomes = np.zeros_like(logged.outcomes)
    for path in episodes:
        coverage[path.returns] += path.probability
        for move in path.moves:
            x = numbers.of(move, path.returns)
            visits[x, move.action] += path.probability
            outcomes[x, move.action, move.outcome] += path.probability
    assert {tuple(z): c for z, c in zip(logged.graph.targets.tolist(), logged.coverage, strict=True)} == pytest.approx(
        coverage
    )
    np.testing.assert_allclose(logged.visits, visits, atol=1e-12)
    assert logged.visits.sum() == pytest.approx(mdp.horizon)
    taken = visits > 0
    np.testing.assert_allclose(logged.outcomes[taken], outcomes[taken] / visits[taken][:, None], atol=1e-12)
    np.testing.assert_array_equal(logged.seen, visits.sum(axis=1) > 0)


def test_without_chance_the_behavior_given_a_target_returns_it():
    logged = log_episodes(machine(4), np.full((4, 2, 3), 1 / 3))
    np.testing.assert_allclose(logged.graph.expected_returns(logged.actions), logged.graph.asked, atol=1e-12)


def test_where_no_episode_comes_every_action_is_as_good():
    logged = log_episodes(machine(2), np.full((2, 2, 3), 1 / 3))
    assert not logged.seen.all()
    np.testing.assert_allclose(logged.actions[~logged.seen], 1 / 3)
    assert logged.feasible[~logged.seen].all()
    assert not logged.feasible[logged.seen].all()


def test_drawn_datasets_have_as_many_steps_as_asked_for_and_the_right_means():
    _, _, logged, _ = made(0)
    counts = logged.draw(50, 400, np.random.default_rng(0))
    for layer in logged.graph.layers:
        np.testing.assert_array_equal(counts[:, layer].sum(axis=(1, 2)), 50)
    error = np.sqrt(50 * logged.visits / 400)  # at most: counts of an episode are 0 or 1
    assert np.all(np.abs(counts.mean(axis=0) - 50 * logged.visits) <= 5 * error + 1e-12)


def test_a_drawn_episode_is_one_path():
    _, _, logged, episodes = made(1)
    numbers = Numbering(logged.graph)
    known = {tuple(sorted((numbers.of(m, p.returns), m.action) for m in p.moves)) for p in episodes}
    counts = logged.draw(1, 200, np.random.default_rng(0))
    found = {tuple((int(x), int(a)) for x, a in np.argwhere(dataset)) for dataset in counts}
    assert found <= known
    assert len(found) > 5


def test_a_dataset_depends_on_the_seed_alone():
    _, _, logged, _ = made(0)
    one, two, other = (logged.draw(20, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert np.any(one != other)


def test_the_constants_of_the_density_are_suprema_over_histories():
    mdp, _, logged, episodes = made(2)
    by_history: dict[tuple, dict[tuple[int, ...], float]] = defaultdict(lambda: defaultdict(float))
    for path in episodes:
        for t in range(mdp.horizon):
            by_history[path.moves[:t], path.moves[t].state][path.returns] += path.probability
    laws = [{z: p / sum(law.values()) for z, p in law.items()} for law in by_history.values()]
    for target, density in zip(map(tuple, logged.graph.targets), logged.densities(0.5), strict=True):
        assert density.bound == pytest.approx(max(law.get(target, 0.0) for law in laws))
        near = [(target[0] + i, target[1] + j) for i in range(-2, 3) for j in (-1, 0, 1)]
        widest = max(abs(law.get(z, 0.0) - law.get(target, 0.0)) for law in laws for z in near)
        assert density.continuity == pytest.approx(widest)
    assert all(density.continuity == 0.0 for density in logged.densities())


@pytest.mark.wrong_shapes
@pytest.mark.parametrize(
    "behavior", [np.full((3, 2, 3), 0.3), np.full((2, 2, 3), 1 / 3), np.tile([1.5, -0.5, 0.0], (3, 2, 1))]
)
def test_a_behavior_that_is_none_is_refused(behavior):
    with pytest.raises(ConfigError, match="give probabilities of the shape"):
        return_law(machine(3), behavior)


@pytest.mark.parametrize(("episodes", "datasets"), [(0, 1), (1, 0)])
def test_no_episodes_are_refused(episodes, datasets):
    _, _, logged, _ = made(0)
    with pytest.raises(ConfigError, match="= 0; give a whole number"):
        logged.draw(episodes, datasets, np.random.default_rng(0))
