"""What to try next under the promise "total": whom the account can pay for, and whom to put to the test.

The account alone keeps the promise, so proposals may be anywhere in the box. A *newcomer* runs an episode only when the
account can pay for its worst; otherwise the *base* is served, the cheapest target that is certified. The process only
proposes. A promising newcomer is put to the test: a bet on its own episodes from then on, until it is certified or no
longer worth it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from lifesafe._random import generator
from lifesafe.errors import NoSafeTargetError
from lifesafe.journal.events import Point
from lifesafe.safety.account import Account
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.betting import Bet, clean_episodes
from lifesafe.safety.choice import CANDIDATES, OPTIMISM, Choice, Done, forecasts
from lifesafe.safety.ledger import EPISODES, FIRST_EPISODES
from lifesafe.safety.lottery import lottery
from lifesafe.safety.start import current_start, why_none_is_left

TRIES = 6
"""Episodes that a proposal gets before the next is made."""
_NEAR = 0.1  # to a tried target, along every axis; half of the proposals are
_PROPOSALS = 3  # before the most promising is put to the test
_SHARE = 0.87  # of the limit that a proposal should keep, so that it can be certified before long
_HOPELESS = 0.5  # probability of keeping the limit below which a test is given up
_GAIN = 0.01  # of the reward range: less than this is nothing to go on for


def choose(beliefs: Beliefs) -> Choice | Done:
    """Return the next trial under the promise "total", or why there is none.

    Raises:
        NoSafeTargetError: If every start has failed.
    """
    left = beliefs.problem.episodes - beliefs.searched
    if left <= 0:
        return Done(f"the {beliefs.problem.episodes} episodes are used up")
    if not beliefs.certified:
        return _start(beliefs, left)
    assert beliefs.account is not None
    newcomer = _newcomer(beliefs)
    if isinstance(newcomer, Done):
        return newcomer
    stage, point, wanted = newcomer
    count = min(beliefs.account.affords, wanted, left)
    if count == 0:
        base = _base(beliefs)
        return _of("base", beliefs, base, min(_until_affordable(beliefs, beliefs.account, base), left))
    return _of(stage, beliefs, point, count)


def _start(beliefs: Beliefs, left: int) -> Choice:
    found = current_start(beliefs)
    if found is None:
        raise NoSafeTargetError(why_none_is_left(beliefs))
    point = found[1]
    bet = beliefs.bets.get(point)
    if bet is not None:
        return _of("start", beliefs, point, min(EPISODES, left))
    level = Bet.start(beliefs.problem.limits, beliefs.bounds, beliefs.problem.delta / 4).level
    pairs = zip(beliefs.problem.limits, beliefs.bounds, strict=True)
    needed = max(clean_episodes(limit, bound, level) for limit, bound in pairs)
    return _of("start", beliefs, point, min(max(needed, EPISODES), FIRST_EPISODES, left))


def _newcomer(beliefs: Beliefs) -> tuple[str, Point, int] | Done:
    """Return the stage, the target and the episodes that it should get: under test, under way, or proposed anew."""
    tested = [point for point, bet in beliefs.bets.items() if not bet.certified and _is_hopeful(beliefs, point)]
    if tested:
        return "test", tested[-1], EPISODES
    proposals = _proposals(beliefs)
    if proposals:
        point, had = next(reversed(proposals.items()))
        if had < TRIES and _is_hopeful(beliefs, point):
            return "newcomer", point, TRIES - had
    since = _since_test(beliefs)
    if len(since) >= _PROPOSALS and (promising := _most_promising(beliefs)) is not None:
        return "test", promising, EPISODES
    found = _propose(beliefs)
    if isinstance(found, Done) and (promising := _most_promising(beliefs, _GAIN)) is not None:
        return "test", promising, EPISODES  # nothing else is worth a look: what was seen is worth a certificate
    return found


def _proposals(beliefs: Beliefs) -> dict[Point, int]:
    """Return the newcomers so far, in order, with the episodes that each had."""
    found: dict[Point, int] = {}
    for tried in beliefs.history.told:
        if tried.asked.stage == "newcomer":
            found[tried.center] = found.get(tried.center, 0) + tried.was_told
    return found


def _since_test(beliefs: Beliefs) -> set[Point]:
    """Return the newcomers that were proposed since the last test."""
    found: set[Point] = set()
    for tried in beliefs.history.told:
        if tried.asked.stage == "test":
            found.clear()
        elif tried.asked.stage == "newcomer":
            found.add(tried.center)
    return found


def _most_promising(beliefs: Beliefs, least: float = 0.0) -> Point | None:
    """Return the newcomer that is most worth a certificate; none if none is worth more than this."""
    points = [point for point in _proposals(beliefs) if point not in beliefs.bets and _is_hopeful(beliefs, point)]
    if not points:
        return None
    worth = _worth(beliefs, points, optimism=0.0)
    return points[int(worth.argmax())] if worth.max() > least else None


def _propose(beliefs: Beliefs) -> tuple[str, Point, int] | Done:
    """Return the target that may earn most more than what is certified, weighed by how likely it keeps the limits."""
    problem = beliefs.problem
    rng = generator(problem.seed, "proposals", len(beliefs.history.trials) + 1)
    if problem.targets is not None:
        known = beliefs.bets.keys() | _proposals(beliefs)
        points = [point for point in problem.targets if point not in known]
    else:
        X = problem.scaled(beliefs.tried)
        anywhere = rng.random((CANDIDATES, len(problem.names)))
        near = X[rng.integers(len(X), size=CANDIDATES)] + rng.uniform(-_NEAR, _NEAR, (CANDIDATES, len(problem.names)))
        points = [problem.raw(z) for z in np.clip(np.concatenate([anywhere, near]), 0.0, 1.0)]
    if not points:
        return Done("every target had its episodes")
    worth = _worth(beliefs, points, optimism=OPTIMISM)
    i = int(worth.argmax())
    if worth[i] < _GAIN:
        return Done("no target is likely to earn more and to keep the limits")
    return "newcomer", points[i], TRIES


def _worth(beliefs: Beliefs, points: Sequence[Point], optimism: float) -> Float[np.ndarray, " m"]:
    """Return how much more than the best certified target each may earn, times the chance that it can be certified."""
    found, best = beliefs.expect(points), beliefs.expect(tuple(beliefs.certified)).reward.max()
    gain = np.maximum(found.reward + optimism * found.reward_sd - best, 0.0)
    return np.asarray(gain * (1 - found.risks(_SHARE)))


def _is_hopeful(beliefs: Beliefs, point: Point) -> bool:
    """Whether a newcomer may still earn more than what is certified, and keep the limits."""
    keeps = 1 - float(beliefs.expect([point]).risks()[0])
    return keeps > _HOPELESS and float(_worth(beliefs, [point], OPTIMISM)[0]) > 0


def _base(beliefs: Beliefs) -> Point:
    """Return the certified target that saves most: of its largest mean cost in limits, the least."""
    limits = np.array(beliefs.problem.limits)
    return min(sorted(beliefs.certified), key=lambda point: float((beliefs.own[point].means[1:] / limits).max()))


def _until_affordable(beliefs: Beliefs, account: Account, base: Point) -> int:
    """Return how many episodes of the base should save enough for one episode of a newcomer."""
    saving = np.array(beliefs.problem.limits) - beliefs.own[base].means[1:]
    return max(1, min(EPISODES, math.ceil(account.missing(tuple(saving.tolist())))))


def _of(stage: str, beliefs: Beliefs, point: Point, count: int) -> Choice:
    return Choice(stage, lottery(point, count), 0.0, 0.0, (), forecasts(beliefs, (point,)))
