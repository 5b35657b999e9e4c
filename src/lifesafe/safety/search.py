"""SafeOptimizer: ask for a trial, run it, tell what its episodes returned; in memory or on disk.

Python, shell and a life all go through here, so the same problem and the same answers give the same decisions.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Self

import numpy as np

from lifesafe._random import is_whole
from lifesafe.errors import ConfigError, GuaranteeWarning, JournalError, NoSafeTargetError, TrialError
from lifesafe.journal import events as e
from lifesafe.journal.events import Event
from lifesafe.journal.history import History, Tried
from lifesafe.journal.store import JOURNAL, Journal, Record
from lifesafe.returns import Returns, returns_array
from lifesafe.safety import choice, newcomers
from lifesafe.safety.beliefs import Books, opened_problem
from lifesafe.safety.betting import ROUNDING
from lifesafe.safety.choice import Choice, Done
from lifesafe.safety.problem import Problem, Target, floats
from lifesafe.safety.recommendation import Recommendation, fit_targets, recommend

_LARGEST = 1e100  # size of a return; squares of larger ones overflow
_AGREEMENT = 1e-6  # difference up to which a number that is computed again counts as the recorded one
_HOPELESS = 0.95  # probability of exceeding a limit at which a trial may end early
_LEAST = 5  # episodes before a trial may end early


@dataclass(frozen=True)
class Trial:
    """What to run now: one target for each episode."""

    number: int
    """1 for the first trial."""
    stage: str
    """start, search; with the promise "total" also base, newcomer and test."""
    targets: tuple[Target, ...]
    """What to ask for in each episode, in order."""

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.targets)


class SafeOptimizer:
    """Finds the target with the most reward, and keeps the promise of its problem on the way.

    Examples:
        >>> problem = Problem(axes={"reward": (0, 500), "cost": (0, 60)}, starts=[Returns(200, 2)], limits=20.0)
        >>> optimizer = SafeOptimizer(problem)
        >>> trial = optimizer.ask()
        >>> trial.number, trial.stage, trial.episodes, trial.targets[0]
        (1, 'start', 30, Returns(reward=200.0, costs=(2.0,)))
        >>> optimizer.tell(trial, [Returns(190, 3.0), Returns(205, 4.0)] * 15)
        >>> optimizer.ask().stage
        'search'
    """

    def __init__(self, problem: Problem) -> None:
        self._start(problem)
        self.record(e.Opened(problem=problem.to_plain(), version=version("lifesafe")))

    def _start(self, problem: Problem) -> None:
        check_moves(problem)
        self._books, self._count, self._interrupted = Books(problem), 0, False
        self.journal: Journal | None = None
        """The record on disk; none in memory."""
        self._chosen: Choice | Done | None = None
        self.beliefs = self._books.beliefs
        """What is believed now."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], problem: Problem | None = None) -> Self:
        """Open the run in a directory, or begin one there; every event is on disk before a call returns.

        The problem may be left out when the run exists.

        Raises:
            JournalError: If the record belongs to another problem, is damaged, or is open elsewhere.
            ConfigError: If there is no run and no problem.
        """
        if problem is not None:
            check_moves(problem)
        elif not (Path(path) / JOURNAL).exists():
            raise ConfigError(f"There is no run in {path}; give a problem to begin one.")
        journal, records = Journal.open(Path(path) / JOURNAL)
        try:
            recorded = opened_problem(records) if records else problem
            if recorded is None:
                raise ConfigError(f"{journal.path} is empty; give a problem to begin a run.")
            if problem is not None and problem.fingerprint != recorded.fingerprint:
                raise JournalError(
                    f"{journal.path} records another problem ({recorded.fingerprint[:8]}) than the one given"
                    f" ({problem.fingerprint[:8]}): {_difference(recorded, problem)}. Give another directory, or leave"
                    " the problem out to go on with that run."
                )
            optimizer = cls._of(recorded, records)
            optimizer.journal = journal
            if not records:
                optimizer.record(e.Opened(problem=recorded.to_plain(), version=version("lifesafe")))
        except BaseException:
            journal.close()
            raise
        return optimizer

    @classmethod
    def _of(cls, problem: Problem, records: Sequence[Record]) -> Self:
        """Return the optimizer in the state that trusted records lead to, in memory."""
        optimizer = cls.__new__(cls)
        optimizer._start(problem)
        for record in records:
            optimizer._fold(record)
        return optimizer

    @classmethod
    def replay(cls, records: Sequence[Record], check: Callable[[Self, Record], None] | None = None) -> Self:
        """Return the optimizer in the state that records lead to, in memory; every decision is made again.

        `check` is called before each event; with it `lifesafe.operation.replay` refuses what operation did not decide.

        Raises:
            JournalError: If a decision differs from the recorded one, or a snapshot from what it sums up.
        """
        optimizer = cls._of(opened_problem(records), ())
        for record in records:
            optimizer._check(record)
            if check is not None:
                check(optimizer, record)
            optimizer._fold(record)
        return optimizer

    @property
    def problem(self) -> Problem:
        """The problem, with the limits of now."""
        return self._books.problem

    @property
    def history(self) -> History:
        """What happened so far."""
        return self._books.history

    @property
    def trials(self) -> tuple[Tried, ...]:
        """The trials told so far."""
        return tuple(self.history.told)

    @property
    def open_trial(self) -> Trial | None:
        """The trial that was asked for and not told yet."""
        tried = self._books.history.open
        if tried is None:
            return None
        return Trial(tried.number, tried.asked.stage, tuple(map(self._books.problem.target, tried.points)))

    @property
    def best(self) -> Recommendation | None:
        """The target to operate; none if none is fit for it."""
        return recommend(self.beliefs)

    @property
    def fit(self) -> tuple[Recommendation, ...]:
        """All targets that are fit to be operated, those that earn more for sure first."""
        return fit_targets(self.beliefs)

    @property
    def spent(self) -> float:
        """Risk charged under the present limits; never more than delta."""
        return self.beliefs.spent

    @property
    def held(self) -> str | None:
        """What holds up the search until `confirm` is called; none if nothing does."""
        return self.beliefs.held

    @property
    def done(self) -> str | None:
        """Why the search is over; none while it goes on, or is held."""
        if self.history.open is not None or self.held is not None:
            return None
        try:
            found = self._choose()
        except NoSafeTargetError as error:
            return str(error)
        return found.why if isinstance(found, Done) else None

    @property
    def stage(self) -> str:
        """What the search does now: the stage of the open or next trial, "held", or "done"."""
        if self.history.open is not None:
            return self.history.open.asked.stage
        if self.held is not None:
            return "held"
        if self.done is not None:
            return "done"
        found = self._choose()
        assert not isinstance(found, Done)
        return found.stage

    def ask(self) -> Trial | None:
        """Return the trial to run now; the same one until it is told. None when the search is over or held.

        Raises:
            NoSafeTargetError: If every start has failed.
        """
        if self._books.history.open is None:
            if self.beliefs.held is not None:
                return None
            found = self._choose()
            if isinstance(found, Done):
                return None
            self.record(found)
        return self.open_trial

    def tell(self, trial: Trial, episodes: Sequence[Returns]) -> None:
        """Record the returns of the episodes of the open trial, in the order of its targets.

        A trial may end early: then tell the episodes that were run.

        Raises:
            TrialError: If the trial is not open here, or the returns do not fit; nothing is recorded then.
        """
        tried = self._open(trial)
        rows = self.checked(episodes, most=len(tried.points))
        was_held = self.beliefs.held
        self.record(e.Told(trial=tried.number, episodes=rows))
        held = self.beliefs.held
        if held is not None and was_held is None:
            warnings.warn(f"The search is held. {held[0].upper()}{held[1:]}.", GuaranteeWarning, stacklevel=2)

    def confirm(self, reason: str) -> None:
        """Let a search go on that is held: you have looked at what holds it, and it may.

        Raises:
            TrialError: If the search is not held, or no reason is given.
        """
        if self.held is None:
            raise TrialError("There is nothing to confirm: the search is not held.")
        self.record(e.Confirmed(reason=_reason(reason, "the search may go on")))

    def retract(self, number: int, reason: str, episodes: Sequence[Returns] | None = None) -> None:
        """Take back what was told of a trial because it was wrong, and not because of what it showed.

        What the trial was charged stays charged. An account pays for the retracted episodes as if each had cost the
        most. An open trial is dropped, because it was chosen from what was wrong: ask again. If some of its episodes
        were run, tell them first. The true returns count from then on, if they are given.

        Raises:
            TrialError: If that trial was not told, or the returns do not fit; nothing is recorded then.
        """
        tried = self.history.trials.get(number) if is_whole(number) else None
        if tried is None or not tried.told_at or tried.retracted is not None:
            told = [each.number for each in self.history.told if each.retracted is None]
            raise TrialError(f"Trial {number} cannot be retracted; trials that can be: {told or 'none'}.")
        rows = None if episodes is None else self.checked(episodes, most=len(tried.points))
        why = _reason(reason, f"trial {number} was wrong")
        self.record(e.Retracted(trial=number, reason=why, episodes=rows))

    def change_limits(self, limits: float | Sequence[float], starts: Sequence[Target] | None = None) -> None:
        """Go on under other limits with everything observed so far.

        What was paid before does not count any more, and the ledger begins anew: the promise is one for each set of
        limits. Under lower limits the starts of before are not known to be safe. Name others that are; or, with the
        promise "trial", the search begins at a target that was tried, and charges it like any other.

        Raises:
            ConfigError: If no limit changes, or one is impossible.
            TrialError: If a trial is open.
        """
        if self.history.open is not None:
            raise TrialError(f"Trial {self.history.open.number} is open; tell it before changing the limits.")
        count, costs = len(floats(limits)), len(self.problem.limits)
        if count != costs:
            raise ConfigError(
                f"Got {count} limits for {costs} costs; give one for each. Begin another run to keep another number of"
                " costs."
            )
        changed = self.problem.with_limits(limits, starts)
        if changed.limits == self.problem.limits:
            raise ConfigError(f"The limits are {changed.limits} already.")
        check_moves(changed)
        is_lower = any(new < old for new, old in zip(changed.limits, self.problem.limits, strict=True))
        if is_lower and starts is None and self.problem.promise == "total" and not all(changed.sure):
            raise ConfigError(
                f"The limits {changed.limits} are lower than before; name starts that you know to be safe under them."
            )
        named = () if is_lower and starts is None else changed.starts
        self.record(e.Limited(limits=changed.limits, starts=named))

    def ends_early(self, trial: Trial, episodes: Sequence[Returns]) -> bool:
        """Return whether the first episodes of the open trial show that its center is too costly to go on with."""
        tried = self._open(trial)
        if isinstance(episodes, Sequence) and not episodes:
            return False
        rows = self.checked(episodes, most=trial.episodes)
        if not _LEAST <= len(rows) < trial.episodes or tried.asked.stage == "base":
            return False
        supposed = copy(self.history)
        told = replace(tried, told=rows, told_at="now", counted_number=tried.asked_number)
        supposed.trials, supposed.told = supposed.trials | {tried.number: told}, [*supposed.told, told]
        beliefs = replace(self.beliefs, history=supposed)
        return bool(beliefs.expect([tried.center]).risks()[0] >= _HOPELESS)

    def close(self) -> None:
        """Close the record on disk."""
        if self.journal is not None:
            self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, event: Event) -> Record:
        """Record what happened; public for `lifesafe.operation`, which owns the events of operation."""
        if self._interrupted:
            raise JournalError("This optimizer was interrupted while it recorded an event; open the run again.")
        self._interrupted = True  # until both the record and the memory have it
        try:
            if self.journal is not None:
                record = self.journal.append(event)
            else:
                text = e.encode(event)
                time = datetime.now(UTC).isoformat(timespec="microseconds")
                record = Record(self._count + 1, e.decode(e.kind_of(event), text), time, "")
        except Exception:
            self._interrupted = False  # nothing was recorded
            raise
        self._fold(record)
        self._interrupted = False
        return record

    def _fold(self, record: Record) -> None:
        self._books.apply(record)
        self._count, self.beliefs, self._chosen = record.number, self._books.beliefs, None

    def _choose(self) -> Choice | Done:
        if self._chosen is None:
            asks_account = self._books.problem.promise == "total" and not all(self.beliefs.sure)
            self._chosen = (newcomers if asks_account else choice).choose(self.beliefs)
        return self._chosen

    def _check(self, record: Record) -> None:
        """Refuse a record that does not follow from those before it."""
        match record.event:
            case e.Asked() as asked:
                found = self._choose()
                if isinstance(found, Done) or not _agree(found, asked):
                    raise JournalError(
                        f"Event {record.number}: trial {asked.trial} does not follow from what was recorded before it."
                        " The record was changed, or another version of lifesafe decided."
                    )
            case e.Snapshot() as snapshot:
                holds = () if self._books.account is None else self._books.account.holds
                sums = tuple(each.totals for each in self.history.services)
                if (snapshot.services, snapshot.account) != (sums, holds):
                    raise JournalError(f"Event {record.number}: the snapshot does not sum up what was recorded before.")

    def _open(self, trial: Trial) -> Tried:
        tried = self._books.history.open
        if not isinstance(trial, Trial):
            raise TrialError(f"Give the trial that ask() returned; got {trial!r}.")
        if tried is None:
            dropped = trial.number in self.history.trials and self.history.trials[trial.number].dropped
            why = "a retraction has dropped it" if dropped else "no trial is"
            raise TrialError(f"Trial {trial.number} is not open: {why}. Call ask() first.")
        if trial != self.open_trial:
            raise TrialError(f"Trial {trial.number} is not the open one; trial {tried.number} is.")
        return tried

    def checked(self, episodes: Sequence[Returns], most: int | None = None) -> tuple[e.EpisodeReturns, ...]:
        """Return the returns of at most so many episodes as plain numbers, or refuse them; nothing is recorded.

        Raises:
            TrialError: If they do not fit the problem.
        """
        if not isinstance(episodes, Sequence):
            raise TrialError(f"Episodes are given as a list of Returns, in the order of the targets; got {episodes!r}.")
        rows, problem = returns_array(episodes), self._books.problem
        if most is not None and len(rows) > most:
            raise TrialError(f"Got {len(rows)} episodes for a trial of {most}; tell one for each target, in order.")
        if rows.shape[1] != 1 + len(problem.limits):
            raise TrialError(f"Got episodes with {rows.shape[1] - 1} costs; the problem has {len(problem.limits)}.")
        low, high = problem.rewards  # type: ignore[misc]  # made so by the problem
        size = np.abs(rows) / np.minimum([high - low, *problem.limits], 1.0)  # squares must not overflow
        if size.max() > _LARGEST:
            raise TrialError(f"Got a return of {rows.flat[size.argmax()]:g}; that is no return of an episode.")
        for k, column in enumerate(rows.T[1:]):
            if column.min() < 0:
                raise TrialError(
                    f"Episode {int(column.argmin()) + 1} has a cost of {column.min():g}; costs are never negative. If"
                    " less is better without end, it is a reward."
                )
            if problem.largest is not None and column.max() > problem.largest[k] * (1 + ROUNDING):
                raise TrialError(
                    f"Episode {int(column.argmax()) + 1} has a cost of {column.max():g}, and no episode can cost more"
                    f" than {problem.largest[k]:g} (largest). Check the units, or begin a run with the true largest"
                    " cost."
                )
        return tuple(map(tuple, rows.tolist()))


