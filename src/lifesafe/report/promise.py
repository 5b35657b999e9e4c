"""The promise of a run in plain words: what was promised, on what conditions, and what this run says against it."""

from __future__ import annotations

from lifesafe.report.checks import all_checks, stop_words
from lifesafe.report.reading import Reading
from lifesafe.report.wording import each_of, listed, number, percent, plural
from lifesafe.safety import Problem


def promise_name(problem: Problem) -> str:
    """Return which promise was made, in a word or two."""
    return "every episode" if all(problem.sure) else problem.promise


def statement(reading: Reading) -> str:
    """Return the promise in one sentence, and whether it stands; the page, pictures and commands all say this."""
    promised = _promised(reading.problem)
    failed = [check.topic for check in all_checks(reading) if check.finding == "failed"]
    if not failed:
        return promised
    which = "An assumption" if len(failed) == 1 else f"{len(failed)} assumptions"
    return f"{which} failed in this run ({listed(failed)}), so this does not hold as it stands: {promised}"


def _promised(problem: Problem) -> str:
    limit, sure = _limits(problem), number(1 - problem.delta)
    if all(problem.sure):
        return f"Every single episode keeps {limit}, for sure: {stop_words(problem)}."
    if problem.promise == "total":
        return (
            f"All episodes together cost at most {limit} an episode: after every episode of a newcomer for sure, and"
            f" for certified targets in the mean, with probability at least {sure}."
        )
    mean = "mean cost exceeds" if len(problem.limits) == 1 else "mean costs exceed"
    return f"With probability at least {sure}, no trial’s {mean} {limit}, provided that the model of costs is right."


def meaning(reading: Reading) -> str:
    """Return what the promise rests on and what its words mean."""
    problem = reading.problem
    if all(problem.sure):
        return "So no model of the costs is needed, and nothing is charged: only reward is searched."
    if problem.promise == "total":
        account = reading.beliefs.account
        assert account is not None
        return (
            "No model of the costs is assumed. A newcomer is a target without a certificate; it runs an episode only"
            " while the account can pay for the most that an episode can cost. So single newcomers may lie above the"
            " limit, and yet the costs of any stretch of episodes that ends with a newcomer’s exceed"
            f" {_limits(problem)} an episode by at most {each_of(account.capacity)} altogether. A target is certified"
            " by bets on its own episodes."
        )
    return (
        "The promise covers all trials of the search together, and the target that is operated. A trial is a lottery:"
        " most of its episodes ask for its center, a few for a scout further out; its mean is over all of them. Each"
        " lottery is charged the probability, under the model and all data until then, that it breaks a limit; the"
        f" charges never exceed delta = {number(problem.delta)}."
    )


def not_promised(reading: Reading) -> list[str]:
    """Return what the promise does not say, with this run's own numbers."""
    problem, tally = reading.problem, reading.tally
    items = []
    if not all(problem.sure):
        told = f"cost more than {reading.a_limit} at that time, and that alone breaks nothing."
        share = percent(tally.above / tally.counted) if tally.counted else ""
        count = f"{plural(tally.above, 'episode')} of {tally.counted:,} ({share})" if share else "some episodes may"
        items.append(f"Single episodes. Limits are on the mean: {count} {told}")
        items.append(
            "The start. Until its own episodes have shown what it costs, it runs because you say that it is safe."
        )
    if problem.stop_at is not None:
        items.append(
            "Targets without the stop. Everything here holds for episodes that are ended at the stop; without it a"
            " target may cost more."
        )
    items.append("The best policy. It is the best target found for this policy, from this start, in these episodes.")
    items.append(
        "A system that changes, or another machine than the one measured. In operation a watch looks at every episode;"
        " before its alarm, some may cost too much."
    )
    return items


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


def _limits(problem: Problem) -> str:
    return f"the limit{'' if len(problem.limits) == 1 else 's'} {each_of(problem.limits)}"
