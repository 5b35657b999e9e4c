"""The run in one sentence, and whether it is good news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lifesafe.optimizer import Recommendation, Stage
from lifesafe.report.page.checks import Finding, all_checks
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.wording import listed, mean_text, number, plural, target_text
from lifesafe.returns import Returns

Tone = Literal["good", "plain", "warn", "bad"]


@dataclass(frozen=True)
class Badge:
    """A status in a few words."""

    name: str
    value: str
    tone: Tone


def headline(reading: Reading) -> str:
    """Return what came of the run in one sentence, without markup."""
    moments = reading.history.moments
    if not moments:
        waiting = " a first trial is asked for and not yet told." if reading.open_trials else " no trial is told."
        return f"{reading.name} has only just begun:{waiting}"
    return f"{_operated(reading)}; {_trials(reading)}."


def tone(reading: Reading) -> Tone:
    """Return how the headline is to be taken."""
    if reading.operated.halted or reading.phase == "ended without a target" or reading.replayed is False:
        return "bad"
    if reading.operated.alarms or reading.violations or reading.state.held_by:
        return "warn"
    if reading.operated.serving is not None and reading.chosen is None:
        return "warn"
    if reading.history.schedule.risk == "fixed" or _found(reading, "doubt") or _found(reading, "failed"):
        return "warn"
    settled = reading.operated.serving is not None or reading.stage is Stage.DONE
    return "good" if settled and reading.chosen is not None else "plain"


def badges(reading: Reading) -> list[Badge]:
    """Return the status of the run, of its record and of what watches it."""
    found = [Badge("phase", reading.phase, tone(reading) if reading.history.moments else "plain")]
    journal = {
        True: ("verified, decisions replayed", "good"),
        False: ("chain whole, decisions differ", "bad"),
        None: ("chain whole, not replayed", "plain"),
    }
    words, kind = journal[reading.replayed]
    found.append(Badge("journal", words, kind))  # type: ignore[arg-type]
    if reading.history.schedule.risk == "fixed":
        found.append(Badge("guarantee", "none: fixed schedule", "bad"))
    if reading.state.held_by:
        held = {"surprises": "frozen by surprises", "violation": "held up by a violation"}[reading.state.held_by]
        found.append(Badge("search", held, "warn"))
    failed, doubted = _found(reading, "failed"), _found(reading, "doubt")
    if failed:
        found.append(Badge("assumptions", f"{failed} failed", "bad"))
    if doubted:
        found.append(Badge("assumptions", f"{doubted} in doubt", "warn"))
    if reading.violations:
        found.append(Badge("violations", str(reading.violations), "bad"))
    if reading.operated.servings:
        alarms = len(reading.operated.alarms)
        found.append(Badge("monitor", plural(alarms, "alarm") if alarms else "no alarm", "warn" if alarms else "good"))
    if reading.truth is not None:
        found.append(Badge("system", "simulated", "plain"))
    return found


def bounds_text(reading: Reading, chosen: Recommendation) -> str:
    """Return the mean costs of a target with their upper bounds and limits."""
    parts = zip(reading.problem.names[1:], chosen.means.costs, chosen.cost_upper, reading.problem.limits, strict=True)
    return listed(f"{mean_text(n, mean)} (at most {number(up)}, limit {number(b)})" for n, mean, up, b in parts)


def _found(reading: Reading, finding: Finding) -> int:
    return sum(check.finding == finding for check in all_checks(reading))


def _operated(reading: Reading) -> str:
    operated, chosen, name = reading.operated, reading.chosen, reading.name
    if operated.halted:
        done = f"{plural(operated.episodes, 'episode')} of operation and {plural(len(operated.alarms), 'alarm')}"
        return f"{name} has halted after {done}, and no target is served any more"
    after = f" after {plural(len(operated.alarms), 'alarm')}" if operated.alarms else ""
    if operated.serving is not None and chosen is None:
        reward, *costs = operated.serving.target
        served = target_text(Returns(reward, costs))
        return f"{name} is operated at target {served}{after}, which is not certified as things stand now"
    if chosen is None:
        done = "No target of" if reading.phase == "ended without a target" else "So far no target of"
        return f"{done} {name} is fit to be operated"
    verb = "is to be operated at" if reading.stage is Stage.DONE else "would be operated, as of now, at"
    if operated.serving is not None:
        verb = "is operated at"
    return (
        f"{name} {verb} target {target_text(chosen.target)}{after}: mean reward {number(chosen.means.reward)}, "
        f"{bounds_text(reading, chosen)} over {plural(chosen.episodes, 'episode')}"
    )


def _trials(reading: Reading) -> str:
    shown = f"{reading.violations} of {plural(len(reading.history.moments), 'trial')} show a violation"
    if reading.history.schedule.risk == "ledger":
        return f"{shown}, and {number(reading.spent, 2)} of the allowed risk {number(reading.problem.delta)} is spent"
    if reading.history.schedule.risk == "fixed":
        return f"{shown}, and the fixed schedule gives no guarantee"
    return f"{shown}, under the paper's union bound at delta {number(reading.problem.delta)}"
