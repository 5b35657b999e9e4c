"""What a report says of a run in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from lifesafe.report.history import History, Moment
from lifesafe.theory.simulators import SimulatedMap


def guarantee(history: History) -> str:
    """Return what is promised about a run and what the promise rests on, in words."""
    problem, schedule = history.problem, history.schedule
    limit = "the limit" if len(problem.limits) == 1 else "a limit"
    if schedule.risk == "fixed":
        return (
            f"No guarantee: the fixed schedule uses {schedule.multiplier:g} standard deviations, whatever "
            "delta is, and bounds no probability."
        )
    seeds = {
        "score": "certified by their own episodes",
        "betting": "certified by an anytime-valid test of their own episodes",
        "asserted": "as you assert",
    }[schedule.certification]
    return (
        f"Guarantee: with probability at least {1 - problem.delta:g}, no target that is tried breaks "
        f"{limit}. It speaks of the mean cost, not of a single episode, and assumes that (1) each return, as "
        "a function of the target, is a draw from the Gaussian process stated in the problem, (2) the seeds "
        "are safe, "
        f"{seeds}, and (3) mean returns do not change during the run."
    )


def checks(history: History, truth: SimulatedMap | None = None) -> str:
    """Return what the run itself says about the assumptions."""
    moments = history.moments
    bands = [f"{part.name} bands {part.verdict}" for part in history.calibration.returns]
    held = {
        "surprises": "the search is frozen by surprises",
        "violation": "the search is held up by a violation",
        None: "nothing holds up the search",
    }[history.state.held_by]
    if history.is_stranded:
        held = "the search has ended, since no seed is left"
    shown = sum(m.result.violated for m in moments)
    text = f"Checked on this run: {', '.join(bands)} (e); {held}; {shown} of {len(moments)} trials show a violation"
    if truth is None:
        return f"{text}."
    real = sum(truth.cost.flat[m.result.trial.index] > m.limits[0] for m in moments)
    return f"{text}, {real} had one in truth."


def outside_the_safe_set(moments: Iterable[Moment]) -> str:
    """Return why the target to operate may be none to try, if that is so at some of these moments; else nothing."""
    if all(m.best is None or m.safe[m.best.index] for m in moments):
        return ""
    return (
        "The star can lie outside the safe set, which is what may be tried next with the risk that is left. A target"
        " to operate has been tried: it needs a small risk and a certificate by its own episodes."
    )


def settings(history: History, truth: SimulatedMap | None = None) -> str:
    """Return the size and the settings of a run."""
    problem, episodes = history.problem, sum(len(m.result.episodes) for m in history.moments)
    limits = "limit " if len(problem.limits) == 1 else "limits "
    limits += " and ".join(f"{b:g}" for b in problem.limits)
    system = "Simulated system; " if truth is not None else ""
    return (
        f"{system}{len(history.moments)} trials, {episodes:,} episodes, {len(problem.candidates):,} "
        f"candidates, {limits}, delta {problem.delta:g}, {history.schedule.risk} schedule, problem "
        f"{problem.fingerprint[:8]}."
    )
