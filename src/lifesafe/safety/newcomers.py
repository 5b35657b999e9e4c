"""What to try next under the promise "total": whom the account can pay for, and whom to put to the test.

The account alone keeps the promise, so proposals may be anywhere in the box. A *newcomer* runs an episode only when the
account can pay for its worst; otherwise the *base* is served, the cheapest target that is certified. The process only
proposes. A promising newcomer is put to the test: a bet on its own episodes from then on, until it is certified or no
longer worth it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from lifesafe._random import generator
from lifesafe.errors import NoSafeTargetError
from lifesafe.journal.events import Point
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.betting import clean_episodes
from lifesafe.safety.choice import CANDIDATES, GAIN, OPTIMISM, Choice, Done, trial
from lifesafe.safety.ledger import FIRST_EPISODES, TRIAL_EPISODES
from lifesafe.safety.start import current_start, why_none_is_left

TRIES = 6
"""Episodes that a proposal gets before the next is made."""
_NEAR = 0.1  # to a tried target, along every axis; half of the proposals are
_PROPOSALS = 3  # before the most promising is put to the test
_SHARE = 0.87  # of the limit that a proposal should keep, so that it can be certified before long
_HOPELESS = 0.5  # probability of keeping the limit below which a test is given up


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
    newcomer = _newcomer(beliefs)
    if isinstance(newcomer, Done):
        return newcomer
    stage, point, wanted = newcomer
    assert beliefs.account is not None
    count = min(beliefs.account.affords, wanted, left)
    if count > 0:
        return trial(beliefs, stage, point, count)
    # The base is the certified target that saves most, and runs until it should have saved enough for one episode.
    limits = np.array(beliefs.problem.limits)
    means = {point: beliefs.own[point].means[1:] for point in sorted(beliefs.certified)}
    base = min(means, key=lambda point: float((means[point] / limits).max()))
    missing = math.ceil(beliefs.account.missing(tuple((limits - means[base]).tolist())))
    return trial(beliefs, "base", base, min(max(1, min(TRIAL_EPISODES, missing)), left))


def _start(beliefs: Beliefs, left: int) -> Choice:
    """Try a start until it is certified: at first for as many episodes as certify it if none costs anything."""
    found = current_start(beliefs)
    if found is None:
        raise NoSafeTargetError(why_none_is_left(beliefs))
    count, point = TRIAL_EPISODES, found[1]
    if point not in beliefs.bets:
        pairs = zip(beliefs.problem.limits, beliefs.bounds, strict=True)
        needed = max(clean_episodes(limit, bound, beliefs.problem.delta / 4) for limit, bound in pairs)
        count = min(max(needed, TRIAL_EPISODES), FIRST_EPISODES)
    return trial(beliefs, "start", point, min(count, left))


def _newcomer(beliefs: Beliefs) -> tuple[str, Point, int] | Done:
    """Return the stage, the target and the episodes that it should get: under test, under way, or proposed anew."""
    tested = [point for point, bet in beliefs.bets.items() if not bet.certified and _is_hopeful(beliefs, point)]
    if tested:
        return "test", tested[-1], TRIAL_EPISODES
    had, since_test = _proposals(beliefs)
    if had:
        point, count = next(reversed(had.items()))
        if count < TRIES and _is_hopeful(beliefs, point):
            return "newcomer", point, TRIES - count
    if len(since_test) >= _PROPOSALS and (promising := _most_promising(beliefs, had, 0.0)) is not None:
        return "test", promising, TRIAL_EPISODES
    found = _propose(beliefs, had)
    if isinstance(found, Done) and (promising := _most_promising(beliefs, had, GAIN)) is not None:
        return "test", promising, TRIAL_EPISODES  # nothing else is worth a look: what was seen is worth a certificate
    return found


def _proposals(beliefs: Beliefs) -> tuple[dict[Point, int], set[Point]]:
    """Return the newcomers so far, in order, with the episodes that each had; and those since the last test."""
    had: dict[Point, int] = {}
    since_test: set[Point] = set()
    for tried in beliefs.history.told:
        if tried.asked.stage == "newcomer":
            had[tried.center] = had.get(tried.center, 0) + tried.was_told
            since_test.add(tried.center)
        elif tried.asked.stage == "test":
            since_test.clear()
    return had, since_test


def _most_promising(beliefs: Beliefs, proposed: Iterable[Point], least: float) -> Point | None:
    """Return the newcomer that is most worth a certificate; none if none is worth more than this."""
    points = [point for point in proposed if point not in beliefs.bets and _is_hopeful(beliefs, point)]
    if not points:
        return None
    worth = _worth(beliefs, points, optimism=0.0)
    return points[int(worth.argmax())] if worth.max() > least else None


def _propose(beliefs: Beliefs, proposed: Iterable[Point]) -> tuple[str, Point, int] | Done:
    """Return the target that may earn most more than what is certified, weighed by how likely it keeps the limits."""
    problem, points = beliefs.problem, beliefs.problem.targets
    if points is not None:
        known = {*beliefs.bets, *proposed}
        points = tuple(point for point in points if point not in known)
    else:
        rng, X = generator(problem.seed, "proposals", len(beliefs.history.trials) + 1), problem.scaled(beliefs.tried)
        anywhere = rng.random((CANDIDATES, len(problem.names)))
        near = X[rng.integers(len(X), size=CANDIDATES)] + rng.uniform(-_NEAR, _NEAR, (CANDIDATES, len(problem.names)))
        points = problem.raw(np.clip(np.concatenate([anywhere, near]), 0.0, 1.0))
    if not points:
        return Done("every target had its episodes")
    worth = _worth(beliefs, points, optimism=OPTIMISM)
    i = int(worth.argmax())
    if worth[i] < GAIN:
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
