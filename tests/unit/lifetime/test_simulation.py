"""A prior from simulation: where episodes are run, how they are carried to all candidates, and lives that use it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lifesafe.environments import Task, task
from lifesafe.environments.behaviors import Behavior
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Actor
from lifesafe.lifetime import Lifetime, simulate
from lifesafe.lifetime.manifest import read_manifest
from lifesafe.lifetime.simulation import interpolate, spread
from lifesafe.optimizer import Problem
from lifesafe.optimizer.journal import read_events
from lifesafe.returns import Returns
from small_life import small_life

PROBLEM = Problem.on_grid([np.linspace(0, 500, 21), np.linspace(0, 60, 16)], seeds=[Returns(200.0, 4.0)], limits=20.0)
X = PROBLEM.scaled


def truth(Z: np.ndarray) -> np.ndarray:
    """Return smooth mean returns (n, 2)."""
    R, G = Z[:, 0] / 500, Z[:, 1] / 60
    return np.stack([500 * (0.2 + 0.6 * R + 0.1 * np.sin(3 * G)), 60 * (0.05 + 0.4 * G * (0.3 + R))], axis=1)


def drawn(places: np.ndarray, episodes: int, seed: int, factor: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    means = truth(PROBLEM.candidates[places])
    rewards = rng.normal(means[:, :1], 30.0, (len(places), episodes))
    return np.stack([rewards, rng.poisson(factor * means[:, 1:], (len(places), episodes))], axis=-1)


def test_a_design_covers_the_candidates_and_holds_none_twice() -> None:
    places = spread(X, 25)
    assert len(set(places.tolist())) == 25
    apart = np.sqrt(((X[:, :, None] - X[:, None, places]) ** 2).sum(axis=0))
    assert apart.min(axis=1).max() < 0.25  # a random design of this size leaves holes of 0.3
    np.testing.assert_array_equal(spread(X, 25), places)
    np.testing.assert_array_equal(spread(X, 10), places[:10])


def test_a_design_larger_than_the_candidates_takes_all() -> None:
    few = np.random.default_rng(0).uniform(size=(2, 7))
    assert sorted(spread(few, 50).tolist()) == list(range(7))


def test_a_few_episodes_give_the_whole_map() -> None:
    places = spread(X, 40)
    made = interpolate(PROBLEM, places, drawn(places, 10, 0)[None])
    errors = made.means.T - truth(PROBLEM.candidates)
    assert np.abs(errors[:, 0]).mean() < 8.0  # 30 / sqrt(10) = 9.5 is the noise of a single target
    assert np.abs(errors[:, 1]).mean() < 1.0
    assert (made.means[1] >= 0).all()


@pytest.mark.parametrize("episodes", [4, 10])
def test_noise_is_smoothed_not_chased(episodes: int) -> None:
    places, draws = spread(X, 40), range(10)
    exact = truth(PROBLEM.candidates[places]).T
    raw = [drawn(places, episodes, seed) for seed in draws]
    smooth = [interpolate(PROBLEM, places, each[None]).means[:, places] for each in raw]
    ours = np.abs(np.stack(smooth) - exact).mean(axis=(0, 2))
    theirs = np.abs(np.stack([each.mean(axis=1).T for each in raw]) - exact).mean(axis=(0, 2))
    assert (ours < 0.8 * theirs).all()


def test_a_member_that_costs_half_as_much_is_seen_to() -> None:
    places = spread(X, 40)
    made = interpolate(PROBLEM, places, np.stack([drawn(places, 20, 2), drawn(places, 20, 3, factor=0.5)]))
    costly = made.means[1] > 5
    assert np.median(made.members[0, 1, costly] / made.means[1, costly]) == pytest.approx(0.5, abs=0.1)


def test_a_scripted_driver_is_simulated_and_its_double_is_the_same() -> None:
    driver, done = Behavior(boldness=0.3), []
    made = simulate(
        driver,
        task("PointCircle"),
        PROBLEM,
        members=[driver, Behavior(boldness=0.9)],
        design=5,
        episodes=3,
        progress=lambda so_far, total: done.append((so_far, total)),
    )
    np.testing.assert_array_equal(made.members[0], made.means)  # the same targets, the same starts
    assert made.members[1, 1].mean() > made.means[1].mean()
    assert done[-1] == (45, 45)


class Asked(Behavior):
    """A driver that takes note of what it is asked for."""

    def actor(self, targets: Sequence[Returns]) -> Actor:
        ASKED.extend(targets)
        return super().actor(targets)


ASKED: list[Returns] = []


def test_a_dithered_problem_is_simulated_with_its_dither() -> None:
    for width, different in ((0.0, 5), (0.05, 15)):
        ASKED.clear()
        simulate(Asked(boldness=0.3), task("PointCircle"), replace(PROBLEM, dither=width), design=5, episodes=3)
        assert len(ASKED) == 15
        assert len(set(ASKED)) == different


def other(**changes: int) -> Task:
    return replace(task("PointCircle"), name="Other", **changes)


def test_a_simulator_of_another_system_is_refused(tmp_path: Path) -> None:
    for changes in ({"observations": 7}, {"actions": 3}, {"horizon": 100}):
        with pytest.raises(ConfigError, match=r"simulator 'Other' has .*; task 'PointCircle' has 5 obs.*same system"):
            small_life(tmp_path, simulator=other(**changes))
    assert read_manifest(tmp_path) is None
    two = replace(task("PointCircle"), limits=(1.0, 2.0), largest_costs=(1.0, 1.0))
    with pytest.raises(ConfigError, match="has 2 costs, the problem has 1"):
        simulate(Behavior(boldness=0.3), two, PROBLEM)


def test_too_small_a_simulation_is_refused() -> None:
    for given in ({"design": 2}, {"episodes": 1}):
        with pytest.raises(ConfigError, match="at least 3 targets with 2 episodes each"):
            simulate(Behavior(boldness=0.3), task("PointCircle"), PROBLEM, **given)


def test_a_life_with_a_simulator_searches_with_what_it_returned_and_goes_on_without(tmp_path: Path) -> None:
    small_life(tmp_path, simulator=task("PointCircle")).close()
    with Lifetime.open(tmp_path) as life:  # it is remembered before it is used
        life.train()
        problem = life.optimizer.problem
        assert problem.simulated is not None
        assert problem.priors.cost.mean == "simulated"
        assert problem.simulated.means[1].std() > 1
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest["simulator"]["run"]["task"] == "PointCircle"
    with Lifetime.open(tmp_path) as life:
        assert life.optimizer.problem.fingerprint == problem.fingerprint
        life.optimize()
        assert len(life.optimizer.trials) == 5
    assert "simulated" in read_events(tmp_path / "journal.sqlite")[0].body["problem"]


def test_a_life_without_a_simulator_says_nothing_of_one_and_refuses_one_later(tmp_path: Path) -> None:
    small_life(tmp_path).close()
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert "simulator" not in manifest
    with pytest.raises(ConfigError, match=r"begun otherwise: simulator\.run\.task is None there, 'PointCircle' here"):
        small_life(tmp_path, simulator=task("PointCircle"))
