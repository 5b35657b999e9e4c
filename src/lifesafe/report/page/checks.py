"""What the guarantee assumes, which check of it this run made, and how that came out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from lifesafe.optimizer.certificates import LEVEL, within_bounds
from lifesafe.optimizer.decision import certified_by_prior
from lifesafe.optimizer.schedule import Stage
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.wording import listed, number, percent, plural, target_text

Finding = Literal["holds", "quiet", "doubt", "failed", "open", "given"]
WORDS: dict[Finding, str] = {
    "holds": "checked, holds",
    "quiet": "nothing against it",
    "doubt": "in doubt",
    "failed": "failed",
    "open": "not checked yet",
    "given": "not checked",
}
"""What a finding is called on the page. No check can show that a model is right or that nothing ever changes: then
"quiet" is the best there is. "given" is what rests on somebody's word."""


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
    """Return every assumption of the guarantee with its check, in the order of the guarantee."""
    return (_seeds(reading), _model(reading), _prior(reading), _noise(reading), *_bounds(reading), _change(reading))


def not_promised(reading: Reading) -> list[str]:
    """Return what the guarantee does not say, with this run's own numbers."""
    problem, moments = reading.problem, reading.history.moments
    episodes = [m.result.episodes for m in moments] + [s.episodes for s in reading.operated.servings]
    items = []
    if episodes:
        costs = np.concatenate(episodes)[:, 1:]
        above: Bool[np.ndarray, " n"] = np.any(costs > np.array(problem.limits), axis=1)
        items.append(
            "Single episodes. The limit is on the mean: here "
            f"{plural(int(above.sum()), 'episode')} of {len(above):,} ({percent(float(above.mean()))}) cost more than"
            f" {'the limit' if len(problem.limits) == 1 else 'a limit'} of now, and that alone breaks nothing."
        )
    else:
        items.append("Single episodes: the limit is on the mean of the cost.")
    if problem.dither:
        items.append(
            "A target without its dither. What an episode asks for is scattered around the target, by"
            f" {percent(problem.dither)} of each axis (one deviation); what is said of a target holds for the mean."
        )
    items += [
        "The best policy. It is the best target found for this policy, among those reached safely from the seed.",
        "A wrong model. If the assumptions beside fail, so may the guarantee; the checks make that less likely, not"
        " impossible.",
        "A system that changes, or another machine than the one measured. In operation the monitor watches for it;"
        " before its alarm some episodes are too costly.",
    ]
    return items


def _seeds(reading: Reading) -> Check:
    state, schedule = reading.state, reading.history.schedule
    made = {
        "score": "Each seed is measured until the upper score bound (nominally 99 %, if costs spread"
        " as assumed below) of its own episodes keeps the limits.",
        "betting": "Each seed is measured until an anytime-valid test by betting, which needs no model, is sure that"
        f" the limits are kept (level {LEVEL:g}).",
        "asserted": "None: you assert that the seeds are safe. Each is measured once.",
    }[schedule.certification]
    told = []
    for index in reading.problem.seeds:
        name = target_text(reading.problem.target(index))
        own, trials = _own(reading, index)
        if index in state.failed:
            told.append(f"{name} failed after {plural(own, 'episode')}")
        elif index in state.certified:
            word = "was measured in" if schedule.certification == "asserted" else "was certified by"
            told.append(f"{name} {word} {plural(own, 'episode')} ({plural(trials, 'trial')})")
        elif index in state.withdrawn:
            told.append(f"{name} was withdrawn after an alarm")
    untried = sum(_own(reading, index)[0] == 0 for index in reading.problem.seeds)
    why = "not needed" if state.certified else "not tried"
    if reading.history.is_stranded:
        why = "not tried: beyond costlier ones"
    rest = f" {plural(untried, 'further seed')} {why}." if told and untried else ""
    failed = sum(index in state.failed for index in reading.problem.seeds)
    if not told:
        own = sum(_own(reading, index)[0] for index in reading.problem.seeds)
        outcome = f"No seed is certified yet; {plural(own, 'episode')} so far." if own else "No episode yet."
        return Check("The seeds are safe.", made, "open", outcome)
    outcome = f"{listed(told)}.{rest}"
    if schedule.certification == "asserted":
        return Check("The seeds are safe.", made, "given", outcome)
    if state.certified:
        sure: Finding = "holds" if schedule.certification == "betting" else "quiet"
        return Check("The seeds are safe.", made, "doubt" if failed else sure, outcome)
    return Check("The seeds are safe.", made, "failed" if failed else "open", outcome)


def _own(reading: Reading, index: int) -> tuple[int, int]:
    """Return the episodes and trials that a seed was certified with; all its trials if none was for that alone."""
    here = [m.result for m in reading.history.moments if m.result.trial.index == index]
    first = [r for r in here if r.trial.stage is Stage.SEED] or here
    return sum(len(r.episodes) for r in first), len(first)


