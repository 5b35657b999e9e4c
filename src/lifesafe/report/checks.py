"""What the promise assumes, which check of it this run made, and how that came out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from lifesafe.console.prompts import plural
from lifesafe.report.forecasts import RARE, calibration, outcomes
from lifesafe.report.reading import PREPAID, Reading
from lifesafe.report.wording import each_of, listed, mean_text, number, percent
from lifesafe.safety import Problem

Standing = Literal["holds", "quiet", "doubt", "failed", "open"]
WORDS: dict[Standing, tuple[str, str]] = {
    "holds": ("✓", "checked, holds"),
    "quiet": ("✓", "nothing against it"),
    "doubt": ("!", "in doubt"),
    "failed": ("✗", "failed"),
    "open": ("○", "not checked yet"),
}
"""The sign of a finding, and what it is called. No check can show that a model is right or that nothing ever changes:
then "quiet" is the best there is."""


@dataclass(frozen=True)
class Check:
    """One assumption and what became of it."""

    topic: str
    assumption: str
    made: str
    """Which check was made."""
    finding: Standing
    outcome: str


@lru_cache(maxsize=1)  # the promise, the headline and the table ask for them
def all_checks(reading: Reading) -> tuple[Check, ...]:
    """Return every assumption of the promise with its check."""
    if all(reading.problem.sure):
        return (_largest(reading), _reward(reading))
    own = (_account(reading), _certificates(reading)) if reading.problem.promise == "total" else (_model(reading),)
    return (_largest(reading), *own, _starts(reading), _change(reading), _reward(reading))


def _largest(reading: Reading) -> Check:
    problem, tally = reading.problem, reading.tally
    made = "The cost of every episode is compared with that."
    if problem.stop_at is not None:
        assumption = f"No episode costs more than {each_of(problem.lumps)}: {stop_words(problem)}."
    elif problem.incident == "horizon":
        assumption = f"No episode costs more than {each_of(problem.lumps)}, the most that its length allows."
    else:
        assumption = f"One mishap adds at most {each_of(problem.lumps)} to the cost of an episode."
        made = "An episode that costs two mishaps more than the limit and than the others of its target refutes it."
    about = ("largest cost of an episode", assumption, made)
    if not tally.counted:
        return Check(*about, "open", "No episode yet.")
    worst = listed(f"{name} {cost}" for name, cost in zip(reading.names[1:], tally.worst, strict=True))
    outcome = f"Largest of {plural(tally.counted, 'episode')}: {worst}."
    if tally.ended is not None:
        outcome += f" The stop has ended {plural(tally.ended, 'episode')}."
    if reading.beliefs.breaches:
        found = "; ".join(what for _, what in reading.beliefs.breaches)
        return Check(*about, "failed", f"{found[0].upper()}{found[1:]}. {outcome}")
    assumed = problem.stop_at is None and problem.incident != "horizon"
    return Check(*about, "quiet" if assumed else "holds", outcome)


def stop_words(problem: Problem) -> str:
    """Return what the stop does."""
    assert problem.stop_at is not None
    stops, steps = each_of(problem.stop_at), each_of(problem.steps)
    return f"an episode is ended as soon as its cost reaches {stops}, and one step costs at most {steps}"


def _model(reading: Reading) -> Check:
    about = (
        "model of the costs",
        "Each mean cost, as a function of the target, is a draw from the stated processes, and episodes scatter around"
        " it as stated.",
        "Every target is forecast before its episodes are run (section 6). A right model leaves at most"
        f" {percent(RARE)} clearly above. A trial whose mean cost is clearly above a limit holds the search.",
    )
    found = {name: calibration(outcomes(reading, 1 + k)) for k, name in enumerate(reading.names[1:])}
    if not any(each.outcomes for each in found.values()):
        return Check(*about, "open", "No trial yet.")
    outcome = f"Clearly above their forecast: {listed(f'{name} {each}' for name, each in found.items())}."
    if reading.exceeded:
        above = "; ".join(f"trial {trial}: {words}" for trial, words in reading.exceeded.items())
        return Check(*about, "failed", f"Clearly above a limit: {above}. {outcome}")
    doubtful = any(each.is_doubtful for each in found.values())
    return Check(*about, "doubt" if doubtful or reading.history.confirmed else "quiet", outcome)


def _reward(reading: Reading) -> Check:
    about = (
        "model of the reward",
        "The mean reward, as a function of the target, is a draw from the stated process. The promise on costs does not"
        " rest on this; which target counts as the best does.",
        "Every target is forecast before its episodes are run (section 6). A right model leaves at most"
        f" {percent(RARE)} clearly above or below.",
    )
    found = calibration(outcomes(reading, 0))
    if not found.outcomes:
        return Check(*about, "open", "No trial yet.")
    return Check(*about, "doubt" if found.is_doubtful else "quiet", f"Clearly beyond their forecast: {found}.")


def _account(reading: Reading) -> Check:
    about = (
        "account",
        "A newcomer runs only while the account can pay for its worst episode.",
        "The account is computed again from every recorded episode.",
    )
    lowest = [float(part.holds.min()) for part in reading.saved if part.stage in PREPAID]
    if not lowest:
        return Check(*about, "open", "No newcomer has run yet.")
    outcome = f"After episodes of newcomers the account held at least {number(min(lowest))}."
    return Check(*about, "holds" if min(lowest) >= -1e-6 else "failed", outcome)


def _certificates(reading: Reading) -> Check:
    bets = reading.beliefs.bets
    certified = [point for point, bet in bets.items() if bet.certified]
    about = (
        "certificates",
        "What is called certified has a mean cost within the limits.",
        "Bets on a target’s own episodes, on those after it was chosen. All wrong certificates together have a"
        f" probability of at most delta = {number(reading.problem.delta)}.",
    )
    if not bets:
        return Check(*about, "open", "No target was put to the test yet.")
    parts = [f"{reading.text(point)} by {plural(bets[point].episodes, 'episode')}" for point in certified]
    told = f"Certified: {listed(parts[-4:])}." if parts else "No target is certified."
    more = f" The last 4 of {len(parts)}." if len(parts) > 4 else ""
    return Check(*about, "holds" if parts else "open", f"{plural(len(bets), 'target')} tested. {told}{more}")


def _starts(reading: Reading) -> Check:
    problem, history, admitted = reading.problem, reading.history, reading.beliefs.admitted
    shown = "its own episodes certify it" if problem.promise == "total" else "its risk is small, and is charged"
    made = f"The first episodes of a start run on your word. It is left only once {shown}."
    about = ("safety of the starts", "The starts are safe.", made)
    parts, tried = [], [start for start in problem.starts if start in reading.beliefs.own]
    for start in tried:
        own = reading.beliefs.own[start]
        costs = listed(mean_text(*pair) for pair in zip(reading.names[1:], own.means[1:].tolist(), strict=True))
        word = "" if start in admitted else "; not admitted" if history.told else ""
        parts.append(f"{reading.text(start)} with {costs} over {plural(own.episodes, 'episode')}{word}")
    if not parts:
        return Check(*about, "open", "No episode yet.")
    outcome = f"{'; '.join(parts)}."
    if not admitted and reading.ended:
        return Check(*about, "failed", outcome)
    if all(start in admitted for start in tried):
        return Check(*about, "quiet", outcome)
    return Check(*about, "doubt" if admitted else "open", outcome)


def _change(reading: Reading) -> Check:
    about = (
        "no change over time",
        "An episode of a target costs what that target costs on average: days and wear make no difference.",
        "During the search: only the forecasts. In operation: the watch, after every episode (section 7).",
    )
    if not reading.history.served:
        return Check(*about, "open", "Operation has not begun.")
    alarms = plural(reading.alarms, "alarm")
    outcome = f"{alarms} in {plural(reading.history.served, 'episode')} of operation"
    if not all(each.agrees for each in reading.services):
        return Check(*about, "doubt", f"{outcome}, but the recorded alarms do not follow from the costs.")
    if reading.history.halted:
        return Check(*about, "failed", f"{outcome}; operation has halted.")
    if reading.alarms:
        return Check(*about, "doubt", f"{outcome}; another target is served since.")
    return Check(*about, "quiet", f"{outcome}.")
