"""How many episodes of a start, all without cost, let a search leave it; and that there are enough of them."""

from __future__ import annotations

import itertools

from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.journal import events as e
from lifesafe.journal.history import History
from lifesafe.journal.store import Record
from lifesafe.safety import choice, newcomers
from lifesafe.safety.beliefs import Beliefs, Books, step
from lifesafe.safety.choice import Choice
from lifesafe.safety.problem import Problem


def start_episodes(problem: Problem) -> int | None:
    """Return the episodes that certify a start if none of them costs anything; none if the search has too few of them.

    The search itself is asked, with starts that never cost anything. 0 where every single episode keeps the limits.
    """
    history, books, rewards = History(), Books(problem), problem.rewards
    assert rewards is not None

    numbers = itertools.count(1)

    def happens(event: e.Event) -> None:
        step(Record(next(numbers), event, "now", ""), history, books, problem)

    happens(e.Opened(problem=problem.to_plain(), version=""))
    rule = newcomers.choose if problem.promise == "total" and not all(problem.sure) else choice.choose
    while True:
        try:
            found = rule(Beliefs(problem, history, books.account))
        except NoSafeTargetError:
            return None
        if not isinstance(found, Choice) or found.stage != "start":
            return history.searched if isinstance(found, Choice) else None
        number, drawn = len(history.trials) + 1, found.lottery
        asked = {"targets": drawn.targets, "tickets": drawn.draws, "paid": found.paid, "forecasts": found.forecasts}
        happens(e.Asked(trial=number, stage="start", charge=found.charge, allowance=found.allowance, **asked))  # type: ignore[arg-type]
        episode = (rewards[0], *(0.0 for _ in problem.limits))
        happens(e.Told(trial=number, episodes=(episode,) * len(drawn.tickets)))


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
