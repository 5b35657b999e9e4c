"""Small systems to run the optimizer on, with any number of costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lifesafe.optimizer import Prior, Priors, Problem, SafeOptimizer, Schedule
from lifesafe.returns import Returns
from lifesafe.theory.simulators import SimulatedMap

LIMIT = 20.0


@dataclass(frozen=True)
class Plant:
    """True mean returns of every candidate; episode costs are overdispersed counts, or normal if not."""

    problem: Problem
    means: np.ndarray
    shape: float = 3.0

    def episodes(self, index: int, count: int, rng: np.random.Generator) -> list[Returns]:
        reward, *costs = self.means[index]
        rewards = rng.normal(reward, 20.0, count)
        columns = [rng.poisson(rng.gamma(self.shape, max(c, 0.0) / self.shape, count)) for c in costs]
        return [Returns(*row) for row in zip(rewards, zip(*columns, strict=True), strict=True)]


def plant(rng: np.random.Generator, *, costs: int = 1, size: int = 8, seeds: int = 1, **settings: Any) -> Plant:
    """Return a system whose costs rise with their targets and with the reward; its seeds are its cheapest targets."""
    axes = [np.linspace(0, 400, size), *(np.linspace(0, 3 * LIMIT, size) for _ in range(costs))]
    Z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 1 + costs)
    rho, gammas = Z[:, 0] / 400, Z[:, 1:] / LIMIT
    rows = [400 * rho ** rng.uniform(0.6, 1.4) * (0.8 + 0.2 * np.tanh(gammas.sum(axis=1)))]
    for k in range(costs):
        base, slope, lean = rng.uniform(0.0, 0.15), rng.uniform(0.3, 0.9), rng.uniform(0.2, 0.7)
        rows.append(LIMIT * (base + slope * gammas[:, k] + lean * rho))
    means = np.stack(rows, axis=1)
    reachable = np.flatnonzero((rho >= 0.25) & (rho <= 0.6))
    cheapest = reachable[np.lexsort((reachable, means[reachable, 1:].max(axis=1)))][:seeds]
    problem = Problem(candidates=Z, seeds=tuple(int(i) for i in cheapest), limits=(LIMIT,) * costs, **settings)
    return Plant(problem, means)


def lively(rng: np.random.Generator, *, mixture: int = 1, **settings: Any) -> Plant:
    """Return a system with a prior so confident that the optimizer moves about within a few trials."""
    cost = Prior(mean="limit", kernel="matern52", lengthscales=(1.5,), sd=1.0, scale="log", mixture=mixture)  # type: ignore[arg-type]
    return plant(rng, **{"delta": 0.3, "priors": Priors(cost=cost), **settings})


def quick(**changes: Any) -> Schedule:
    """Return a schedule that explores a little and then maximizes."""
    return Schedule(**{"reach": 0.3, "exploration": 4, "trials": 12, **changes})


def from_map(simulated: SimulatedMap, **settings: Any) -> tuple[Problem, Callable[..., list[Returns]]]:
    """Return the problem of a simulated map and a function that draws episodes there."""
    problem = Problem(candidates=simulated.candidates, seeds=(simulated.seed,), limits=(simulated.limit,), **settings)

    def episodes(index: int, count: int, rng: np.random.Generator) -> list[Returns]:
        return [Returns(*row) for row in simulated.draw(index, count, rng)]

    return problem, episodes


def advance(optimizer: SafeOptimizer, plant: Plant, rng: np.random.Generator, trials: int) -> int:
    """Run so many trials, or as many as there are, and return their number."""
    for done in range(trials):
        trial = optimizer.ask()
        if trial is None:
            return done
        optimizer.tell(trial, plant.episodes(trial.index, trial.episodes, rng))
    return trials


def snapshot(optimizer: SafeOptimizer) -> tuple[Any, ...]:
    """Return everything a user can see of an optimizer, as values that compare bit for bit."""
    bands = optimizer.bands
    return (
        bands.lower.tobytes(),
        bands.upper.tobytes(),
        optimizer.safe.tobytes(),
        tuple((r.trial, r.episodes.tobytes(), r.innovations, r.violated) for r in optimizer.trials),
        optimizer.open_trials,
        optimizer.spent,
        optimizer.stage,
        optimizer.frozen,
        optimizer.best,
        optimizer.problem.fingerprint,
    )
