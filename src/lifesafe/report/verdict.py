"""The run in one sentence, and whether it is good news."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lifesafe.report.checks import Finding, all_checks
from lifesafe.report.promise import promise_name
from lifesafe.report.reading import Reading
from lifesafe.report.wording import listed, mean_text, number, percent, plural
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
    return " ".join(filter(None, (result(reading), price(reading))))


def result(reading: Reading) -> str:
    """Return what came of the run in one sentence."""
    if not reading.history.told:
        waiting = "a first trial is asked for and not yet told" if reading.history.open else "no trial is told"
        return f"{reading.name} has only just begun: {waiting}."
    return f"{_operated(reading)}."


def price(reading: Reading) -> str:
    """Return what it took in one sentence: the promise, the episodes, the worst of them, and what was charged."""
    problem, tally = reading.problem, reading.tally
    if not tally.total:
        return ""
    took = f"Under the promise “{promise_name(reading)}” it took {plural(tally.total, 'real episode')}"
    took += f", {tally.operation:,} of them in operation" if tally.operation else ""
    parts = list(_episodes(reading)) if tally.counted else []
    if reading.exceeded:
        parts.append(f"{plural(len(reading.exceeded), 'trial')} had a mean clearly above a limit")
    if problem.promise == "trial" and not all(problem.sure):
        charged = number(reading.beliefs.spent, 2)
        parts.append(f"{charged} of the allowed risk {number(problem.delta)} is charged")
    *most, last = parts or [""]
    return f"{took}: {', '.join(most)}, and {last}." if most else f"{took}{': ' if last else ''}{last}."


def _episodes(reading: Reading) -> Iterator[str]:
    """Return how the episodes ended."""
    tally = reading.tally
    limit = "the limit" if len(reading.problem.limits) == 1 and not reading.limit_changes else "a limit"
    count = f"{tally.above:,} ({percent(tally.above / tally.counted)})" if tally.above else "none"
    yield f"{count} cost more than {limit}"
    largest = listed(number(each) for each in tally.largest)
    yield f"the worst cost {largest}" if len(tally.largest) == 1 else f"the largest costs were {largest}"
    if tally.ended is not None:
        yield f"the stop ended {tally.ended:,}" if tally.ended else "the stop ended none"


def tone(reading: Reading) -> Tone:
    """Return how the headline is to be taken."""
    if reading.history.halted or reading.phase == "ended without a target" or reading.replayed is False:
        return "bad"
    if _alarms(reading) or reading.exceeded or reading.beliefs.held or reading.beliefs.breaches:
        return "warn"
    if reading.history.serving is not None and reading.chosen is None:
        return "warn"
    if _found(reading, "doubt") or _found(reading, "failed"):
        return "warn"
    settled = reading.history.serving is not None or reading.ended is not None
    return "good" if settled and reading.chosen is not None else "plain"


def badges(reading: Reading) -> list[Badge]:
    """Return the status of the run, of its record and of what watches it."""
    journal: dict[bool | None, tuple[str, Tone]] = {
        True: ("verified, decisions replayed", "good"),
        False: ("chain whole, decisions differ", "bad"),
        None: ("chain whole, not replayed", "plain"),
    }
    found = [
        Badge("phase", reading.phase, tone(reading)),
        Badge("promise", promise_name(reading), "plain"),
        Badge("journal", *journal[reading.replayed]),
    ]
    if reading.beliefs.held:
        found.append(Badge("search", "held until confirmed", "warn"))
    failed, doubted = _found(reading, "failed"), _found(reading, "doubt")
    if failed:
        found.append(Badge("assumptions", f"{failed} failed", "bad"))
    if doubted:
        found.append(Badge("assumptions", f"{doubted} in doubt", "warn"))
    if reading.exceeded:
        found.append(Badge("trials clearly above a limit", str(len(reading.exceeded)), "bad"))
    if reading.retracted:
        found.append(Badge("retracted", plural(len(reading.retracted), "trial"), "warn"))
    if reading.services:
        alarms = _alarms(reading)
        found.append(Badge("watch", plural(alarms, "alarm") if alarms else "no alarm", "warn" if alarms else "good"))
    return found


def costs_text(reading: Reading, chosen: Recommendation) -> str:
    """Return the mean costs of a target with what the model expects at most, and the limits."""
    parts = zip(reading.names[1:], chosen.means[1:], chosen.expected, reading.problem.limits, strict=True)
    return listed(f"{mean_text(n, mean)} (limit {number(b)}{_expected(up)})" for n, mean, up, b in parts)


def _expected(upper: float) -> str:
    return f"; by the model at most {number(upper)}" if upper else ""


def _found(reading: Reading, finding: Finding) -> int:
    return sum(check.finding == finding for check in all_checks(reading))


def _alarms(reading: Reading) -> int:
    return sum(each.alarm is not None for each in reading.services)


def _operated(reading: Reading) -> str:
    history, chosen, name, alarms = reading.history, reading.chosen, reading.name, _alarms(reading)
    if history.halted:
        done = f"{plural(history.served, 'episode')} of operation and {plural(alarms, 'alarm')}"
        return f"{name} has halted after {done}, and no target is served any more"
    after = f" after {plural(alarms, 'alarm')}" if alarms else ""
    if history.serving is not None and chosen is None:
        served = reading.text(history.serving.target)
        return f"{name} is operated at target {served}{after}, which may not be served as things stand now"
    if chosen is None:
        done = "No target of" if reading.phase == "ended without a target" else "So far no target of"
        return f"{done} {name} is fit to be operated"
    verb = "is to be operated at" if reading.ended else "would be operated, as of now, at"
    if history.serving is not None:
        verb = "is operated at"
    return (
        f"{name} {verb} target {reading.text(chosen.point)}{after}: mean reward"
        f" {number(chosen.means[0])}, {costs_text(reading, chosen)} over {plural(chosen.episodes, 'episode')}"
    )
