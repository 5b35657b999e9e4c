"""Where a search begins: which start is tried now, and when it has failed."""

from __future__ import annotations

from lifesafe.journal.events import Point
from lifesafe.safety.beliefs import Beliefs
from lifesafe.safety.ledger import FIRST_EPISODES

_DOUBTFUL, _FAILED = 0.5, 0.95  # risk at which a start is given up for the next one, and at which it is given up
_TWICE = 2 * FIRST_EPISODES  # episodes after which a start that is still in doubt is left for the next, if there is one


def current_start(beliefs: Beliefs) -> tuple[int, Point] | None:
    """Return the start that is tried now and how many were given up before it; none if all have failed.

    The first that was named comes first; of the others, the one that is least likely to exceed a limit.
    """
    starts = beliefs.problem.starts
    failed = [point for point in starts if _has_failed(beliefs, point, _DOUBTFUL)]
    if len(failed) == len(starts):  # nothing else to turn to
        doubtful = [point for point in failed if not _has_failed(beliefs, point, _FAILED)]
        return (len(starts) - 1, doubtful[-1]) if doubtful else None
    left = [point for point in starts if point not in failed]
    begun = [point for point in left if point in beliefs.own]
    if len(begun) == len(left):
        return len(failed), begun[-1]  # nothing else to turn to
    if begun and beliefs.own[begun[-1]].episodes < _TWICE:
        return len(failed), begun[-1]
    left = [point for point in left if point not in begun]
    if not failed and not begun:
        return 0, left[0]
    failed = [*failed, *begun]
    return len(failed), left[int(beliefs.expect(left).risks().argmin())]


def why_none_is_left(beliefs: Beliefs) -> str:
    """Return a message that says how all starts have failed."""
    limits = ", ".join(f"{limit:g}" for limit in beliefs.problem.limits)
    shown = [
        f"{beliefs.problem.target(point)} cost {', '.join(f'{x:.3g}' for x in beliefs.own[point].means[1:])} on average"
        for point in beliefs.problem.starts
        if point in beliefs.own
    ]
    found = "; ".join(shown[:3]) + ("; ..." if len(shown) > 3 else "")
    return (
        f"No start can be trusted to keep the limit {limits}: {found}."
        " Give starts that cost less, train the policy longer, or raise the limit."
    )


def _has_failed(beliefs: Beliefs, point: Point, risk: float) -> bool:
    own = beliefs.own.get(point)
    if own is None or own.episodes < FIRST_EPISODES:
        return False
    if point in beliefs.withdrawn:
        return True
    return bool(beliefs.expect([point]).risks()[0] >= risk)
