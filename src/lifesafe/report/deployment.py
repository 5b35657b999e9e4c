"""A deployment on a simulated system, and what came of it beside the plain choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from lifesafe.optimizer import Problem, Result, SafeOptimizer, Stage
from lifesafe.optimizer.journal import JOURNAL, read_events
from lifesafe.report.simulation import Choice, Simulation, judge, plain_choice


@dataclass(frozen=True)
class Outcome:
    """What a deployment came to; printing it gives a table."""

    recommended: Choice | None
    """The target to operate, judged by the true map; none if none is fit for it."""
    plain: Choice
    """The target (R_max, limit), which a user without the optimizer would ask for."""
    limit: float
    delta: float
    trials: int
    episodes: int
    violations: int
    """Trials at targets whose true mean cost exceeds the limit."""
    spent: float
    """Risk charged."""

    def to_plain(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("", "target (R, G)", "true reward", "of the best", "true mean cost", f"limit {self.limit:g}"),
            ("lifesafe", *_cells(self.recommended)),
            ("plain (R_max, limit)", *_cells(self.plain)),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        lines += [
            "",
            f"{self.trials} trials ({self.episodes:,} episodes), {self.violations} above the limit in truth; "
            f"risk spent {self.spent:.3f} of delta {self.delta:g}.",
        ]
        return "\n".join(lines)


def find_directory(path: Path, simulation: Simulation, problem: Problem) -> tuple[Path, bool]:
    """Return where the run goes, and whether an unfinished one is there to be resumed.

    That is the path itself or, where it holds a finished run or one with other settings, the next free name.

    Raises:
        JournalError: If a journal on the way is damaged.
    """
    for number in count(1):
        run = path if number == 1 else path.with_name(f"{path.name}-{number}")
        if not (run / JOURNAL).exists():
            return run, False
        if Simulation.read(run) == simulation and _is_unfinished(run, problem):
            return run, True
    raise AssertionError("count() has no end")


def deploy(simulation: Simulation, optimizer: SafeOptimizer, advance: Callable[[str, int], None]) -> None:
    """Run the optimizer to its end on a simulated system.

    Args:
        simulation: The system.
        optimizer: The optimizer, begun or resumed.
        advance: Called after each trial with a line that describes it, and the number of trials done.
    """
    advance("trial  stage     target (R, G)   mean cost / limit  risk left", len(optimizer.trials))
    while trial := optimizer.ask():
        optimizer.tell(trial, simulation.run(trial))
        done = optimizer.trials
        advance(_line(done[-1], optimizer), len(done))


def conclude(simulation: Simulation, optimizer: SafeOptimizer) -> Outcome:
    """Return what a deployment came to, by the true map."""
    world, best, results = simulation.map, optimizer.best, optimizer.trials
    return Outcome(
        recommended=judge(world, best.index) if best else None,
        plain=judge(world, plain_choice(world)),
        limit=simulation.limit,
        delta=optimizer.problem.delta,
        trials=len(results),
        episodes=sum(len(result.episodes) for result in results),
        violations=sum(not world.is_safe[result.trial.index] for result in results),
        spent=optimizer.spent,
    )


def _is_unfinished(run: Path, problem: Problem) -> bool:
    events = read_events(run / JOURNAL)
    if not events:  # stopped before its first event
        return True
    optimizer = SafeOptimizer.replay(events, str(run))
    return optimizer.problem.fingerprint == problem.fingerprint and optimizer.stage is not Stage.DONE


def _line(result: Result, optimizer: SafeOptimizer) -> str:
    trial, cost = result.trial, float(result.episodes[:, 1].mean())
    (limit,), delta = optimizer.problem.limits, optimizer.problem.delta
    target = f"({trial.target.reward:.0f}, {trial.target.costs[0]:.1f})"
    left = 1 - optimizer.spent / delta
    return f"{trial.number:5d}  {trial.stage.value:8}  {target:13}  {cost:9.1f} / {limit:<5g}  {left:9.0%}"


def _cells(choice: Choice | None) -> tuple[str, str, str, str, str]:
    if choice is None:
        return "none", "-", "-", "-", "-"
    target, returns = choice.target, choice.returns
    return (
        f"({target.reward:.0f}, {target.costs[0]:.1f})",
        f"{returns.reward:.0f}",
        f"{choice.share:.0%}",
        f"{returns.costs[0]:.1f}",
        "safe" if choice.is_safe else "BROKEN",
    )
