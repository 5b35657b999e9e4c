"""Small systems to run a search on, and everything a user can see of one, to compare."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from lifesafe.errors import GuaranteeWarning, NoSafeTargetError
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS

LIMIT = 20.0


@dataclass(frozen=True)
class System:
    """A system whose mean costs rise with what is asked for; costs are Poisson counts, ended at the stop if any."""

    problem: Problem
    slopes: tuple[float, ...]
    """Mean of each cost at the far end of the box, in limits."""

    def means(self, target: Any) -> tuple[float, ...]:
        """Return the true mean of every cost, before any stop."""
        values = tuple(target)
        u = np.mean([values[0] / 400, *(value / (3 * LIMIT) for value in values[1:])])
        return tuple(slope * LIMIT * float(u) ** 1.5 for slope in self.slopes)

    def episodes(self, targets: Sequence[Any], rng: np.random.Generator) -> list[Returns]:
        """Return what one episode at each target returned."""
        found = []
        for target in targets:
            costs = rng.poisson(self.means(target)).astype(float)
            if self.problem.stop_at is not None:
                costs = np.minimum(costs, self.problem.stop_at)
            found.append(Returns(float(rng.normal(next(iter(target)), 20.0)), costs))
        return found


def system(
    seed: int = 0, *, costs: int = 1, listed: bool = True, starts: int = 2, steep: float = 2.5, **settings: Any
) -> System:
    """Return a system with up to two starts; a list of 5 x 4 targets makes it quick, a box makes it real."""
    rng = np.random.default_rng(seed)
    names = ("cost",) if costs == 1 else tuple(f"cost {k + 1}" for k in range(costs))
    axes = {"reward": (0.0, 400.0), **dict.fromkeys(names, (0.0, 3 * LIMIT))}
    first = [Returns(100.0, (0.0,) * costs), Returns(0.0, (0.0,) * costs)][:starts]
    if listed:
        levels = np.linspace(0.0, 3 * LIMIT, 4)
        rewards = np.linspace(0.0, 400.0, 5)
        settings["targets"] = [Returns(r, (level,) * costs) for r in rewards for level in levels]
    settings = {"limits": (LIMIT,) * costs, "episodes": 150, "seed": seed, **settings}
    problem = Problem(axes=axes, starts=tuple(first), **settings)
    return System(problem, tuple(rng.uniform(0.5, steep, costs).tolist()))


def advance(optimizer: SafeOptimizer, plant: System, rng: np.random.Generator, trials: int) -> int:
    """Run so many trials, or as many as there are, and return their number."""
    for done in range(trials):
        trial = optimizer.ask()
        if trial is None:
            return done
        optimizer.tell(trial, plant.episodes(trial.targets, rng))
    return trials


def until(optimizer: SafeOptimizer, stage: str, cost: Callable[[Any], float] = lambda target: 0.0) -> None:
    """Run trials until the next one has a stage; the cost of an episode is a function of its target."""
    for _ in range(60):
        if optimizer.stage == stage:
            return
        trial = optimizer.ask()
        assert trial is not None, optimizer.done
        optimizer.tell(trial, [Returns(next(iter(target)), cost(target)) for target in trial.targets])
    raise AssertionError(f"The stage {stage} never came.")


def visible(optimizer: SafeOptimizer) -> dict[str, Any]:
    """Return everything that can be seen of an optimizer and its operation, as values that compare exactly."""
    beliefs, history = optimizer.beliefs, optimizer.history
    operation = Operation(optimizer)
    return {
        "problem": optimizer.problem.fingerprint,
        "trials": [(t.asked, t.limits, t.told, t.first_told, t.retracted, t.was_told) for t in history.trials.values()],
        "open": optimizer.open_trial,
        "next": (optimizer.stage, optimizer.done, optimizer.held),
        "ledger": (optimizer.spent, beliefs.searched, beliefs.paid, beliefs.withdrawn),
        "account": None if beliefs.account is None else (beliefs.account.holds, beliefs.account.bounds),
        "bets": beliefs.bets,
        "fit": optimizer.fit,
        "services": [(s.serving, s.totals, s.alarm) for s in history.services],
        "operation": (operation.target, operation.watch, operation.halted, operation.overtaken, operation.episodes),
    }


def is_newcomer(optimizer: SafeOptimizer) -> bool:
    """Whether the account pays for the open trial."""
    tried = optimizer.history.open
    return tried is not None and tried.asked.stage in NEWCOMERS


ACTIONS = (
    "ask", "tell", "tell", "tell", "tell", "early", "costly", "beyond", "retract", "correct", "confirm", "limits",
    "operate", "operate long", "operate costly", "operate beyond",
)  # fmt: skip
"""What a user may do, the usual things more often."""
DISTURBING = ("beyond", "retract", "correct", "limits", "operate beyond")
"""Actions after which what was promised before does not hold any more, or is another promise."""


def act(optimizer: SafeOptimizer, plant: System, rng: np.random.Generator, action: str) -> None:
    """Do one thing that a user may do, if it can be done now."""
    with suppress(NoSafeTargetError), warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        match action.split():
            case ["retract"] | ["correct"]:
                _take_back(optimizer, plant, rng, action)
            case ["confirm"]:
                if optimizer.held is not None:
                    optimizer.confirm("a wheel was loose")
            case ["limits"]:
                if optimizer.history.open is None:
                    limits = [float(b) for b in rng.uniform(12, 39, len(optimizer.problem.limits))]
                    named = rng.random() < 0.5 or optimizer.problem.promise == "total"
                    starts = [optimizer.problem.target(start) for start in optimizer.problem.starts]
                    optimizer.change_limits(limits, starts if named else None)
            case ["operate", *how]:
                _operate(optimizer, plant, rng, how[0] if how else "")
            case _:
                _try(optimizer, plant, rng, action)


def _try(optimizer: SafeOptimizer, plant: System, rng: np.random.Generator, action: str) -> None:
    trial = optimizer.ask()
    if trial is None or action == "ask":
        return
    episodes = plant.episodes(trial.targets, rng)
    if action == "early":
        episodes = episodes[: int(rng.integers(1, len(episodes) + 1))]
    optimizer.tell(trial, _disturbed(optimizer, episodes, action))


def _disturbed(optimizer: SafeOptimizer, episodes: list[Returns], action: str) -> list[Returns]:
    """Return episodes that cost as much as they may, or of which the last costs more than it may."""
    limits, stops = optimizer.problem.limits, optimizer.problem.stop_at
    worst = [3 * limit for limit in limits] if stops is None else stops
    if action == "costly":
        return [Returns(each.reward, worst) for each in episodes]
    if action == "beyond":
        return [*episodes[:-1], Returns(0.0, [20 * limit for limit in limits])]
    return episodes


def _take_back(optimizer: SafeOptimizer, plant: System, rng: np.random.Generator, action: str) -> None:
    told = [tried for tried in optimizer.trials if tried.retracted is None]
    if told:
        tried = told[int(rng.integers(len(told)))]
        targets = [optimizer.problem.target(point) for point in tried.points[: len(tried.told or ())]]
        optimizer.retract(tried.number, "a typo", plant.episodes(targets, rng) if action == "correct" else None)


def _operate(optimizer: SafeOptimizer, plant: System, rng: np.random.Generator, how: str) -> None:
    operation = Operation(optimizer)
    target = operation.begin()
    if target is None or is_newcomer(optimizer):
        return
    count = 1001 if how == "long" else 12
    operation.tell(_disturbed(optimizer, plant.episodes([target] * count, rng), how))
