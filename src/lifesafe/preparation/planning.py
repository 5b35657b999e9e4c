"""How many real episodes a search will take, and what would shorten it, told before it begins.

The search itself is run a few times on a *plain machine*: a mean cost is the target cost that is asked for, and the
reward is the one that is asked for if the costs are at their limits, half of it if there are none. Knobs all add to
the reward and to the costs alike, and the limit lies half an axis from the start. So the effort is exact about the
rules and about the start, and a rule of thumb about your machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe._random import generator
from lifesafe.errors import GuaranteeWarning, NoSafeTargetError
from lifesafe.returns import Returns
from lifesafe.safety.certificate import check_start, start_episodes
from lifesafe.safety.problem import Problem
from lifesafe.safety.search import SafeOptimizer

_MOST = 0.9  # of what can be gained
_USE = 0.75  # of the limits, with which all counts as gained: no search gets much nearer to them
_NOISE, _STEADY = 0.5, 0.02  # dispersion of a cost, in limits; that of a machine that repeats itself
_REWARD_NOISE = 0.05  # deviation of an episode's reward, in ranges
_SEEDS, _LONG = 3, 300  # searches, of which the middle one counts; of this many episodes times costs one is enough
_PLANNED = 600  # episodes that are simulated of a longer search
_WORTH = 0.85  # share of the episodes up to which a change counts as shorter
_WHY = {
    "lumps": "how much cost can come at once: until that is ruled out, a target is not known to be safe",
    "noise": "how much the episodes of one target differ",
    "distance": "the distance: a search goes by short steps from what it knows",
}


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a search will take."""

    most: int
    """Real episodes at most."""
    start: int
    """Those of them that the start takes if it costs nothing."""
    usual: int | None
    """Real episodes until most of what can be gained is found, as a rule; none if `most` are too few."""
    gained: float
    """Share of what can be gained that is found by then."""
    limited_by: str
    """What takes most of the episodes: "lumps", "noise" or "distance"."""
    shorter: dict[str, int]
    """Settings that would make it clearly shorter, and the episodes until most is found."""
    sure: bool
    """Whether every single episode keeps every limit for sure."""

    def __str__(self) -> str:
        known = f"most of what can be gained is found after about {self.usual}"
        if self.usual is None:
            first = "they find" if self.most <= _PLANNED else f"the first {_PLANNED} find"
            known = f"{first} about {max(self.gained, 0.0):.0%} of what can be gained"
        text = f"The search takes at most {self.most} real episodes; as a rule {known}."
        if not self.sure:
            text += f" The start takes {self.start} of them if it costs nothing, and more if it does."
        text += f"\nWhat limits it is {_WHY[self.limited_by]}."
        now = f"more than {min(self.most, _PLANNED)}" if self.usual is None else self.usual
        return text + "".join(
            f"\nWith {change}: about {count} instead of {now}." for change, count in self.shorter.items()
        )


def effort(problem: Problem) -> Effort:
    """Return how many real episodes a search will take, and what would shorten it.

    Raises:
        ConfigError: If the search could never leave its start.
    """
    check_start(problem)
    most, start = problem.episodes, start_episodes(problem) or 0
    problem = _with(problem, {"episodes": min(most, _PLANNED)})
    usual, gained = _rule(problem, range(_SEEDS))
    needed = usual or problem.episodes * _MOST / max(gained, 0.01)
    limited_by = "noise" if _is_shorter(problem, needed, noise=_STEADY) else "distance"
    if not all(problem.sure) and problem.promise == "trial":
        small = {"stop_at": None, "incident": [_NOISE * limit for limit in problem.limits]}
        limited_by = "lumps" if _is_shorter(_with(problem, small), needed) else limited_by
    shorter: dict[str, int] = {}
    for words, changed in _changes(problem):
        if start_episodes(changed) is not None and _is_shorter(changed, usual or np.inf):
            count, _ = _rule(changed, range(_SEEDS))
            shorter |= {} if count is None else {words: count}
    return Effort(
        most=most,
        start=start,
        usual=usual,
        gained=gained,
        limited_by=limited_by,
        shorter=shorter,
        sure=all(problem.sure),
    )


