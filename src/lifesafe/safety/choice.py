"""What to try next under the promise "trial": a pure function of what is believed.

First the start is tried until its risk fits. Then every trial is a lottery: a center that is likely to earn more and
whose risk fits, and a scout further out, partly ahead, partly where costs are least known. Centers lie on lines between
two targets whose own episodes have kept the limits. So a search looks before it steps: a scout, with two episodes in
ten, goes first, and centers only go between what was seen.

Candidates are drawn from a named random stream, so the same facts give the same choice. Nothing depends on a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree

from lifesafe._random import generator
from lifesafe.errors import NoSafeTargetError
from lifesafe.journal.events import Forecast, Point
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.ledger import (
    EPISODES,
    FIRST_EPISODES,
    Moments,
    allowance,
    lottery_risks,
    moments,
    risks,
    rows_of,
    start_allowance,
    step_risks,
)
from lifesafe.safety.likelihood import mean_of
from lifesafe.safety.lottery import SCOUTS, Lottery, lottery
from lifesafe.safety.recommendation import recommend
from lifesafe.safety.start import current_start, why_none_is_left

SCOUT_REACH = 0.3
"""How far a scout may be from its center, along every axis."""
CANDIDATES = 400
"""Drawn for the center, and as many for the scout."""
OPTIMISM = 1.5
"""Standard deviations that are added to a mean reward."""
_CURIOSITY, _MOST_CURIOUS = 0.3, 0.5  # of a scout for what is least known: for each deviation of f, up to this
_TOO_FAR, _FAR_PRICE = 1.2, 0.3  # mean cost, in limits, from which a scout pays so much of the reward range a limit
_CLOSE = 0.1  # to a line, along every axis, where targets are listed
_LITTLE = 0.05  # of delta: risk up to which a center pays only for what its step adds
_AT_ONCE = 64  # scouts whose lottery is computed at once
_BOLD = 0.25  # of what is left of delta: a trial may take so much if a fair share pays for nothing new
_PATIENCE = 10  # trials in a row at what is known
_GAIN = 0.01  # of the reward range: less than this is nothing to go on for


@dataclass(frozen=True, eq=False)
class Choice:
    """The next trial, and what it rests on."""

    stage: str
    lottery: Lottery
    charge: float
    allowance: float
    paid: tuple[Point, ...]
    """Targets that have paid with this trial."""
    forecasts: tuple[Forecast, ...]
    """What is expected of each target of the lottery."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to try."""

    why: str


def choose(beliefs: Beliefs) -> Choice | Done:
    """Return the next trial under the promise "trial", or why there is none.

    Raises:
        NoSafeTargetError: If every start has failed.
    """
    left = beliefs.problem.episodes - beliefs.searched
    if left <= 0:
        return Done(f"the {beliefs.problem.episodes} episodes are used up")
    if beliefs.admitted or all(beliefs.sure):
        return _step(beliefs, left)
    return _start(beliefs, left) if beliefs.is_vouched else _from_data(beliefs, left)


def forecasts(beliefs: Beliefs, points: tuple[Point, ...]) -> tuple[Forecast, ...]:
    """Return what is expected of some targets."""
    Z = beliefs.problem.scaled(points)
    at = moments(beliefs, Z)
    risk, (mean, sd) = risks(beliefs, at, len(Z)), beliefs.reward.moments(Z)
    low, high = beliefs.problem.rewards  # type: ignore[misc]  # made so by the problem
    costs = np.zeros((len(Z), len(beliefs.costs), 2))
    for k, (cost, pair) in enumerate(zip(beliefs.costs, at, strict=True)):
        if cost is not None and pair is not None:
            costs[:, k] = (cost.quantiles(*pair, (0.5, 0.95)) * beliefs.problem.limits[k]).T
    return tuple(
        Forecast(
            reward=(float(low + (high - low) * mean[i]), float((high - low) * sd[i])),
            costs=tuple((float(median), float(upper)) for median, upper in costs[i]),
            risk=float(risk[i]),
        )
        for i in range(len(Z))
    )


def _start(beliefs: Beliefs, left: int) -> Choice | Done:
    """Try the start until its risk fits; then the search goes on from there."""
    found = current_start(beliefs)
    if found is None:
        raise NoSafeTargetError(why_none_is_left(beliefs))
    number, point = found
    own = beliefs.own.get(point)
    may = start_allowance(beliefs, number)
    if own is not None and own.episodes >= FIRST_EPISODES:
        (forecast,) = forecasts(beliefs, (point,))
        if forecast.risk <= may:
            return _step(beliefs, left, begin=(point, forecast.risk))
    count = min(EPISODES if own is not None else FIRST_EPISODES, left)
    return Choice("start", lottery(point, count), 0.0, may, (), forecasts(beliefs, (point,)))


