"""One simulated deployment: a map is drawn, the optimizer searches it, and the truth judges every trial."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lifesafe._random import generator
from lifesafe.coverage.literal import LiteralRule
from lifesafe.errors import ConfigError, GuaranteeWarning, NoSafeTargetError
from lifesafe.optimizer import Prior, Priors, Problem, SafeOptimizer, Schedule
from lifesafe.optimizer.priors import Mean, Mixture
from lifesafe.returns import Returns
from lifesafe.theory.held_out import HELD_OUT
from lifesafe.theory.simulators import DEFAULT_LAW, FAMILIES, LIMIT, REWARD_RANGE, SimulatedMap, dithered_map

_NEAR = 0.05  # a target within this share of the best reachable reward counts as found


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the coverage table: which maps are drawn and how the optimizer is set."""

    family: str
    """Family of maps: see `lifesafe.theory.simulators`, or a held-back one."""
    delta: float = 0.1
    model: Literal["default", "linear", "right"] = "default"
    """The priors that lifesafe ships; the specification's, on the linear scale (Matern 3/2, length-scale 0.3, deviation
    one limit); or those the map is drawn from (families gp_target and gp_flat only)."""
    error: float = 1.0
    """Factor by which the model's length-scale for the cost is wrong."""
    mixture: Mixture = 1
    mean: Mean | None = None
    """Prior mean of the cost; none keeps the model's own."""
    rule: Literal["ledger", "even", "paper", "fixed", "literal", "plain"] = "ledger"
    """Schedule; `literal` is the paper's safe set as printed, `plain` asks for (R_max, limit) and nothing else."""
    reach: float | None = None
    """Longest step; none keeps the default, or 0.2 with the right model: the cap guards against a wrong one."""
    dither: float = 0.0
    """How much what is asked for differs from episode to episode, as a fraction of each axis. Violations are then those
    of the dithered targets; rewards are compared with the best that could be had without."""
    trials: int = 30

    @property
    def name(self) -> str:
        """A short name that tells what is special about the row."""
        parts = [self.rule, f"{self.model} model"]
        parts += [f"length-scale x{self.error:g}"] if self.error != 1 else []
        parts += [f"mixture {self.mixture}"] if self.mixture != 1 else []
        parts += [f"mean {self.mean}"] if self.mean else []
        parts += [f"reach {self.reach:g}"] if self.reach else []
        parts += [f"dither {self.dither:g}"] if self.dither else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Outcome:
    """What happened in one deployment."""

    violations: int
    """Trials at targets whose true mean cost exceeds the limit; a seed's own trials are not counted."""
    operates_unsafe: bool
    """Whether the recommended target exceeds the limit."""
    found: bool
    """Whether the recommended target is safe and within 5 % of the best reachable reward at the end."""
    trials_to_found: float
    """Trials until that was first so; infinite if never."""
    gain: float
    """Reward of the recommended target on the way from the seed (0) to the best reachable target (1)."""
    recall: float
    """Share of the reachable targets that the final safe set holds."""
    spent: float
    frozen: bool
    worst: float = 0.0
    """Largest mean cost of those trials, in limits; 0 if there are none."""


def deploy(row: Row, number: int) -> Outcome:
    """Return the outcome of the deployment with this number; the same number draws the same map in every row."""
    exact = draw_map(row, generator(number, "map", row.family))
    world = dithered_map(exact, row.dither)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # counting them is the purpose
        judge = _Judge(world, exact)
        if row.rule == "plain":
            _deploy_plain(world, judge)
        elif row.rule == "literal":
            _deploy_literal(row, world, judge, generator(number, "episodes"))
        else:
            _deploy_optimizer(row, world, judge, generator(number, "episodes"))
    return judge.outcome()


def draw_map(row: Row, rng: np.random.Generator) -> SimulatedMap:
    """Return a map of the row's family."""
    families = FAMILIES | HELD_OUT
    if row.family not in families:
        raise ConfigError(f"Unknown family {row.family!r}; choose one of {', '.join(families)}.")
    return families[row.family](rng)


def problem_for(row: Row, world: SimulatedMap) -> Problem:
    """Return the problem that the optimizer is given."""
    return Problem(
        candidates=world.candidates,
        seeds=(world.seed,),
        limits=(world.limit,),
        delta=row.delta,
        priors=_priors(row),
        trust_prior=row.model == "right",
    )


def schedule_for(row: Row) -> Schedule:
    """Return the schedule that the optimizer is given."""
    settings = Schedule(trials=row.trials)
    if row.reach is not None or row.model == "right":
        settings = replace(settings, reach=row.reach or 0.2)
    if row.rule == "paper":
        return replace(settings, risk="paper")
    if row.rule == "fixed":
        return replace(settings, risk="fixed")
    return replace(settings, share=None) if row.rule == "even" else settings