def _changes(problem: Problem) -> Iterable[tuple[str, Problem]]:
    """Return what could be changed, in words, and the problem then."""
    stop = [2 * limit for limit in problem.limits]
    if all(problem.sure) or problem.promise == "total":
        return
    if problem.stop_at is not None:
        yield 'promise = "total"', _with(problem, {"promise": "total"})
    elif problem.largest is None or all(np.greater(problem.largest, stop)):
        words, stopped = f"stop_at = {', '.join(f'{each:g}' for each in stop)}", {"stop_at": stop, "incident": None}
        yield words, _with(problem, stopped)
        yield f'{words} and promise = "total"', _with(problem, stopped | {"promise": "total"})


def _with(problem: Problem, changes: dict[str, Any]) -> Problem:
    return Problem.from_plain(problem.to_plain() | changes)


def _is_shorter(problem: Problem, than: float, noise: float = _NOISE) -> bool:
    """Return whether one search finds most in clearly fewer episodes."""
    return (_rule(problem, range(1), noise)[0] or np.inf) < _WORTH * than


def _rule(problem: Problem, seeds: range, noise: float = _NOISE) -> tuple[int | None, float]:
    """Return the episodes after which the middle search has found most, if it does, and the share that it finds."""
    seeds = range(1) if problem.episodes * len(problem.limits) >= _LONG else seeds
    found = [_search(_with(problem, {"seed": seed}), noise) for seed in seeds]
    return sorted(found, key=lambda each: (each[0] or np.inf, -each[1]))[len(seeds) // 2]


def _search(problem: Problem, noise: float) -> tuple[int | None, float]:
    """Run a search on the plain machine until it has found most."""
    rng, share, optimizer = generator(problem.seed, "plan"), 0.0, SafeOptimizer(problem)
    low, high = problem.rewards  # type: ignore[misc]  # made so by the problem
    start, gain = _gain(problem)
    phi = np.minimum(noise, np.divide(problem.lumps, problem.limits))
    with warnings.catch_warnings(), suppress(NoSafeTargetError):
        warnings.simplefilter("ignore", GuaranteeWarning)
        while trial := optimizer.ask():
            rewards, costs = _means(problem, problem.scaled([problem.point(target) for target in trial.targets]))
            rewards = low + (high - low) * (rewards + _REWARD_NOISE * rng.standard_normal(len(rewards)))
            costs = np.minimum(phi * rng.poisson(costs / phi) * problem.limits, problem.bounds or np.inf)
            optimizer.tell(trial, [Returns(r, c) for r, c in zip(rewards.tolist(), costs.tolist(), strict=True)])
            if (best := optimizer.best) is not None:
                share = float(_means(problem, problem.scaled([best.point]))[0][0] - start) / gain
            if share >= _MOST:
                return optimizer.history.searched, share
    return None, share


def _gain(problem: Problem) -> tuple[float, float]:
    """Return the reward of the start, and how much more can be gained; both as shares of the range of rewards."""
    Z = problem.scaled(problem.starts[:1])
    start = float(_means(problem, Z)[0][0])
    if problem.listed is not None:
        Z = problem.listed
    elif problem.asks_for_returns:
        most = (_USE * np.array(problem.limits) - problem.low[1:]) / problem.extents[1:]
        Z = np.concatenate([[1.0], np.minimum(most, 1.0)])[None]
    else:
        Z = np.minimum(Z + _USE / 2, 1.0)
    rewards, costs = _means(problem, Z)
    most_reward = float(rewards[(costs <= _USE + 1e-9).all(axis=1)].max(initial=start))
    return start, max(most_reward - start, 0.01)


def _means(problem: Problem, Z: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m k"]]:
    """Return mean rewards as shares of their range, and mean costs in limits, of targets whose axes end at 0 and 1."""
    if problem.asks_for_returns:
        costs = np.maximum(problem.low[1:] + problem.extents[1:] * Z[:, 1:], 0.0) / problem.limits
        return Z[:, 0] * (0.5 + 0.5 * np.minimum(costs, 1.0).mean(axis=1)), costs
    rise = np.maximum(2 * (Z - problem.scaled(problem.starts[:1])).mean(axis=1), 0.0)
    return Z.mean(axis=1), np.repeat(rise[:, None], len(problem.limits), axis=1)