def _model(reading: Reading) -> Check:
    history, schedule = reading.history, reading.history.schedule
    confirmed = sum(event.kind == "confirmed" for event in reading.events)
    made = (
        f"Every trial is predicted before it is told; {schedule.surprises} costs far above their prediction freeze the"
        " search. Afterwards each is predicted from all others (section 7)."
    )
    assumption = "Each return, as a function of the target, is a draw from the stated Gaussian process."
    if len(history.moments) < 2:
        return Check(assumption, made, "open", "Too few trials yet.")
    verdicts = {part.name: part.verdict for part in history.calibration.returns}
    bands = listed(f"{name} bands {verdict}" for name, verdict in verdicts.items())
    bands = f"{bands[0].upper()}{bands[1:]}"
    surprises = plural(reading.state.surprises, "surprise")
    again = f" since the search was confirmed by hand, {plural(confirmed, 'time')}" if confirmed else ""
    outcome = f"{bands}. {surprises}{again}."
    if reading.state.held_by == "surprises":
        return Check(assumption, made, "failed", f"The search is frozen by surprises. {outcome}")
    if reading.state.held_by == "violation":
        outcome = f"A trial thought safe exceeded a limit: nothing new is tried. {outcome}"
        return Check(assumption, made, "failed", outcome)
    reward = reading.problem.names[0]
    if verdicts.pop(reward) == "too narrow":
        outcome += " Rewards do not bear on safety."
    doubt = "too narrow" in verdicts.values() or confirmed > 0
    return Check(assumption, made, "doubt" if doubt else "quiet", outcome)


def _prior(reading: Reading) -> Check:
    problem, schedule = reading.problem, reading.history.schedule
    share = certified_by_prior(problem, schedule)
    assumption = "The prior alone calls no untried target safe."
    made = "Computed for all candidates before the first trial, and again for this page under the limits of now."
    why = " You have set trust_prior." if problem.trust_prior else ""
    if share == 0:
        outcome = f"It certifies none of the {len(problem.candidates):,} candidates.{why}"
        return Check(assumption, made, "holds", outcome)
    rule = " (the fixed schedule bounds no probability)" if schedule.risk == "fixed" else ""
    return Check(
        assumption, made, "doubt", f"It certifies {percent(share)} of the candidates beyond the seeds{rule}.{why}"
    )


def _noise(reading: Reading) -> Check:
    problem, moments = reading.problem, reading.history.moments
    assumption = "The mean of a trial's episodes is as uncertain as stated."
    made = (
        "Variance over mean of the episode costs is pooled over all trials, and the score form is used, so that"
        " episodes without cost leave doubt. It is measured, not tested."
    )
    if not moments:
        return Check(assumption, made, "open", "No trial yet.")
    parts = []
    for k, name in enumerate(problem.names[1:]):
        ratios = [_ratio(m.result.episodes[:, 1 + k]) for m in moments if len(m.result.episodes) > 1]
        largest = f", at most {number(max(ratios))} in a single trial" if ratios else ""
        parts.append(
            f"{name} {number(reading.state.posterior.dispersions[k])} (assumed before: "
            f"{number(problem.dispersions[k])}{largest})"
        )
    return Check(assumption, made, "given", f"Variance over mean: {listed(parts)}.")


def _ratio(costs: Float[np.ndarray, " m"]) -> float:
    mean = float(costs.mean())
    return float(costs.var(ddof=1)) / mean if mean > 0 else 0.0


def _bounds(reading: Reading) -> Iterator[Check]:
    problem = reading.problem
    assumption = "No episode costs more than the bounds stated."
    used = "The betting test of the seeds and the monitor rest on it."
    if not problem.cost_bounds:
        if reading.history.schedule.certification == "betting" or reading.operated.servings:
            yield Check(assumption, used, "given", "No bounds are stated.")
        return
    episodes = [m.result.episodes for m in reading.history.moments]
    episodes += [serving.episodes for serving in reading.operated.servings]
    stated = listed(
        f"{name} {number(bound)}" for name, bound in zip(problem.names[1:], problem.cost_bounds, strict=True)
    )
    made = f"{used} Every episode cost is compared with its bound ({stated})."
    if not episodes:
        yield Check(assumption, made, "open", "No episode yet.")
        return
    costs, inside = np.concatenate(episodes)[:, 1:], within_bounds(problem, np.concatenate(episodes))
    largest = listed(f"{name} {number(top)}" for name, top in zip(problem.names[1:], costs.max(axis=0), strict=True))
    outcome = f"Largest of {plural(len(costs), 'episode')}: {largest}."
    if not inside:
        outcome += " A cost lies outside its bounds, so what rests on them is void."
    yield Check(assumption, made, "holds" if inside else "failed", outcome)


def _change(reading: Reading) -> Check:
    operated = reading.operated
    assumption = "Mean returns do not change."
    made = (
        "During the trials: none of its own, only the surprises above. In operation: the monitor, after every episode"
        " (section 8)."
    )
    if not operated.episodes:
        return Check(assumption, made, "open", "Operation has not begun.")
    outcome = f"{plural(len(operated.alarms), 'alarm')} in {plural(operated.episodes, 'episode')} of operation"
    if not all(serving.agrees for serving in operated.servings):
        return Check(assumption, made, "doubt", f"{outcome}, but the recorded evidence is not what its costs lead to.")
    if any(serving.config is None for serving in operated.servings):
        return Check(assumption, made, "given", f"{outcome}; some were served without a monitor.")
    if operated.halted:
        return Check(assumption, made, "failed", f"{outcome}; operation has halted.")
    if operated.alarms:
        return Check(assumption, made, "doubt", f"{outcome}; a more conservative target is served since.")
    return Check(assumption, made, "quiet", f"{outcome}.")