def check_moves(problem: Problem) -> None:
    """Refuse a problem whose search could never leave its start.

    Raises:
        ConfigError: With the reason, and the way out.
    """
    if problem.listed is None or all(problem.sure) or problem.promise == "total":
        return
    X = problem.scaled(problem.starts)
    distance = np.abs(problem.listed[:, None] - X[None]).max(axis=-1)
    nearest = float(distance[distance > 1e-12].min())
    if nearest > choice.SCOUT_REACH + 1e-9:
        raise ConfigError(
            f"The target nearest to a start is {nearest:.2g} of an axis away, and a search looks no further than"
            f" {choice.SCOUT_REACH:g}: nothing but the starts could be tried. List targets between them, or give the"
            " axes alone and let the search choose in the box."
        )


def _agree(one: e.Asked, other: e.Asked) -> bool:
    """Return whether two decisions are the same, up to rounding."""
    if (one.stage, one.tickets, len(one.paid)) != (other.stage, other.tickets, len(other.paid)):
        return False
    if [len(x) for x in one.targets] != [len(x) for x in other.targets]:
        return False
    a, b = (np.concatenate([*x.targets, *x.paid, (x.charge, x.allowance)]) for x in (one, other))
    return a.shape == b.shape and np.allclose(a, b, rtol=_AGREEMENT, atol=_AGREEMENT)


def _difference(recorded: Problem, given: Problem) -> str:
    there, here = recorded.to_plain(), given.to_plain()
    names = [name for name in there if there[name] != here[name]]
    return "; ".join(f"{name} is {there[name]} there, {here[name]} here" for name in names[:3])


def _reason(text: str, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise TrialError(f"The reason is empty; say why {what}, for those who read the record.")
    return text.strip()