def _from_data(beliefs: Beliefs, left: int) -> Choice | Done:
    """Begin under lower limits for which nobody has named a start: a target that was tried pays before it runs."""
    Z = beliefs.problem.scaled(beliefs.tried)
    risk = risks(beliefs, moments(beliefs, Z), len(Z))
    if not len(Z) or risk.min() > start_allowance(beliefs, 0):
        return Done("no target that was tried is sure enough to keep the lower limits; name a start that is")
    best = int(risk.argmin())
    return _step(beliefs, left, begin=(beliefs.tried[best], float(risk[best])))


def _again(beliefs: Beliefs, left: int) -> Choice | Done:
    found = current_start(beliefs) if beliefs.is_vouched else None
    if found is None:
        return Done("no target that was tried keeps the limits for sure enough any more")
    point = found[1]
    return Choice("start", lottery(point, min(EPISODES, left)), 0.0, 0.0, (), forecasts(beliefs, (point,)))


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Targets to choose from, with what is known of them."""

    points: tuple[Point, ...]
    Z: Float[np.ndarray, "m d"]
    at: Moments
    reward: Float[np.ndarray, " m"]
    reward_sd: Float[np.ndarray, " m"]

    @classmethod
    def of(cls, beliefs: Beliefs, points: tuple[Point, ...]) -> _Candidates:
        Z = beliefs.problem.scaled(points)
        return cls(points, Z, moments(beliefs, Z), *beliefs.reward.moments(Z))

    @property
    def hoped(self) -> Float[np.ndarray, " m"]:
        """Reward that a candidate may have, if one is lucky."""
        return self.reward + OPTIMISM * self.reward_sd


def _step(beliefs: Beliefs, left: int, begin: tuple[Point, float] | None = None) -> Choice | Done:
    """Return a lottery around a center whose risk fits.

    Args:
        beliefs: What is believed.
        left: Episodes that are left.
        begin: A start that pays with this trial, and its risk.
    """
    number = len(beliefs.history.trials) + 1
    rng = generator(beliefs.problem.seed, "candidates", number)
    paid = beliefs.paid | ({begin[0]} if begin is not None else set())
    extra = begin[1] if begin is not None else 0.0
    near = _Candidates.of(beliefs, _centers(beliefs, rng))
    risk = risks(beliefs, near.at, len(near.Z))
    has_paid = np.array([point in paid for point in near.points])
    price = np.where(has_paid, 0.0, _prices(beliefs, near, risk, sorted(paid)))
    begins = np.array([begin is not None and point == begin[0] for point in near.points])  # whatever its risk is
    rest = max(beliefs.problem.delta - beliefs.spent - extra, 0.0)
    fair = min(max(allowance(beliefs) - extra, 0.0), rest)
    for may in (fair, max(fair, _BOLD * rest)):  # more, where a fair share pays for nothing new
        fits = (price <= may) & (risk <= max(beliefs.problem.delta / 2, may)) | begins
        if not fits.any():
            continue
        i = int(np.where(fits, near.hoped, -np.inf).argmax())
        scout, more, hoped = None, 0.0, float(near.hoped[i])
        if left >= EPISODES and not all(beliefs.sure):
            scout, more, hoped = _scout(beliefs, rng, near, i, may - float(price[i]))
        if scout is not None or not has_paid[i] or begin is not None:
            break
    if not fits.any():  # what came back has made even the start doubtful: look there again
        return _again(beliefs, left)
    center, charge = near.points[i], extra + float(price[i])
    if has_paid[i] and begin is None:
        done = _nothing_to_gain(beliefs, max(hoped, float(near.hoped[i])))
        done = done or (_nothing_new(beliefs) if scout is None else None)
        if done is not None:
            return done
    drawn = lottery(center, min(EPISODES, left), scout, seed=beliefs.problem.seed, trial=number)
    paying = (*((begin[0],) if begin is not None else ()), *(() if has_paid[i] else (center,)))
    return Choice("search", drawn, charge + more, may + extra, paying, forecasts(beliefs, drawn.targets))


def _prices(
    beliefs: Beliefs, near: _Candidates, risk: Float[np.ndarray, " m"], paid: Sequence[Point]
) -> Float[np.ndarray, " m"]:
    """Return what each candidate would be charged as a center that has not paid."""
    price = risk.copy()
    small = np.flatnonzero(risk <= _LITTLE * beliefs.problem.delta)
    if paid and len(small):
        price[small] = step_risks(beliefs, beliefs.problem.scaled(paid), near.Z[small], rows_of(near.at, small))
    return price


def _scout(
    beliefs: Beliefs, rng: np.random.Generator, near: _Candidates, i: int, room: float
) -> tuple[Point | None, float, float]:
    """Return the most promising scout whose lottery fits, the risk that it adds, and the most that any may earn."""
    z, share = near.Z[i], SCOUTS / EPISODES
    points = _around(beliefs, rng, z)
    if not points:
        return None, 0.0, -np.inf
    far = _Candidates.of(beliefs, points)
    hoped = float(far.hoped.max())
    worth = far.hoped + _CURIOSITY * np.minimum(_deviation(beliefs, far.at), _MOST_CURIOUS / _CURIOSITY)
    worth -= _FAR_PRICE * np.maximum(_mean_cost(beliefs, far.at) - _TOO_FAR, 0.0)
    order = np.argsort(-worth)
    at_z = rows_of(near.at, np.array([i]))
    for first in range(0, len(order), _AT_ONCE):
        chosen = order[first : first + _AT_ONCE]
        added = lottery_risks(beliefs, z, far.Z[chosen], at_z, rows_of(far.at, chosen), share)
        if (added <= room).any():
            j = int((added <= room).argmax())
            return far.points[chosen[j]], float(added[j]), hoped
    return None, 0.0, hoped


def _nothing_to_gain(beliefs: Beliefs, hoped: float) -> Done | None:
    """Return that the search is over if even the most hopeful target beats the recommended one by next to nothing."""
    best = recommend(beliefs)
    if best is None or hoped - best.modeled > _GAIN:
        return None
    return Done(f"no target that may be tried can earn {_GAIN:.0%} of the reward range more")


def _nothing_new(beliefs: Beliefs) -> Done | None:
    """Return that the search is over if many trials in a row could afford nothing that was not known."""
    last = [tried for tried in beliefs.history.told if tried.asked.stage == "search"][-_PATIENCE:]
    known = [tried for tried in last if not tried.asked.paid and len(tried.asked.targets) == 1]
    if len(known) < _PATIENCE or all(beliefs.sure):
        return None
    return Done(f"in {_PATIENCE} trials nothing new could be tried: what is left of delta pays for no further step")


def _centers(beliefs: Beliefs, rng: np.random.Generator) -> tuple[Point, ...]:
    """Return the tried targets, and others between those that kept the limits; the whole box if every episode is safe.

    Of a list, those count as between that lie close to a line.
    """
    problem = beliefs.problem
    known = beliefs.tried or problem.starts
    X = problem.scaled(known)
    if all(beliefs.sure):
        drawn = rng.random((CANDIDATES, len(problem.names)))
    else:
        ends = X[_kept_limits(beliefs, known)]
        one, other = (ends[rng.integers(len(ends), size=CANDIDATES)] for _ in range(2))
        drawn = one + (other - one) * rng.random((CANDIDATES, 1))
    if problem.listed is None or problem.targets is None:
        return (*known, *map(problem.raw, drawn))
    if all(beliefs.sure):
        return problem.targets
    distance, nearest = cKDTree(problem.listed).query(drawn, p=np.inf)
    close = np.unique(np.asarray(nearest)[np.asarray(distance) <= _CLOSE])
    listed = [problem.targets[j] for j in close.tolist()]
    return tuple(dict.fromkeys([*known, *listed]))


def _kept_limits(beliefs: Beliefs, points: Sequence[Point]) -> Int[np.ndarray, " m"]:
    """Return which targets have kept the limits by their own episodes; all of them if none has."""
    own, limits = beliefs.own, np.array(beliefs.problem.limits)
    kept = [i for i, point in enumerate(points) if point in own and (own[point].means[1:] <= limits).all()]
    return np.array(kept or range(len(points)), dtype=np.intp)


def _around(beliefs: Beliefs, rng: np.random.Generator, z: Float[np.ndarray, " d"]) -> tuple[Point, ...]:
    """Return targets within a scout's reach of a center."""
    problem = beliefs.problem
    if problem.listed is not None and problem.targets is not None:
        distance = np.abs(problem.listed - z).max(axis=1)
        near = (distance > 1e-12) & (distance <= SCOUT_REACH + 1e-9)  # a scout is another target than its center
        return tuple(problem.targets[j] for j in np.flatnonzero(near))
    drawn = z + _steps(rng, SCOUT_REACH, len(z))
    return tuple(map(problem.raw, np.clip(drawn, 0.0, 1.0)))


def _steps(rng: np.random.Generator, reach: float, axes: int) -> Float[np.ndarray, "m d"]:
    """Return steps of all lengths up to a reach along each axis; with many axes most would be long otherwise."""
    return np.asarray(rng.uniform(-reach, reach, (CANDIDATES, axes)) * np.sqrt(rng.random((CANDIDATES, 1))))


def _deviation(beliefs: Beliefs, at: Moments) -> Float[np.ndarray, " m"]:
    """Return the largest deviation of f over the costs."""
    return np.asarray(np.max([sd for _, sd in _f(beliefs, at)], axis=0))


def _mean_cost(beliefs: Beliefs, at: Moments) -> Float[np.ndarray, " m"]:
    """Return the largest expected cost, in limits."""
    return np.asarray(np.max([mean_of(mean) for mean, _ in _f(beliefs, at)], axis=0))


def _f(beliefs: Beliefs, at: Moments) -> list[tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]]:
    """Return mean and deviation of f over all components, for each cost that is not sure."""
    pairs = zip(beliefs.costs, at, strict=True)
    return [cost.moments(*pair) for cost, pair in pairs if cost is not None and pair is not None]
