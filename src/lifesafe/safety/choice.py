"""What to try next under the promise "trial": a pure function of what is believed.

First the start is tried until its risk fits. Then every trial is a lottery: a center that is likely to earn more and
whose risk fits, and a scout further out, partly ahead, partly where costs are least known. Centers lie on lines between
two targets whose own episodes have kept the limits. So a search looks before it steps: a scout, with two episodes in
ten, goes first, and centers only go between what was seen.

Candidates are drawn from a named random stream, so the same facts give the same choice. Nothing depends on a grid.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lifesafe._random import generator
from lifesafe.errors import NoSafeTargetError
from lifesafe.journal.events import Asked, Forecast, Point
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.ledger import (
    FIRST_EPISODES,
    SCOUTS,
    TRIAL_EPISODES,
    allowance,
    lottery,
    start_allowance,
    step_risks,
)
from lifesafe.safety.likelihood import mean_of
from lifesafe.safety.recommendation import recommend
from lifesafe.safety.start import current_start, why_none_is_left

SCOUT_REACH = 0.3
"""How far a scout may be from its center, along every axis."""
CANDIDATES = 400
"""Drawn for the center, and as many for the scout."""
OPTIMISM = 1.5
"""Standard deviations that are added to a mean reward."""
GAIN = 0.01
"""Share of the reward range: less than this is nothing to go on for."""
_CURIOSITY, _MOST_CURIOUS = 0.3, 0.5  # of a scout for what is least known: for each deviation of f, up to this
_TOO_FAR, _FAR_PRICE = 1.2, 0.3  # mean cost, in limits, from which a scout pays so much of the reward range a limit
_CLOSE = 0.1  # to a line, along every axis, where targets are listed
_LITTLE = 0.05  # of delta: risk up to which a center pays only for what its step adds
_AT_ONCE = 32  # candidates whose price is computed at once
_BOLD = 0.25  # of what is left of delta: a trial may take so much if a fair share pays for nothing new
_PATIENCE = 10  # trials in a row at what is known

Choice = Asked
"""The next trial, as it will be recorded."""


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
    if beliefs.is_vouched:
        return _start(beliefs, left)
    # Under lower limits for which nobody has named a start, a target that was tried pays before it runs.
    risk = beliefs.expect(beliefs.tried).risks()
    if not len(risk) or risk.min() > start_allowance(beliefs, 0):
        return Done("no target that was tried is sure enough to keep the lower limits; name a start that is")
    best = int(risk.argmin())
    return _step(beliefs, left, begin=(beliefs.tried[best], float(risk[best])))


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


def trial(
    beliefs: Beliefs,
    stage: str,
    center: Point,
    episodes: int,
    scout: Point | None = None,
    *,
    charge: float = 0.0,
    allowance: float = 0.0,
    paid: tuple[Point, ...] = (),
) -> Choice:
    """Return the next trial at a center, perhaps with a scout, as it will be recorded."""
    number, targets = len(beliefs.history.trials) + 1, (center,) if scout is None else (center, scout)
    return Asked(
        trial=number,
        stage=stage,
        targets=targets,
        tickets=(0,) * episodes if scout is None else lottery(episodes, beliefs.problem.seed, number),
        charge=charge,
        paid=paid,
        allowance=allowance,
        forecasts=forecasts(beliefs, targets),
    )


def _start(beliefs: Beliefs, left: int) -> Choice | Done:
    """Try the start until its risk fits; then the search goes on from there."""
    found = current_start(beliefs)
    if found is None:
        raise NoSafeTargetError(why_none_is_left(beliefs))
    number, point = found
    own, may = beliefs.own.get(point), start_allowance(beliefs, number)
    if own is not None and own.episodes >= FIRST_EPISODES:
        risk = float(beliefs.expect([point]).risks()[0])
        if risk <= may:
            return _step(beliefs, left, begin=(point, risk))
    return trial(beliefs, "start", point, min(FIRST_EPISODES if own is None else TRIAL_EPISODES, left), allowance=may)


def _step(beliefs: Beliefs, left: int, begin: tuple[Point, float] | None = None) -> Choice | Done:
    """Return a lottery around a center whose risk fits; `begin` is a start that pays with it, and its risk."""
    problem, (first, extra) = beliefs.problem, begin or (None, 0.0)
    rng = generator(problem.seed, "candidates", len(beliefs.history.trials) + 1)
    centers = _Centers(beliefs, rng, beliefs.paid if first is None else beliefs.paid | {first}, first)
    rest = max(problem.delta - beliefs.spent - extra, 0.0)
    fair, i = min(max(allowance(beliefs) - extra, 0.0), rest), None
    for may in (fair, max(fair, _BOLD * rest)):  # more, where a fair share pays for nothing new
        i = centers.best(may)
        if i is None:
            continue
        scout, more, hoped = None, 0.0, float(centers.hoped[i])
        if left >= TRIAL_EPISODES and not all(beliefs.sure):
            scout, more, hoped = _scout(beliefs, rng, centers.points[i], may - float(centers.price[i]))
        if scout is not None or not centers.has_paid[i] or begin is not None:
            break
    if i is None:  # what came back has made even the start doubtful: look there again
        again = current_start(beliefs) if beliefs.is_vouched else None
        if again is None:
            return Done("no target that was tried keeps the limits for sure enough any more")
        return trial(beliefs, "start", again[1], min(TRIAL_EPISODES, left))
    center, has_paid, charge = centers.points[i], bool(centers.has_paid[i]), extra + float(centers.price[i])
    if has_paid and begin is None:
        over = _over(beliefs, max(hoped, float(centers.hoped[i])), is_known=scout is None)
        if over is not None:
            return over
    paid = tuple(point for point, pays in ((first, begin is not None), (center, not has_paid)) if pays and point)
    return trial(
        beliefs,
        "search",
        center,
        min(TRIAL_EPISODES, left),
        scout,
        charge=charge + more,
        allowance=may + extra,
        paid=paid,
    )


class _Centers:
    """Targets that a trial may be about, and what each would be charged, computed as far as it matters."""

    def __init__(
        self, beliefs: Beliefs, rng: np.random.Generator, paid: Collection[Point], begin: Point | None
    ) -> None:
        """Draw targets between those that kept the limits; from the whole box if every episode is safe.

        Of a list, those count as between that lie close to a line. Tried targets are always among them.
        """
        problem = beliefs.problem
        known = beliefs.tried or problem.starts
        if all(beliefs.sure):
            drawn = rng.random((CANDIDATES, len(problem.names)))
        else:
            own, limits = beliefs.own, np.array(problem.limits)
            kept = [point for point in known if point in own and (own[point].means[1:] <= limits).all()]
            ends = problem.scaled(kept or known)  # all of them if none has kept the limits
            one, other = (ends[rng.integers(len(ends), size=CANDIDATES)] for _ in range(2))
            drawn = one + (other - one) * rng.random((CANDIDATES, 1))
        if problem.listed is None or problem.targets is None:
            self.points: tuple[Point, ...] = (*known, *problem.raw(drawn))
        elif all(beliefs.sure):
            self.points = problem.targets
        else:
            distance = np.zeros((len(drawn), len(problem.listed)))
            for axis in range(drawn.shape[1]):
                apart = np.abs(np.subtract.outer(drawn[:, axis], problem.listed[:, axis]))
                np.maximum(distance, apart, out=distance)
            close = np.unique(distance.argmin(axis=1)[distance.min(axis=1) <= _CLOSE])
            self.points = tuple(dict.fromkeys([*known, *(problem.targets[j] for j in close.tolist())]))
        self._Z = problem.scaled(self.points)
        mean, sd = beliefs.model.rewards(self._Z)
        self.hoped = mean + OPTIMISM * sd
        """Reward that each may have, if one is lucky."""
        self.has_paid = np.array([point in paid for point in self.points])
        self._order = np.argsort(-self.hoped, kind="stable")
        self._risk = np.full(len(self.points), np.nan)
        self.price = np.where(self.has_paid, 0.0, np.nan)
        """What each would be charged; not a number where nobody has asked for it yet."""
        self._is_begin = np.array([point == begin for point in self.points])
        self._model, self._delta = beliefs.model, problem.delta
        self._paid = beliefs.expect(sorted(paid))

    def best(self, may: float) -> int | None:
        """Return the most hopeful target that may be tried for so much; a start that begins always may."""
        for first in range(0, len(self._order), _AT_ONCE):
            chosen = self._order[first : first + _AT_ONCE]
            if np.isnan(self._risk[chosen]).any():
                expected = self._model.expect(self._Z[chosen])
                risk = self._risk[chosen] = expected.risks()
                is_little = np.flatnonzero((risk <= _LITTLE * self._delta) & ~self.has_paid[chosen])
                price = np.where(self.has_paid[chosen], 0.0, risk)
                if len(is_little) and len(self._paid.Z):
                    price[is_little] = step_risks(self._paid, expected.rows(is_little))
                self.price[chosen] = price
            fits = (self._risk[chosen] <= max(self._delta / 2, may)) | self._is_begin[chosen]
            fits &= self.price[chosen] <= may
            if fits.any():
                return int(chosen[fits.argmax()])
        return None


def _scout(beliefs: Beliefs, rng: np.random.Generator, center: Point, room: float) -> tuple[Point | None, float, float]:
    """Return the most promising scout whose lottery fits, the risk that it adds, and the most that any may earn."""
    problem, of_center = beliefs.problem, beliefs.expect([center])
    z = of_center.Z[0]
    if problem.listed is not None and problem.targets is not None:
        distance = np.abs(problem.listed - z).max(axis=1)
        near = (distance > 1e-12) & (distance <= SCOUT_REACH + 1e-9)  # a scout is another target than its center
        points = tuple(problem.targets[j] for j in np.flatnonzero(near))
    else:  # steps of all lengths; with many axes most would be long otherwise
        steps = rng.uniform(-SCOUT_REACH, SCOUT_REACH, (CANDIDATES, len(z))) * np.sqrt(rng.random((CANDIDATES, 1)))
        drawn = np.clip(z + steps, 0.0, 1.0)
        points = problem.raw(drawn[(drawn != z).any(axis=1)])  # at a corner of the box, many would be the center itself
    if not points:
        return None, 0.0, -np.inf
    far = beliefs.expect(points)
    hoped = far.reward + OPTIMISM * far.reward_sd
    means, sds = far.of_f()
    worth = hoped + _CURIOSITY * np.minimum(sds.max(axis=0), _MOST_CURIOUS / _CURIOSITY)
    worth -= _FAR_PRICE * np.maximum(mean_of(means).max(axis=0) - _TOO_FAR, 0.0)
    order = np.argsort(-worth)
    order = order[far.added_at_least(of_center, SCOUTS / TRIAL_EPISODES)[order] <= room]
    for first in range(0, len(order), _AT_ONCE):
        chosen = order[first : first + _AT_ONCE]
        added = far.rows(chosen).added_to(of_center, SCOUTS / TRIAL_EPISODES)
        if (added <= room).any():
            j = int((added <= room).argmax())
            return points[chosen[j]], float(added[j]), float(hoped.max())
    return None, 0.0, float(hoped.max())


def _over(beliefs: Beliefs, hoped: float, *, is_known: bool) -> Done | None:
    """Return that the search is over, if nothing new was tried for long, or even the most hopeful earns no more."""
    best = recommend(beliefs)
    if best is not None and hoped - best.modeled <= GAIN:
        return Done(f"no target that may be tried can earn {GAIN:.0%} of the reward range more")
    last = [tried.asked for tried in beliefs.history.told if tried.asked.stage == "search"][-_PATIENCE:]
    known = [asked for asked in last if not asked.paid and len(asked.targets) == 1]
    if not is_known or len(known) < _PATIENCE or all(beliefs.sure):
        return None
    return Done(f"in {_PATIENCE} trials nothing new could be tried: what is left of delta pays for no further step")
