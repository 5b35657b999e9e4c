"""What the promise assumes, which check of it this run made, and how that came out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lifesafe.report.forecasts import is_doubtful, outcomes
from lifesafe.report.promise import lump_words
from lifesafe.report.reading import Reading
from lifesafe.report.wording import listed, mean_text, number, plural

Finding = Literal["holds", "quiet", "doubt", "failed", "open", "given"]
WORDS: dict[Finding, str] = {
    "holds": "checked, holds",
    "quiet": "nothing against it",
    "doubt": "in doubt",
    "failed": "failed",
    "open": "not checked yet",
    "given": "rests on your word",
}
"""What a finding is called on the page. No check can show that a model is right or that nothing ever changes: then
"quiet" is the best there is."""


@dataclass(frozen=True)
class Check:
    """One assumption and what became of it."""

    assumption: str
    made: str
    """Which check was made."""
    finding: Finding
    outcome: str


@lru_cache(maxsize=1)  # the top of the page asks for them too
def all_checks(reading: Reading) -> tuple[Check, ...]:
    """Return every assumption of the promise with its check."""
    if all(reading.problem.sure):
        return (_lumps(reading),)
    own = (_account(reading), _certificates(reading)) if reading.problem.promise == "total" else (_model(reading),)
    return (_lumps(reading), *own, _starts(reading), _change(reading))


def _lumps(reading: Reading) -> Check:
    problem, tally = reading.problem, reading.tally
    words = lump_words(problem)
    assumption = f"{words[0].upper()}{words[1:]}."
    made = "The cost of every episode is compared with that."
    if not tally.counted:
        return Check(assumption, made, "open", "No episode yet.")
    parts = zip(reading.names[1:], tally.largest, tally.where, strict=True)
    worst = listed(f"{name} {number(cost)} ({where})" for name, cost, where in parts)
    outcome = f"Largest of {plural(tally.counted, 'episode')}: {worst}."
    if tally.ended is not None:
        outcome += f" The stop has ended {plural(tally.ended, 'episode')}."
    if reading.beliefs.breaches:
        found = "; ".join(what for _, what in reading.beliefs.breaches)
        return Check(assumption, made, "failed", f"{found[0].upper()}{found[1:]}. {outcome}")
    assumed = problem.stop_at is None and problem.incident != "horizon"
    return Check(assumption, made, "quiet" if assumed else "holds", outcome)


def _model(reading: Reading) -> Check:
    assumption = (
        "Each mean cost, as a function of the target, is a draw from the stated processes, and episodes scatter around"
        " it as stated."
    )
    made = (
        "Every target is forecast before its episodes are run (section 6). A trial whose mean cost is clearly above a"
        " limit holds the search."
    )
    parts = {name: outcomes(reading, axis) for axis, name in enumerate(reading.names)}
    if not parts[reading.names[0]]:
        return Check(assumption, made, "open", "No trial yet.")
    told = [f"{sum(o.is_surprise for o in found)} of {len(found)} for {name}" for name, found in parts.items()]
    outcome = f"Outcomes clearly beyond their forecast: {listed(told)}."
    if reading.exceeded:
        return Check(assumption, made, "failed", f"Clearly above a limit: {'; '.join(reading.exceeded)}. {outcome}")
    doubtful = any(is_doubtful(found) for found in list(parts.values())[1:])
    return Check(assumption, made, "doubt" if doubtful or reading.history.confirmed else "quiet", outcome)


def _account(reading: Reading) -> Check:
    assumption = "A newcomer runs only while the account can pay for its worst episode."
    made = "The account is computed again from every recorded episode."
    lowest = [float(part.holds.min()) for part in reading.saved if part.is_newcomer]
    if not lowest:
        return Check(assumption, made, "open", "No newcomer has run yet.")
    outcome = f"After episodes of newcomers the account held at least {number(min(lowest))}."
    return Check(assumption, made, "holds" if min(lowest) >= -1e-6 else "failed", outcome)


def _certificates(reading: Reading) -> Check:
    bets = reading.beliefs.bets
    certified = [point for point, bet in bets.items() if bet.certified]
    assumption = "What is called certified has a mean cost within the limits."
    made = (
        "Bets on a target’s own episodes, on those after it was chosen. All wrong certificates together have a"
        f" probability of at most delta = {number(reading.problem.delta)}."
    )
    if not bets:
        return Check(assumption, made, "open", "No target was put to the test yet.")
    parts = [f"{reading.text(point)} by {plural(bets[point].episodes, 'episode')}" for point in certified]
    told = f"Certified: {listed(parts[-4:])}." if parts else "No target is certified."
    more = f" The last 4 of {len(parts)}." if len(parts) > 4 else ""
    return Check(assumption, made, "holds" if parts else "open", f"{plural(len(bets), 'target')} tested. {told}{more}")


def _starts(reading: Reading) -> Check:
    problem, history = reading.problem, reading.history
    assumption = "The starts are safe."
    made = (
        "The first episodes of a start run on your word. It is left only once its own episodes certify it."
        if problem.promise == "total"
        else "The first episodes of a start run on your word. It is left only once its risk is small, and is charged."
    )
    parts = []
    for start in problem.starts:
        own = reading.beliefs.own.get(start)
        if own is None:
            continue
        costs = listed(
            f"{mean_text(name, mean)}" for name, mean in zip(reading.names[1:], own.means[1:].tolist(), strict=True)
        )
        word = "" if start in reading.beliefs.admitted else "; not admitted" if history.told else ""
        parts.append(f"{reading.text(start)} with {costs} over {plural(own.episodes, 'episode')}{word}")
    if not parts:
        return Check(assumption, made, "open", "No episode yet.")
    outcome = f"{'; '.join(parts)}."
    if not reading.beliefs.admitted and reading.ended:
        return Check(assumption, made, "failed", outcome)
    tried = [start for start in problem.starts if start in reading.beliefs.own]
    if all(start in reading.beliefs.admitted for start in tried):
        return Check(assumption, made, "quiet", outcome)
    return Check(assumption, made, "doubt" if reading.beliefs.admitted else "open", outcome)


def _change(reading: Reading) -> Check:
    assumption = "An episode of a target costs what that target costs on average: days and wear make no difference."
    made = "During the search: only the forecasts. In operation: the watch, after every episode (section 7)."
    if not reading.history.served:
        return Check(assumption, made, "open", "Operation has not begun.")
    alarms = sum(each.alarm is not None for each in reading.services)
    outcome = f"{plural(alarms, 'alarm')} in {plural(reading.history.served, 'episode')} of operation"
    if not all(each.agrees for each in reading.services):
        return Check(assumption, made, "doubt", f"{outcome}, but the recorded alarms do not follow from the costs.")
    if reading.history.halted:
        return Check(assumption, made, "failed", f"{outcome}; operation has halted.")
    if alarms:
        return Check(assumption, made, "doubt", f"{outcome}; another target is served since.")
    return Check(assumption, made, "quiet", f"{outcome}.")
