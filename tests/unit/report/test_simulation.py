"""A simulated system is made again from its settings."""

from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.optimizer import SafeOptimizer, Schedule
from lifesafe.report.deployment import conclude, deploy, find_directory
from lifesafe.report.simulation import Simulation, best_reachable, judge, plain_choice
from lifesafe.theory.simulators import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_settings_give_equal_maps_and_episodes(family: str) -> None:
    one, two = (Simulation(family=family, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.map.cost, two.map.cost)
    trial = SafeOptimizer(one.problem(0.1)).ask()
    assert trial is not None
    assert one.run(trial) == two.run(trial)
    assert len(one.run(trial)) == trial.episodes
    assert not np.array_equal(one.map.cost, Simulation(family=family, seed=4).map.cost)


def test_settings_survive_the_disk(tmp_path: Path) -> None:
    simulation = Simulation(family="cliff", seed=5, limit=31.5)
    simulation.write(tmp_path / "run")
    assert Simulation.read(tmp_path / "run") == simulation
    assert Simulation.read(tmp_path) is None


def test_the_truth_is_judged_under_the_limit_that_was_asked_for() -> None:
    strict, lax = (Simulation(family="overshoot", limit=limit).map for limit in (15.0, 40.0))
    assert strict.is_safe.sum() < lax.is_safe.sum()
    assert strict.cost.flat[strict.seed] <= 15.0


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown family 'clif'. Did you mean 'cliff'\?"):
        Simulation(family="clif")
    with pytest.raises(ConfigError, match="positive"):
        Simulation(limit=0.0)


@pytest.mark.parametrize("limit", [20.0, 90.0])
def test_the_plain_choice_asks_for_most_reward_at_the_limit(limit: float) -> None:
    world = Simulation(limit=limit).map
    reward, cost = world.candidates[plain_choice(world)]
    assert reward == 500.0
    assert cost == pytest.approx(min(limit, 60.0), abs=0.6)


def test_a_choice_is_judged_by_the_map() -> None:
    world = Simulation(family="cliff", seed=1).map
    index = plain_choice(world)
    choice = judge(world, index)
    assert tuple(choice.returns) == (world.reward.flat[index], world.cost.flat[index])
    assert choice.is_safe == (world.cost.flat[index] <= 20.0)
    assert choice.share == pytest.approx(world.reward.flat[index] / best_reachable(world))
    assert judge(world, int(np.where(world.is_reachable, world.reward.reshape(-1), -1).argmax())).share == 1.0


def run_some(simulation: Simulation, path: Path, trials: int) -> None:
    simulation.write(path)
    with SafeOptimizer.open(path, simulation.problem(0.1)) as optimizer:
        for _ in range(trials):
            trial = optimizer.ask()
            if trial is not None:
                optimizer.tell(trial, simulation.run(trial))


def test_an_unfinished_run_is_resumed_and_a_finished_one_left_alone(tmp_path: Path) -> None:
    simulation, path = Simulation(), tmp_path / "demo"
    problem = simulation.problem(0.1)
    assert find_directory(path, simulation, problem) == (path, False)
    run_some(simulation, path, 2)
    assert find_directory(path, simulation, problem) == (path, True)
    other = Simulation(seed=1)
    assert find_directory(path, other, other.problem(0.1)) == (tmp_path / "demo-2", False)
    assert find_directory(path, simulation, simulation.problem(0.05)) == (tmp_path / "demo-2", False)
    run_some(simulation, path, 30)
    assert find_directory(path, simulation, problem) == (tmp_path / "demo-2", False)
    run_some(simulation, tmp_path / "demo-2", 0)
    assert find_directory(path, simulation, problem) == (tmp_path / "demo-2", True)


def test_a_resumed_run_ends_as_one_without_a_break(tmp_path: Path) -> None:
    simulation = Simulation(seed=2)
    whole = SafeOptimizer(simulation.problem(0.1), Schedule())
    deploy(simulation, whole, lambda line, done: None)
    run_some(simulation, tmp_path, 11)
    with SafeOptimizer.open(tmp_path) as resumed:
        deploy(simulation, resumed, lambda line, done: None)
        assert conclude(simulation, resumed) == conclude(simulation, whole)


def test_the_outcome_is_counted_by_the_truth() -> None:
    simulation = Simulation(family="overshoot", seed=1)
    optimizer, seen = SafeOptimizer(simulation.problem(0.1), Schedule(trials=6)), []
    deploy(simulation, optimizer, lambda line, done: seen.append((line, done)))
    outcome = conclude(simulation, optimizer)
    assert [done for _, done in seen] == [0, 1, 2, 3, 4, 5, 6]
    assert "1  seed" in seen[1][0]
    assert (outcome.trials, outcome.episodes) == (6, 120)
    above = [simulation.map.cost.flat[r.trial.index] > 20.0 for r in optimizer.trials]
    assert outcome.violations == sum(above)
    assert "plain (R_max, limit)" in str(outcome)
    assert outcome.to_plain()["plain"]["is_safe"] == outcome.plain.is_safe
