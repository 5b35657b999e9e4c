"""Other limits for a search: where it begins under lower ones."""

from __future__ import annotations

from collections.abc import Sequence

from lifesafe.errors import NoSafeTargetError
from lifesafe.operation import use
from lifesafe.safety import Recommendation, SafeOptimizer
from lifesafe.safety.problem import Target


def change_limits(optimizer: SafeOptimizer, limits: Sequence[float], starts: Sequence[Target] | None = None) -> None:
    """Change the limits of a search. Under lower ones it begins from what its trials have shown, or from named starts.

    With the promise "trial" such a target pays before it runs; with "total" it is a start, which the account books.

    Raises:
        NoSafeTargetError: If no target that was tried is known to keep the lower limits, and none is named.
        ConfigError: If the limits are impossible.
        TrialError: If a trial is open.
    """
    problem = optimizer.problem
    changed = problem.with_limits(limits)  # refuses impossible ones
    if starts is None and any(new < old for new, old in zip(changed.limits, problem.limits, strict=True)):
        known = starts_under(optimizer, changed.limits)
        starts = known if problem.promise == "total" else None
    optimizer.change_limits(changed.limits, starts)


def starts_under(optimizer: SafeOptimizer, limits: Sequence[float]) -> list[Target]:
    """Return the targets that are known to keep lower limits, those with the most room first.

    Raises:
        NoSafeTargetError: If there is no such target.
    """

    def room(target: Recommendation) -> float:
        return use(target, limits)

    known = sorted(optimizer.fit, key=room)
    starts = [target.target for target in known if room(target) <= 1]
    if not starts:
        cheapest = f"; the cheapest may use {room(known[0]):.0%} of them" if known else ""
        raise NoSafeTargetError(
            f"None of the {len(optimizer.trials)} trials shows a target that keeps the lower limits"
            f" {', '.join(f'{limit:g}' for limit in limits)}{cheapest}. Begin a run with these limits."
        )
    return starts
