"""Runs of every kind that a report meets, made in a second or two from simulated systems."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lifesafe._config import toml_text
from lifesafe.errors import GuaranteeWarning
from lifesafe.operation import Operation
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule, Trial
from lifesafe.report.simulation import Simulation
from lifesafe.returns import Returns

SIMULATION = Simulation(family="conservative", seed=1)


def problem(**settings: object) -> Problem:
    return replace(SIMULATION.problem(0.1), cost_bounds=(200.0,), **settings)


def search(optimizer: SafeOptimizer, run_trial: Callable[[Trial], list[Returns]] = SIMULATION.run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        while trial := optimizer.ask():
            optimizer.tell(trial, run_trial(trial))


def served(operation: Operation, mean: float, episodes: int, seed: int, together: int = 5) -> None:
    """Serve episodes of some mean cost, until there are enough or operation halts."""
    rng = np.random.default_rng(seed)
    while episodes > 0 and operation.target is not None:
        costs = np.minimum(rng.poisson(mean, together), 200)
        reward = operation.target.reward
        operation.tell([Returns(float(rng.normal(reward, 10)), float(cost)) for cost in costs])
        episodes -= together


def plain(path: Path, trials: int = 12) -> Path:
    """A run of the optimizer alone, on a simulated system."""
    SIMULATION.write(path)
    with SafeOptimizer.open(path, problem(), Schedule(trials=trials, exploration=2 * trials // 3)) as optimizer:
        search(optimizer)
    return path


def begun(path: Path) -> Path:
    """Opened, and nothing tried yet."""
    SafeOptimizer.open(path, problem()).close()
    return path


def asked(path: Path) -> Path:
    """A first trial is under way."""
    with SafeOptimizer.open(path, problem()) as optimizer:
        optimizer.ask()
    return path


def operated(path: Path, task: str = "PointCircle") -> Path:
    """A life in operation without an alarm, with a run.toml."""
    manifest = {
        "run": {"task": task, "limits": [20.0], "seed": 0, "delta": 0.1, "start": "data"},
        "data": {"file": "none", "fingerprint": "8080087c" * 8},
        "policy": {"kind": "CDT", "config": {"steps": 600}},
        "versions": {"python": "3.11", "lifesafe": "0.1.0"},
    }
    with SafeOptimizer.open(path, problem(), Schedule(trials=12, exploration=8, certification="betting")) as optimizer:
        search(optimizer)
        operation = Operation(optimizer)
        operation.begin()
        served(operation, 12.0, 40, seed=0)
    (path / "run.toml").write_text(toml_text(manifest), encoding="utf-8")
    return path


def alarmed(path: Path) -> Path:
    """The cost rises in operation: an alarm, a fallback, and quiet afterwards."""
    with SafeOptimizer.open(path, problem(), Schedule(trials=12, exploration=8)) as optimizer:
        search(optimizer)
        operation = Operation(optimizer)
        operation.begin()
        served(operation, 12.0, 60, seed=0)
        while operation.monitor is not None and len(operation_alarms(optimizer)) < 1:
            served(operation, 38.0, 5, seed=operation.episodes)
        served(operation, 6.0, 60, seed=1)
    return path


def halted(path: Path) -> Path:
    """The cost rises and stays high whatever is served: alarms, fallbacks, a halt."""
    with SafeOptimizer.open(path, problem(), Schedule(trials=12, exploration=8)) as optimizer:
        search(optimizer)
        operation = Operation(optimizer)
        operation.begin()
        served(operation, 12.0, 30, seed=0)
        served(operation, 45.0, 10_000, seed=1)
        assert operation.halted is not None
    return path


def operation_alarms(optimizer: SafeOptimizer) -> list[dict[str, object]]:
    return [body for kind, body in optimizer.operation if kind == "alarm"]


def two_costs(path: Path) -> Path:
    """Two costs, in operation."""
    axes = [np.linspace(0, 500, 21), np.linspace(0, 60, 13), np.linspace(0, 3, 9)]
    both = Problem.on_grid(axes, seeds=[Returns(200, (0, 0))], limits=(20.0, 1.0), cost_bounds=(200.0, 20.0))
    rng = np.random.default_rng(0)

    def run_trial(trial: Trial) -> list[Returns]:
        first = rng.poisson(1 + 0.4 * trial.target.costs[0] + trial.target.reward / 100, trial.episodes)
        second = rng.poisson(0.02 + 0.2 * trial.target.costs[1], trial.episodes)
        rewards = rng.normal(trial.target.reward, 10, trial.episodes)
        return [Returns(float(r), (float(a), float(b))) for r, a, b in zip(rewards, first, second, strict=True)]

    with SafeOptimizer.open(path, both, Schedule(trials=12, exploration=8, reach=0.2)) as optimizer:
        search(optimizer, run_trial)
        operation = Operation(optimizer)
        target = operation.begin()
        assert target is not None
        for _ in range(4):
            episodes = zip(rng.poisson(4, 5), rng.poisson(0.2, 5), strict=True)
            operation.tell([Returns(target.reward, (float(a), float(b))) for a, b in episodes])
    return path


def other_limit(path: Path) -> Path:
    """The limit is raised after some trials."""
    SIMULATION.write(path)
    with SafeOptimizer.open(path, problem(), Schedule(trials=8, exploration=5)) as optimizer:
        search(optimizer)
        optimizer.change_limits(26.0)
        search(optimizer)
    return path


def violated(path: Path) -> Path:
    """A reckless search that breaks the limit; what is near is closed."""
    world = Simulation(family="cliff", seed=1)
    world.write(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        reckless = Schedule(risk="fixed", multiplier=0.3, reach=0.2, trials=15)
        with SafeOptimizer.open(path, replace(world.problem(0.1), trust_prior=True), reckless) as optimizer:
            search(optimizer, world.run)
    return path


def frozen(path: Path) -> Path:
    """Costs jump far above what was predicted until the search is frozen."""
    rng = np.random.default_rng(3)
    told = 0

    def run_trial(trial: Trial) -> list[Returns]:
        nonlocal told
        told += 1
        mean = 0.5 if told < 4 or trial.index in seeds else 17.0
        rewards = rng.normal(trial.target.reward, 10, trial.episodes)
        return [Returns(float(r), float(c)) for r, c in zip(rewards, rng.poisson(mean, trial.episodes), strict=True)]

    seeds = problem().seeds
    with SafeOptimizer.open(path, problem(), Schedule(trials=14, surprises=1)) as optimizer:
        search(optimizer, run_trial)
        assert optimizer.frozen
    return path


def held(path: Path, told: int = 8) -> Path:
    """A trial that was thought safe breaks the limit, and nothing new is tried any more; so many of 8 are told."""
    with SafeOptimizer.open(path, problem(), Schedule(trials=8, on_violation="hold")) as optimizer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            while len(optimizer.trials) < told and (trial := optimizer.ask()):
                unforeseen = len(optimizer.trials) == 5
                episodes = [Returns(1.0, 90.0)] * trial.episodes if unforeseen else SIMULATION.run(trial)
                optimizer.tell(trial, episodes)
        assert optimizer.held_by == "violation"
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    "plain": plain,
    "begun": begun,
    "asked": asked,
    "operated": operated,
    "alarmed": alarmed,
    "halted": halted,
    "two_costs": two_costs,
    "other_limit": other_limit,
    "violated": violated,
    "frozen": frozen,
    "held": held,
}
"""All of them, by name."""
