"""How many episodes of a start, all without cost, let a search leave it; and that there are enough of them."""

from __future__ import annotations

from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.returns import Returns
from lifesafe.safety.problem import Problem
from lifesafe.safety.search import SafeOptimizer


def start_episodes(problem: Problem) -> int | None:
    """Return the episodes that certify a start if none of them costs anything; none if the search has too few of them.

    The search itself is asked, with starts that never cost anything. 0 where every single episode keeps the limits.
    """
    assert problem.rewards is not None
    free, search = Returns(problem.rewards[0], [0.0] * len(problem.limits)), SafeOptimizer(problem)
    try:
        while (trial := search.ask()) is not None and trial.stage == "start":
            search.tell(trial, [free] * trial.episodes)
    except NoSafeTargetError:
        return None
    return None if trial is None else search.beliefs.searched


def check_start(problem: Problem) -> None:
    """Refuse a problem whose start cannot be certified within its episodes, even if no episode costs anything.

    Raises:
        ConfigError: With the reason, and the way out.
    """
    if start_episodes(problem) is not None:
        return
    words = ", ".join(f"{2 * limit:g}" for limit in problem.limits)
    ways = {
        "total": "Give a lower stop_at or more episodes.",
        "trial": f'Give more episodes, a larger delta, or stop_at = {words} with promise = "total".',
    }
    raise ConfigError(
        f"With episodes = {problem.episodes} and delta = {problem.delta:g} the search could never leave its start: a"
        f" cost of {', '.join(f'{lump:g}' for lump in problem.lumps)} can come at once, and so few episodes cannot rule"
        f" that out even if none of them costs anything. {ways[problem.promise]}"
    )
