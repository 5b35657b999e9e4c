"""What to try next under the promise "trial": a pure function of what is believed.

First the start is tried until its risk fits. Then every trial is a lottery: a center that is likely to earn more and
whose risk fits, and a scout further out, partly ahead, partly where costs are least known. Centers lie on lines between
two targets whose own episodes have kept the limits. So a search looks before it steps: a scout, with two episodes in
ten, goes first, and centers only go between what was seen.

Candidates are drawn from a named random stream, so the same facts give the same choice. Nothing depends on a grid.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe._random import generator
from lifesafe.errors import NoSafeTargetError
from lifesafe.journal.events import Forecast, Point
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.ledger import EPISODES, FIRST_EPISODES, allowance, start_allowance, step_risks
from lifesafe.safety.likelihood import mean_of
from lifesafe.safety.lottery import SCOUTS, Lottery, lottery
from lifesafe.safety.posterior import Expected
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
_AT_ONCE = 64  # candidates whose price is computed at once
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
    expected, (low, high) = beliefs.expect(points), beliefs.problem.rewards  # type: ignore[misc]  # made so by the problem
    risks, costs = expected.risks(), expected.quantiles((0.5, 0.95)) * np.array(beliefs.problem.limits)
    return tuple(
        Forecast(
            reward=(float(low + (high - low) * expected.reward[i]), float((high - low) * expected.reward_sd[i])),
            costs=tuple((float(median), float(upper)) for median, upper in costs[:, i].T),
            risk=float(risks[i]),
        )
        for i in range(len(points))
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
    risk = beliefs.expect(beliefs.tried).risks()
    if not len(risk) or risk.min() > start_allowance(beliefs, 0):
        return Done("no target that was tried is sure enough to keep the lower limits; name a start that is")
    best = int(risk.argmin())
    return _step(beliefs, left, begin=(beliefs.tried[best], float(risk[best])))


def _again(beliefs: Beliefs, left: int) -> Choice | Done:
    found = current_start(beliefs) if beliefs.is_vouched else None
    if found is None:
        return Done("no target that was tried keeps the limits for sure enough any more")
    point = found[1]
    return Choice("start", lottery(point, min(EPISODES, left)), 0.0, 0.0, (), forecasts(beliefs, (point,)))


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
    points = _centers(beliefs, rng)
    centers = _Centers(beliefs, points, paid, points.index(begin[0]) if begin is not None else None)
    rest = max(beliefs.problem.delta - beliefs.spent - extra, 0.0)
    fair, i = min(max(allowance(beliefs) - extra, 0.0), rest), None
    for may in (fair, max(fair, _BOLD * rest)):  # more, where a fair share pays for nothing new
        i = centers.best(may)
        if i is None:
            continue
        scout, more, hoped = None, 0.0, float(centers.hoped[i])
        if left >= EPISODES and not all(beliefs.sure):
            room = may - float(centers.price[i])
            scout, more, hoped = _scout(beliefs, rng, centers.expected.rows(np.array([i])), room)
        if scout is not None or not centers.has_paid[i] or begin is not None:
            break
    if i is None:  # what came back has made even the start doubtful: look there again
        return _again(beliefs, left)
    center, charge = points[i], extra + float(centers.price[i])
    if centers.has_paid[i] and begin is None:
        done = _nothing_to_gain(beliefs, max(hoped, float(centers.hoped[i])))
        done = done or (_nothing_new(beliefs) if scout is None else None)
        if done is not None:
            return done
    drawn = lottery(center, min(EPISODES, left), scout, seed=beliefs.problem.seed, trial=number)
    paying = (*((begin[0],) if begin is not None else ()), *(() if centers.has_paid[i] else (center,)))
    return Choice("search", drawn, charge + more, may + extra, paying, forecasts(beliefs, drawn.targets))


class _Centers:
    """Targets that a trial may be about, and what each would be charged, computed as far as it matters."""

    def __init__(self, beliefs: Beliefs, points: tuple[Point, ...], paid: Collection[Point], begin: int | None) -> None:
        self.expected = beliefs.expect(points)
        self.hoped = self.expected.reward + OPTIMISM * self.expected.reward_sd
        """Reward that each may have, if one is lucky."""
        self.has_paid = np.array([point in paid for point in points])
        self._risk = self.expected.risks()
        is_little = self._risk <= (_LITTLE * beliefs.problem.delta if paid else -1)
        self.price = np.where(self.has_paid, 0.0, np.where(is_little, np.nan, self._risk))
        """What each would be charged; not known where that is little and nobody has asked for it yet."""
        self._paid, self._begin, self._half = beliefs.expect(sorted(paid)), begin, beliefs.problem.delta / 2
        self._order = np.argsort(-self.hoped, kind="stable")

    def best(self, may: float) -> int | None:
        """Return the most hopeful target that may be tried for so much; a start that begins always may."""
        fits = self._risk <= max(self._half, may)
        if self._begin is not None:
            fits[self._begin] = True
        order = self._order[fits[self._order]]
        for first in range(0, len(order), _AT_ONCE):
            chosen = order[first : first + _AT_ONCE]
            unknown = chosen[np.isnan(self.price[chosen])]
            if len(unknown):
                self.price[unknown] = step_risks(self._paid, self.expected.rows(unknown))
            if (self.price[chosen] <= may).any():
                return int(chosen[(self.price[chosen] <= may).argmax()])
        return None


def _scout(
    beliefs: Beliefs, rng: np.random.Generator, center: Expected, room: float
) -> tuple[Point | None, float, float]:
    """Return the most promising scout whose lottery fits, the risk that it adds, and the most that any may earn."""
    points = _around(beliefs, rng, center.Z[0])
    if not points:
        return None, 0.0, -np.inf
    far = beliefs.expect(points)
    hoped = far.reward + OPTIMISM * far.reward_sd
    means, sds = np.array(far.f).transpose(1, 0, 2)
    worth = hoped + _CURIOSITY * np.minimum(sds.max(axis=0), _MOST_CURIOUS / _CURIOSITY)
    worth -= _FAR_PRICE * np.maximum(mean_of(means).max(axis=0) - _TOO_FAR, 0.0)
    order = np.argsort(-worth)
    for first in range(0, len(order), _AT_ONCE):
        chosen = order[first : first + _AT_ONCE]
        added = far.rows(chosen).added_to(center, SCOUTS / EPISODES)
        if (added <= room).any():
            j = int((added <= room).argmax())
            return points[chosen[j]], float(added[j]), float(hoped.max())
    return None, 0.0, float(hoped.max())


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
    from scipy.spatial import cKDTree  # here, since few searches list their targets, and it takes long to load

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