class _Judge:
    """Compares trials and recommendations with the truth."""

    def __init__(self, world: SimulatedMap, exact: SimulatedMap) -> None:
        self._world = world
        self._reward, self._safe = world.reward.reshape(-1), world.is_safe
        self._reachable = exact.is_reachable
        possible = exact.reward.reshape(-1)
        best, worst = possible[self._reachable].max(), possible.min()
        self._enough = best - _NEAR * (best - worst)
        self._start, self._best = possible[world.seed], best
        self._violations, self._worst, self._trials, self._first = 0, 0.0, 0, np.inf
        self._recommended: int | None = None
        self.final_safe = np.zeros(len(self._safe), dtype=bool)
        self.spent, self.frozen = 0.0, False

    def trial(self, index: int) -> None:
        """Take note of a trial."""
        self._trials += 1
        if index != self._world.seed and not self._safe[index]:
            self._violations += 1
            self._worst = max(self._worst, float(self._world.cost.flat[index]) / self._world.limit)

    def recommendation(self, index: int | None) -> None:
        """Take note of what would be operated now."""
        self._recommended = index
        if self._is_found() and self._first == np.inf:
            self._first = self._trials

    def _is_found(self) -> bool:
        index = self._recommended
        return index is not None and bool(self._safe[index] and self._reward[index] >= self._enough)

    def _gain(self) -> float:
        index = self._world.seed if self._recommended is None else self._recommended
        possible = self._best - self._start
        return float((self._reward[index] - self._start) / possible) if possible > 0 else 1.0

    def outcome(self) -> Outcome:
        """Return the verdict."""
        return Outcome(
            violations=self._violations,
            operates_unsafe=self._recommended is not None and not self._safe[self._recommended],
            found=self._is_found(),
            trials_to_found=float(self._first),
            gain=self._gain(),
            recall=float(self.final_safe[self._reachable].mean()),
            spent=self.spent,
            frozen=self.frozen,
            worst=self._worst,
        )


def _deploy_optimizer(row: Row, world: SimulatedMap, judge: _Judge, rng: np.random.Generator) -> None:
    optimizer = SafeOptimizer(problem_for(row, world), schedule_for(row))
    try:
        while trial := optimizer.ask():
            judge.trial(trial.index)
            optimizer.tell(trial, [Returns(r, g) for r, g in world.draw(trial.index, trial.episodes, rng)])
            best = optimizer.best
            judge.recommendation(best.index if best else None)
    except NoSafeTargetError:
        pass  # the seed could not be certified: nothing more is tried and nothing is operated
    judge.final_safe = optimizer.safe
    judge.spent, judge.frozen = optimizer.spent, optimizer.frozen


def _deploy_literal(row: Row, world: SimulatedMap, judge: _Judge, rng: np.random.Generator) -> None:
    rule = LiteralRule(problem_for(row, world))
    for _ in range(row.trials):
        index = rule.ask()
        judge.trial(index)
        rule.tell(index, world.draw(index, Schedule().episodes, rng))
        judge.recommendation(index)  # the paper operates its last query


def _deploy_plain(world: SimulatedMap, judge: _Judge) -> None:
    column = int(np.abs(world.cost_axis - world.limit).argmin())
    index = (len(world.reward_axis) - 1) * len(world.cost_axis) + column
    judge.trial(index)
    judge.recommendation(index)


def _priors(row: Row) -> Priors:
    base = _right_priors(row.family) if row.model == "right" else Priors()
    if row.model == "linear":
        base = replace(base, cost=Prior(mean="larger", kernel="matern32", lengthscales=(0.3,), sd=1.0))
    if row.rule == "literal":  # the paper models raw costs
        base = replace(base, cost=replace(base.cost, scale="linear", sd=min(base.cost.sd, 1.0)))
    lengths = tuple(row.error * length for length in base.cost.lengthscales)
    mean = base.cost.mean if row.mean is None else row.mean
    return replace(base, cost=replace(base.cost, lengthscales=lengths, mixture=row.mixture, mean=mean))


def _right_priors(family: str) -> Priors:
    """Return the prior that the Gaussian families are drawn from."""
    if family not in ("gp_target", "gp_flat"):
        raise ConfigError(f"Maps of the family {family!r} are not drawn from a Gaussian process; no model is right.")
    law = DEFAULT_LAW
    mean: Mean = "target" if family == "gp_target" else "limit"
    lengths = (law.lengthscale,)
    return Priors(
        reward=Prior(mean="target", kernel=law.kernel, lengthscales=lengths, sd=law.reward_sd / REWARD_RANGE),
        cost=Prior(mean=mean, kernel=law.kernel, lengthscales=lengths, sd=law.cost_sd / LIMIT),
    )
