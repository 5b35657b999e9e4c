"""Problems and machines of a line or two each, for the tests of this room."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lifesafe.journal import events as e
from lifesafe.journal.events import Asked, Point
from lifesafe.journal.history import History
from lifesafe.journal.store import Record
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.posterior import Sums

LIMIT = 20.0
START = Returns(100, 0)

Machine = Callable[[Any, np.random.Generator], Returns]


def problem(**settings: Any) -> Problem:
    """Return a box of rewards up to 400 and target costs up to three limits, with one start."""
    axes = {"reward": (0.0, 400.0), "cost": (0.0, 60.0)}
    return Problem(**{"axes": axes, "starts": [START], "limits": LIMIT} | settings)


def listed(**settings: Any) -> Problem:
    """Return the same with a list of 5 x 5 targets."""
    targets = [Returns(reward, cost) for reward in np.linspace(0, 400, 5) for cost in np.linspace(0, 60, 5)]
    return problem(targets=targets, **settings)


def plain(target: Returns, rng: np.random.Generator) -> Returns:
    """Cost and earn what is asked for, with some noise; costs come as Poisson counts."""
    return Returns(rng.normal(target.reward, 10.0), rng.poisson(0.6 * sum(target.costs), len(target.costs)))


def stopped(target: Returns, rng: np.random.Generator) -> Returns:
    """Do as `plain`, with a stop at 39."""
    found = plain(target, rng)
    return Returns(found.reward, np.minimum(found.costs, 39.0))


def free(target: Returns, rng: np.random.Generator) -> Returns:
    """Earn what is asked for, and never cost anything."""
    return Returns(target.reward, [0.0] * len(target.costs))


def run(optimizer: SafeOptimizer, machine: Machine, trials: int = 10**6, seed: int = 0) -> SafeOptimizer:
    """Run some trials, or all there are."""
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        trial = optimizer.ask()
        if trial is None:
            break
        optimizer.tell(trial, [machine(target, rng) for target in trial.targets])
    return optimizer


def run_until(optimizer: SafeOptimizer, stage: str, machine: Machine = free, seed: int = 0) -> SafeOptimizer:
    """Run trials until the next one has a stage."""
    rng = np.random.default_rng(seed)
    for _ in range(80):
        if optimizer.stage == stage:
            return optimizer
        trial = optimizer.ask()
        assert trial is not None, optimizer.done
        optimizer.tell(trial, [machine(target, rng) for target in trial.targets])
    raise AssertionError(f"The stage {stage} never came.")


def tell_all(optimizer: SafeOptimizer, *episode: float) -> None:
    """Tell the same returns for every episode of the next trial."""
    trial = optimizer.ask()
    optimizer.tell(trial, [Returns(episode[0], episode[1:])] * trial.episodes)


def asked(optimizer: SafeOptimizer, stage: str = "search") -> list[Asked]:
    """Return what was decided in all trials of a stage."""
    return [tried.asked for tried in optimizer.history.trials.values() if tried.asked.stage == stage]


def happened(given: Problem, *events: e.Event) -> Beliefs:
    """Return what is believed after events that were made up."""
    history = History()
    for number, event in enumerate((e.Opened(problem=given.to_plain(), version=""), *events), 1):
        history.apply(Record(number, event, "now", ""))
    return Beliefs(given, history)


def tried(
    trial: int, point: Point, episodes: Sequence[e.EpisodeReturns], *, stage: str = "search", charge: float = 0.0
) -> list[e.Event]:
    """Return the events of a trial that was made up; in the stage search its target pays."""
    made = Asked(
        trial=trial, stage=stage, targets=(point,), tickets=(0,) * len(episodes), charge=charge,
        paid=(point,) if stage == "search" else (), allowance=charge, forecasts=(),
    )  # fmt: skip
    return [made, e.Told(trial=trial, episodes=tuple(episodes))]


def followed(optimizer: SafeOptimizer, machine: Callable[..., Returns]) -> list[tuple[Beliefs, Asked]]:
    """Run all trials; return what was believed before each, and what was decided."""
    found, rng = [], np.random.default_rng(5)
    while True:  # facts go on, and beliefs are computed late
        before = Beliefs(optimizer.problem, copy.deepcopy(optimizer.history), optimizer.beliefs.account)
        trial = optimizer.ask()
        if trial is None:
            return found
        found.append((before, optimizer.history.trials[trial.number].asked))
        optimizer.tell(trial, [machine(target, rng) for target in trial.targets])
        if optimizer.held:
            optimizer.confirm("looked at it")


def sums(costs: dict[Point, list[float]]) -> Sums:
    """Return what episodes at scaled targets with one cost add up to; their rewards are one half."""
    rows = [np.array(each, dtype=np.float64) for each in costs.values()]
    n = np.array([float(len(each)) for each in rows])
    totals = np.column_stack([0.5 * n, [each.sum() for each in rows]])
    squares = np.column_stack([0.25 * n, [(each**2).sum() for each in rows]])
    return Sums(np.array(list(costs)), n, totals, squares)
