"""A prior from simulation: the policy's returns in a simulator, at every candidate.

Episodes are run at a design of targets, spread evenly over the candidates, and carried to all of them by regression
with a Gaussian process: the noise of the episodes is smoothed, not chased. The policy and every member see the same
targets and the same starts, so that their differences are theirs. Length-scale and deviation are fitted by likelihood,
which the search never does: in a simulator nothing is at stake.

Notation:
    d       targets of the design
    n       candidates
    y       a return as it is modeled: rewards as a fraction of their axis, costs on the logarithmic scale
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int

from lifesafe._random import integer
from lifesafe.environments import Evaluator, Task
from lifesafe.environments.evaluation import episode_seeds
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Policy
from lifesafe.optimizer import Problem, Simulated
from lifesafe.optimizer.dither import dithered
from lifesafe.optimizer.gp import GridGP
from lifesafe.optimizer.noise import shrunk_variance
from lifesafe.optimizer.priors import from_scale, scale_slope, to_scale
from lifesafe.returns import returns_array

_LENGTHSCALES = (0.15, 0.3, 0.6, 1.2)
_SDS = (0.03, 0.1, 0.3, 1.0)
_REWARD_NOISE = 0.1  # spread of episode rewards, as a fraction of their axis, before any is seen
_LEAST_COST = 1e-3  # of all targets together, in limits, to divide by
_LEAST_VARIANCE = 1e-6


def simulate(
    policy: Policy,
    task: Task,
    problem: Problem,
    *,
    members: Sequence[Policy] = (),
    design: int = 40,
    episodes: int = 10,
    seed: int = 0,
    workers: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Simulated:
    """Return what a policy returns in a simulator at every candidate of a problem; `Problem.with_simulated` takes it.

    Args:
        policy: The policy that will be deployed.
        task: The simulator. Its limits do not matter.
        problem: The problem of the real system.
        members: Policies that might have been it: `laplace_members`, or policies trained with other seeds.
        design: Targets that are simulated; all others are interpolated.
        episodes: Episodes of each of them.
        seed: Decides the starts of the episodes.
        workers: Processes that run episodes; 0 for none but this one.
        progress: Called with the episodes done and their total.

    Raises:
        ConfigError: If the simulator has another number of costs, or a number is impossible.
    """
    costs = len(problem.limits)
    if len(task.limits) != costs:
        raise ConfigError(
            f"The simulator {task.name!r} has {len(task.limits)} costs, the problem has {costs}; give a simulator of "
            "the same system."
        )
    if design < 3 or episodes < 2:
        raise ConfigError(f"Give a design of at least 3 targets with 2 episodes each; got {design} and {episodes}.")
    places = spread(problem.scaled, design)
    actors = [policy, *members]
    asked = [dithered(problem, problem.target(int(i)), range(episodes), "simulate", int(i)) for i in places]
    targets = [target for each in asked for target in each]
    seeds, total = episode_seeds(integer(seed, "simulate"), episodes), len(actors) * len(targets)
    found = []
    for number, actor in enumerate(actors):
        with Evaluator(actor, task, workers=workers, rows=min(128, len(targets))) as evaluator:
            shown = None if progress is None else _counting(progress, number * len(targets), total)
            returned = evaluator.run(targets, seeds * len(asked), progress=shown).returns
        found.append(returns_array(returned).reshape(len(asked), episodes, -1))
    return interpolate(problem, places, np.stack(found))


def check_simulator(simulator: Task, task: Task) -> None:
    """Refuse a simulator of another system.

    Raises:
        ConfigError: If observations, actions, costs or horizon differ.
    """
    there, here = (
        f"{each.observations} observations, {each.actions} actions, {len(each.limits)} costs and {each.horizon} steps"
        for each in (simulator, task)
    )
    if there != here:
        raise ConfigError(
            f"The simulator {simulator.name!r} has {there}; task {task.name!r} has {here}. Give a simulator of the "
            "same system."
        )


def interpolate(problem: Problem, places: Int[np.ndarray, " d"], returned: Float[np.ndarray, "s d e r"]) -> Simulated:
    """Return episodes at some candidates, carried to all of them.

    Args:
        problem: The problem.
        places: Rows of the candidates that were simulated.
        returned: Returns of every episode: of the policy, then of its members.
    """
    rows = []
    for row in range(returned.shape[-1]):
        scale = _Reward(problem) if row == 0 else _Cost(problem.reference[row - 1])
        rows.append(_carried(problem.scaled, places, returned[..., row], scale))
    maps = np.stack(rows, axis=1)
    return Simulated(means=maps[0], members=maps[1:])


def spread(X: Float[np.ndarray, "d n"], count: int) -> Int[np.ndarray, " m"]:
    """Return candidates spread evenly: from the middle on, always the one farthest from those taken."""
    taken = [int(((X - X.mean(axis=1, keepdims=True)) ** 2).sum(axis=0).argmin())]
    distance = np.full(X.shape[1], np.inf)
    while len(taken) < min(count, X.shape[1]):
        np.minimum(distance, ((X - X[:, [taken[-1]]]) ** 2).sum(axis=0), out=distance)
        taken.append(int(distance.argmax()))
    return np.array(taken)


@dataclass(frozen=True)
class _Reward:
    """Rewards as a fraction of their axis."""

    problem: Problem

    def modeled(self, episodes: Float[np.ndarray, "d e"]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Return the mean of every target and the variance of its error."""
        scaled = (episodes - self.problem.candidates[:, 0].min()) / self.problem.extents[0]
        return scaled.mean(axis=1), np.array([shrunk_variance(each, _REWARD_NOISE) for each in scaled])

    def raw(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.asarray(self.problem.candidates[:, 0].min() + self.problem.extents[0] * y)


@dataclass(frozen=True)
class _Cost:
    """Costs on the logarithmic scale, whatever scale the search uses: it keeps them from becoming negative."""

    unit: float

    def modeled(self, episodes: Float[np.ndarray, "d e"]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Return the mean of every target and the variance of its error."""
        means, count = episodes.mean(axis=1), episodes.shape[1]
        # Variance over mean, pooled; no wary prior as in the search: too much noise assumed flattens the map.
        squares = float(((episodes - means[:, None]) ** 2).sum())
        phi = squares / ((count - 1) * max(float(means.sum()), _LEAST_COST * self.unit))
        variances = phi * (means + phi / count) / count  # where nothing was seen to cost, as if a little had been
        errors = [np.sqrt(v) * scale_slope("log", float(m), self.unit) for v, m in zip(variances, means, strict=True)]
        return to_scale("log", means, self.unit), np.square(errors)

    def raw(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return from_scale("log", np.maximum(y, 0.0), self.unit)


def _carried(
    X: Float[np.ndarray, "k n"],
    places: Int[np.ndarray, " d"],
    episodes: Float[np.ndarray, "s d e"],
    scale: _Reward | _Cost,
) -> Float[np.ndarray, "s n"]:
    """Return one return of the policy and of its members at every candidate, raw units."""
    y, variance = scale.modeled(episodes[0])
    choices = product(_LENGTHSCALES, _SDS)
    # Chosen for the policy; members are smoothed alike, so that differences are not those of the smoothing.
    _, length, sd = max((_regressed(X, places, y, variance, *each).log_likelihood, *each) for each in choices)
    maps = []
    for each in episodes:
        y, variance = scale.modeled(each)
        maps.append(scale.raw(_regressed(X, places, y, variance, length, sd).mean))
    return np.stack(maps)


def _regressed(
    X: Float[np.ndarray, "k n"],
    places: Int[np.ndarray, " d"],
    y: Float[np.ndarray, " d"],
    variance: Float[np.ndarray, " d"],
    length: float,
    sd: float,
) -> GridGP:
    """Return a Gaussian process around the plane that fits best."""
    planes = np.column_stack([np.ones(X.shape[1]), X.T])
    weight = 1 / np.sqrt(variance + sd**2)
    plane, *_ = np.linalg.lstsq(weight[:, None] * planes[places], weight * y, rcond=None)
    gp = GridGP(X, "matern52", (length,) * len(X), sd, planes @ plane)
    for place, value, noise in zip(places, y, variance, strict=True):
        gp.append(int(place), float(value), max(float(noise), _LEAST_VARIANCE))
    return gp


def _counting(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: progress(before + done, total)
