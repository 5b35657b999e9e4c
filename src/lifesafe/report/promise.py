"""The promise of a run in plain words: what was promised, on what conditions, and what this run says against it."""

from __future__ import annotations

from lifesafe.console.prompts import plural
from lifesafe.report.checks import all_checks, stop_words
from lifesafe.report.reading import Reading
from lifesafe.report.wording import each_of, listed, number
from lifesafe.safety import Problem


def promise_name(problem: Problem) -> str:
    """Return which promise was made, in a word or two."""
    if all(problem.sure):
        return "every episode"
    return "total of all episodes" if problem.promise == "total" else "mean of every trial"


def statement(reading: Reading) -> str:
    """Return the promise in one sentence, and whether it stands; the page, pictures and commands all say this."""
    promised = _promised(reading.problem)
    failed = [check.topic for check in all_checks(reading) if check.finding == "failed"]
    if not failed:
        return promised
    which = "An assumption" if len(failed) == 1 else f"{len(failed)} assumptions"
    return f"{which} failed in this run ({listed(failed)}), so this does not hold as it stands: {promised}"


def _promised(problem: Problem) -> str:
    limit, sure = limits_text(problem), number(1 - problem.delta)
    if all(problem.sure):
        return f"Every single episode keeps {limit}, for sure: {stop_words(problem)}."
    if problem.promise == "total":
        return (
            f"All episodes together cost at most {limit} an episode: after every episode of a newcomer for sure, and"
            f" for certified targets in the mean, with probability at least {sure}."
        )
    mean = "mean cost exceeds" if len(problem.limits) == 1 else "mean costs exceed"
    return f"With probability at least {sure}, no trial’s {mean} {limit}, provided that the model of costs is right."


def qualifications(reading: Reading) -> list[str]:
    """Return what happened in this run that takes something from the promise."""
    return [*_broken(reading), *_overruled(reading), *_later(reading)]


def _broken(reading: Reading) -> list[str]:
    void = "all payments and certificates until then are void" if not all(reading.problem.sure) else "it is broken"
    found = [f"An assumption of the promise failed in {what}. So {void}." for _, what in reading.beliefs.breaches]
    for trial, words in reading.exceeded.items():
        found.append(f"The promise was broken, as far as episodes can show it, in trial {trial}: {words}.")
    return found


def _overruled(reading: Reading) -> list[str]:
    history = reading.history
    found = [
        f"Somebody let the search go on although it was held (“{event.reason}”). From there on, the promise rests on"
        " that judgment, too."
        for _, event in history.confirmed
    ]
    for tried in reading.retracted:
        assert tried.retracted is not None
        known = "the true episodes replace them" if tried.told else "nothing is known of it now"
        found.append(
            f"What was told of trial {tried.number} was retracted (“{tried.retracted.reason}”); {known}. The promise"
            " holds if it was wrong whatever it cost, and not because of what it cost."
        )
    found += [
        f"Trial {each.number} was open at a retraction and was dropped, because it was chosen from what was wrong; its"
        " charge stays."
        for each in history.trials.values()
        if each.dropped
    ]
    return found


def _later(reading: Reading) -> list[str]:
    found = []
    if reading.limit_changes:
        found.append(
            f"The limits changed {plural(len(reading.limit_changes), 'time')}. Each set of limits has a promise of its"
            f" own, which may fail with probability {number(reading.problem.delta)}; these probabilities add up."
        )
    if reading.alarms:
        found.append(
            f"{plural(reading.alarms, 'alarm')} in operation: the system has changed, a mean was above a limit all"
            " along, or the alarm was false (at most"
            f" {number(reading.services[0].service.serving.level)} for the first target)."
        )
    if reading.replayed is False:
        found.append("The recorded decisions do not follow from the record, so nothing is promised of them.")
    return found


def limits_text(problem: Problem) -> str:
    """Return the limits with their name."""
    return f"the limit{'' if len(problem.limits) == 1 else 's'} {each_of(problem.limits)}"
