"""The run in two sentences, and whether it is good news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lifesafe.console.prompts import plural
from lifesafe.report.checks import all_checks
from lifesafe.report.promise import promise_name
from lifesafe.report.reading import Reading
from lifesafe.report.wording import listed, mean_text, number, percent
from lifesafe.safety import Recommendation

Tone = Literal["good", "plain", "warn", "bad"]


@dataclass(frozen=True)
class Badge:
    """A status in a few words."""

    name: str
    value: str
    tone: Tone


def headline(reading: Reading) -> str:
    """Return what came of the run and what it took, without markup."""
    return " ".join(filter(None, (result(reading), toll(reading), price(reading))))


def result(reading: Reading) -> str:
    """Return what came of the run in one sentence."""
    history, chosen, name = reading.history, reading.chosen, reading.name
    if not history.told:
        waiting = "a first trial is asked for and not yet told" if history.open else "no trial is told"
        return f"{name} has only just begun: {waiting}."
    if history.halted:
        done = f"{plural(history.served, 'episode')} of operation and {plural(reading.alarms, 'alarm')}"
        return f"{name} has halted after {done}, and no target is served any more."
    after = f" after {plural(reading.alarms, 'alarm')}" if reading.alarms else ""
    if history.serving is not None and chosen is None:
        served = reading.text(history.serving.target)
        return f"{name} is operated at target {served}{after}, which may not be served as things stand now."
    if chosen is None:
        done = "No target of" if reading.phase == "ended without a target" else "So far no target of"
        return f"{done} {name} is fit to be operated."
    verb = "is to be operated at" if reading.ended else "would be operated, as of now, at"
    verb = "is operated at" if history.serving is not None else verb
    return (
        f"{name} {verb} target {reading.text(chosen.point)}{after}: mean reward"
        f" {number(chosen.means[0])}, {costs_text(reading, chosen)} over {plural(chosen.episodes, 'episode')}."
    )


def toll(reading: Reading) -> str:
    """Return in one sentence how many real episodes it took, how many cost too much, and the worst of them."""
    tally = reading.tally
    if not tally.counted:
        return ""
    above = f"{tally.above:,} ({percent(tally.above / tally.counted)})" if tally.above else "none"
    worst = "the worst cost" if len(tally.worst) == 1 else "the largest costs were"
    return f"Of {counts(reading)}, {above} cost more than {reading.a_limit}; {worst} {listed(tally.worst)}."


def counts(reading: Reading) -> str:
    """Return how many real episodes there were, of what, and which of them count."""
    tally = reading.tally
    kinds = {"start": tally.start, "search": tally.search, "operation": tally.operation}
    told = f"{plural(tally.total, 'real episode')} ({', '.join(f'{n:,} {kind}' for kind, n in kinds.items() if n)})"
    if tally.counted == tally.total:
        return told
    return f"{tally.counted:,} episodes that count, of {told}, the others retracted"


def price(reading: Reading) -> str:
    """Return what else it took, in one sentence: risk, and episodes that the stop ended."""
    tally, parts = reading.tally, []
    if not tally.total:
        return ""
    if reading.exceeded:
        parts.append(f"{plural(len(reading.exceeded), 'trial')} had a mean clearly above a limit")
    if tally.ended is not None:
        parts.append(f"the stop ended {plural(tally.ended, 'episode') if tally.ended else 'no episode'}")
    if reading.charges:
        used, most = number(reading.beliefs.spent, 2), number(reading.problem.delta)
        parts.append(f"the search has used {used} of the allowed risk {most}")
    told = f"{listed(parts)}." if parts else ""
    return told[:1].upper() + told[1:]


def tone(reading: Reading) -> Tone:
    """Return how the headline is to be taken: like the worst of all badges."""
    found = [badge.tone for badge in badges(reading)]
    return "bad" if "bad" in found else "warn" if "warn" in found else found[0]


def badges(reading: Reading) -> list[Badge]:
    """Return the status of the run, of its record and of what watches it; the phase first."""
    journal: dict[bool | None, tuple[str, Tone]] = {
        True: ("verified, decisions replayed", "good"),
        False: ("chain whole, decisions differ", "bad"),
        None: ("chain whole, not replayed", "plain"),
    }
    found = [
        Badge("phase", reading.phase, _phase_tone(reading)),
        Badge("promise", promise_name(reading.problem), "plain"),
        Badge("journal", *journal[reading.replayed]),
    ]
    if reading.beliefs.held:
        found.append(Badge("search", "held until confirmed", "warn"))
    verdicts: tuple[tuple[str, str, Tone], ...] = (("failed", "failed", "bad"), ("doubt", "in doubt", "warn"))
    for finding, words, tone in verdicts:
        if topics := [check.topic for check in all_checks(reading) if check.finding == finding]:
            found.append(Badge(words, listed(topics), tone))
    if reading.exceeded:
        found.append(Badge("trials clearly above a limit", str(len(reading.exceeded)), "bad"))
    if reading.retracted:
        found.append(Badge("retracted", plural(len(reading.retracted), "trial"), "warn"))
    if reading.services:
        told = plural(reading.alarms, "alarm") if reading.alarms else "no alarm"
        found.append(Badge("watch", told, "warn" if reading.alarms else "good"))
    return found


def _phase_tone(reading: Reading) -> Tone:
    if reading.history.halted or reading.phase == "ended without a target":
        return "bad"
    settled = reading.history.serving is not None or reading.ended is not None
    if reading.chosen is None:
        return "warn" if settled else "plain"
    return "good" if settled else "plain"


def costs_text(reading: Reading, chosen: Recommendation) -> str:
    """Return the mean costs of a target with what the model expects at most, and the limits."""
    parts = zip(reading.names[1:], chosen.means[1:], chosen.expected, reading.problem.limits, strict=True)
    return listed(
        f"{mean_text(name, mean)} (limit {number(limit)}{f'; by the model at most {number(upper)}' if upper else ''})"
        for name, mean, upper, limit in parts
    )
