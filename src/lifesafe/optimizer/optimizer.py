"""SafeOptimizer: ask for a target, try it, tell what it returned; in memory or on disk."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Bool, Float

from lifesafe._config import from_plain, to_plain
from lifesafe.errors import ConfigError, GuaranteeWarning, JournalError, NoSafeTargetError, TrialError
from lifesafe.optimizer.certificates import within_bounds
from lifesafe.optimizer.confidence import Bands, raw_bands
from lifesafe.optimizer.decision import Decision, admissible, check_prior, check_steps, decide, is_done
from lifesafe.optimizer.dither import dithered
from lifesafe.optimizer.journal import JOURNAL, Event, Journal
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.recommendation import Recommendation, fit_targets, recommend
from lifesafe.optimizer.schedule import Schedule, Stage
from lifesafe.optimizer.state import Result, State, Trial, known_now
from lifesafe.returns import Returns, returns_array

NOTES = ("serving", "halted")
OPERATION = ("served", "alarm", *NOTES)
_LARGEST = 1e100  # size of a return; squares of larger ones overflow
_AGREEMENT = 1e-6  # relative difference up to which a replayed number counts as the recorded one


class SafeOptimizer:
    """Finds the target with the most reward, trying only targets known to be safe.

    Examples:
        >>> axes = [np.linspace(0, 500, 31), np.linspace(0, 60, 31)]
        >>> problem = Problem.on_grid(axes, seeds=[Returns(200, 2)], limits=20.0)
        >>> optimizer = SafeOptimizer(problem)
        >>> trial = optimizer.ask()
        >>> trial.number, trial.stage.value, trial.target
        (1, 'seed', Returns(reward=200.0, costs=(2.0,)))
        >>> optimizer.tell(trial, [Returns(190, 3.0), Returns(205, 4.0)])
        >>> optimizer.ask().number
        2
    """

    def __init__(self, problem: Problem, schedule: Schedule | None = None) -> None:
        schedule = schedule or Schedule()
        check_steps(problem, schedule)
        self._start(problem, schedule)

    def _start(self, problem: Problem, schedule: Schedule) -> None:
        check_prior(problem, schedule)
        self._state = State(problem, schedule)
        self._journal: Journal | None = None
        self._noted: set[int] = set()  # trials whose violation is in the journal
        self._operation: list[tuple[str, dict[str, Any]]] = []
        self._interrupted = False

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], problem: Problem | None = None, schedule: Schedule | None = None
    ) -> Self:
        """Open the run in a directory, or begin one there; every event is on disk before the call returns.

        Args:
            path: Directory of the run; the record is its `journal.sqlite`.
            problem: The problem; may be left out when the run exists.
            schedule: The schedule; when the run exists it must be the recorded one or left out.

        Raises:
            JournalError: If the record belongs to another problem or schedule, is damaged, is open elsewhere, or
                does not replay to the same decisions.
        """
        journal = Journal.open(Path(path) / JOURNAL)
        try:
            if not journal.events:
                return cls._begin(journal, problem, schedule)
            optimizer = cls._replay(journal.events, str(journal.path))
            optimizer._check_same(journal, problem, schedule)
            optimizer._journal = journal
            optimizer._note_violations()
            return optimizer
        except BaseException:
            journal.close()
            raise

    @classmethod
    def replay(cls, events: Sequence[Event], source: str = "the journal") -> Self:
        """Return the optimizer in the state that recorded events lead to, in memory.

        Raises:
            JournalError: If a decision made now differs from the recorded one.
        """
        return cls._replay(events, source)

    @property
    def problem(self) -> Problem:
        return self._state.problem

    @property
    def schedule(self) -> Schedule:
        return self._state.schedule

    @property
    def stage(self) -> Stage:
        return Stage.DONE if not self._state.open and is_done(self._state) else self._state.stage

    @property
    def trials(self) -> tuple[Result, ...]:
        """The trials told so far, with what they showed."""
        return tuple(self._state.results)

    @property
    def open_trials(self) -> tuple[Trial, ...]:
        """The trials asked for and not yet told."""
        return tuple(self._state.open.values())

    @property
    def best(self) -> Recommendation | None:
        """The target to operate: tried, certified by the model and by its own episodes; none if there is none."""
        return recommend(self._state)

    @property
    def fit(self) -> tuple[Recommendation, ...]:
        """All targets fit to be operated, those that earn more for certain first."""
        return tuple(fit_targets(self._state))

    @property
    def safe(self) -> Bool[np.ndarray, " n"]:
        """Mask of the candidates known to be safe; while the first seed is being certified there is none."""
        return admissible(self._state, known_now(self._state))

    @property
    def bands(self) -> Bands:
        """Confidence bounds of every return at every candidate, raw units."""
        return raw_bands(self.problem, known_now(self._state))

    @property
    def spent(self) -> float:
        """Risk charged so far; never more than delta under the ledger."""
        return self._state.spent

    @property
    def frozen(self) -> bool:
        """Whether surprises have stopped the search; `confirm` lets it go on."""
        return self._state.frozen

    @property
    def held_by(self) -> Literal["surprises", "violation"] | None:
        """What holds up the search until `confirm` is called; none if nothing does."""
        return self._state.held_by

    def ask(self) -> Trial | None:
        """Return the trial to run now, or none when done; the same one until it is told.

        Raises:
            NoSafeTargetError: If no target is known to be safe.
        """
        trials = self.ask_many(1)
        return trials[0] if trials else None

    def ask_many(self, count: int) -> tuple[Trial, ...]:
        """Return up to so many trials to run at once; each is admissible on what was really observed.

        Raises:
            NoSafeTargetError: If no target is known to be safe.
        """
        if count < 1:
            raise TrialError(f"Asked for {count} trials; ask for at least one.")
        while len(self._state.open) < count:
            decision = decide(self._state)
            if decision is None:
                break
            trial = _trial(self._state, decision)
            with self._recorded("asked", _asked(trial, decision)):
                self._state.ask(trial)
        return self.open_trials[:count]

    def targets(self, trial: Trial) -> list[Returns]:
        """Return what to ask for in each episode of a trial: its target, dithered if the problem says so."""
        return dithered(self.problem, trial.target, range(trial.episodes), "trial", trial.number)

    def tell(self, trial: Trial, episodes: Sequence[Returns]) -> None:
        """Record the returns of every episode of an open trial.

        Raises:
            TrialError: If the trial is not open here, or the returns do not fit; nothing is changed then.
        """
        self._check_open(trial)
        returns = self._checked(episodes)
        was_frozen = self._state.frozen
        with self._recorded("told", {"trial": trial.number, "episodes": returns.tolist()}):
            result = self._state.tell(trial.number, returns)
        self._warn(result, was_frozen)
        with suppress(JournalError):  # the trial itself is on disk; the note is tried again with the next one
            self._note_violations()

    def confirm(self, reason: str = "") -> None:
        """Let the search go on after surprises or a violation: you have looked at them and still trust the model.

        Args:
            reason: Why you do, for the record.

        Raises:
            TrialError: If the search is not held up.
        """
        if self.held_by is None:
            raise TrialError("There is nothing to confirm: the search is not held up.")
        with self._recorded("confirmed", {"reason": reason} if reason else {}):
            self._state.confirm()

    def change_limits(self, limits: float | Sequence[float], seeds: Sequence[int] | None = None) -> None:
        """Go on under other limits with everything observed so far; the risk ledger starts again.

        Args:
            limits: One limit per cost.
            seeds: Candidates believed safe under the new limits; needed when a limit becomes lower.

        Raises:
            ConfigError: If no limit changes, one becomes lower and no seeds are named, or under the new ones the prior
                alone would count targets as safe.
            TrialError: If a trial is open.
        """
        if self._state.open:
            raise TrialError(f"Trials {sorted(self._state.open)} are open; tell them before changing the limits.")
        problem = self.problem.with_limits(limits, seeds)
        if problem.limits == self.problem.limits:
            raise ConfigError(f"The limits are {problem.limits} already; the risk that was spent stays spent.")
        check_prior(problem, self.schedule)
        with self._recorded("limits", {"limits": list(problem.limits), "seeds": list(problem.seeds)}):
            self._state.change(problem)

    def serve(self, index: int, episodes: Sequence[Returns], verdict: Mapping[str, Any] | None = None) -> None:
        """Record episodes of a target in operation; they improve the model, and cost no risk.

        Args:
            index: Candidate that was served; it must have been tried.
            episodes: What each episode returned.
            verdict: What the monitor says, for the record: plain values.

        Raises:
            TrialError: If the target was never tried, or the returns do not fit; nothing is changed then.
        """
        if not any(result.trial.index == index for result in self._state.results):
            raise TrialError(f"Candidate {index} was never tried; operate a target that was tried and certified.")
        returns = self._checked(episodes)
        with self._logged("served", {"index": index, "episodes": returns.tolist(), "verdict": dict(verdict or {})}):
            self._state.serve(index, returns)

    def withdraw(self, index: int, why: Mapping[str, Any]) -> None:
        """Record an alarm in operation: the target is not tried, recommended or used as a seed any more."""
        with self._logged("alarm", {"index": index, **why}):
            self._state.withdraw(index)

    def note(self, kind: str, body: Mapping[str, Any]) -> None:
        """Record something that changes nothing here: which target is being served, or that operation has halted.

        Raises:
            TrialError: If the kind is not one of those.
        """
        if kind not in NOTES:
            raise TrialError(f"Unknown note {kind!r}; the record takes {' and '.join(NOTES)}.")
        with self._logged(kind, dict(body)):
            pass

    @property
    def operation(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """What happened in operation, in order: kind and body of every such event."""
        return tuple(self._operation)

    def close(self) -> None:
        """Close the record on disk."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warn(self, result: Result, was_frozen: bool) -> None:
        number, costs = result.trial.number, result.episodes[:, 1:]
        if not within_bounds(self.problem, result.episodes):
            warnings.warn(
                f"Trial {number} at {result.trial.target} had costs from {_shown(costs.min(axis=0))} to"
                f" {_shown(costs.max(axis=0))}, and cost_bounds says 0 to {_shown(self.problem.cost_bounds)}. What"
                " is bet on that, a seed's certificate and the monitor, does not hold: begin a run with true bounds.",
                GuaranteeWarning,
                stacklevel=3,
            )
        if result.violated:
            held = "Nothing new is tried from now on; confirm() goes on regardless."
            warnings.warn(
                f"Trial {number} at {result.trial.target} exceeded a limit: mean costs "
                f"{_shown(costs.mean(axis=0))}, limits {_shown(self.problem.limits)}. "
                f"{held if self._state.holding else 'Its neighborhood is closed.'}",
                GuaranteeWarning,
                stacklevel=3,
            )
        if self._state.frozen and not was_frozen:
            warnings.warn(
                f"{self._state.surprises} trials cost far more than predicted, so the model may be wrong. Only seeds "
                "are tried from now on; confirm() goes on regardless.",
                GuaranteeWarning,
                stacklevel=3,
            )

    def _note_violations(self) -> None:
        """Journal violations as such; one that a crash kept from being noted is noted on the next opening."""
        for result in self._state.results:
            if result.violated and result.trial.number not in self._noted:
                means = result.episodes.mean(axis=0).tolist()
                with self._recorded("violation", {"trial": result.trial.number, "means": means}):
                    self._noted.add(result.trial.number)

    def _checked(self, episodes: Sequence[Returns]) -> Float[np.ndarray, "m r"]:
        returns = returns_array(episodes)
        costs = len(self.problem.limits)
        if returns.shape[1] != 1 + costs:
            raise TrialError(f"Episodes have {returns.shape[1] - 1} costs, the problem has {costs}.")
        if np.abs(returns).max() > _LARGEST:
            raise TrialError(f"Returns must lie within {_LARGEST:g} of zero; got {np.abs(returns).max():g}.")
        return returns

    def _check_open(self, trial: Trial) -> None:
        mine = self._state.open.get(trial.number)
        if mine == trial:
            return
        if mine is None and any(result.trial.number == trial.number for result in self._state.results):
            raise TrialError(f"Trial {trial.number} was told already.")
        numbers = sorted(self._state.open) or "none"
        raise TrialError(f"Trial {trial.number} at {trial.target} is not open here; open trials: {numbers}.")

    @contextmanager
    def _recorded(self, kind: str, body: dict[str, Any]) -> Iterator[None]:
        """Record an event, then let it happen here; an interrupt between the two is the end of this optimizer."""
        if self._interrupted:
            again = "begin anew" if self._journal is None else f"open {self._journal.path.parent} again"
            raise JournalError(f"An event was interrupted half-way, so memory and record may differ; {again}.")
        try:
            if self._journal is not None:
                self._journal.append(kind, body)
            yield
        except JournalError:  # it was not recorded, and nothing has happened
            raise
        except BaseException:
            self._interrupted = True
            self.close()
            raise

    @contextmanager
    def _logged(self, kind: str, body: dict[str, Any]) -> Iterator[None]:
        with self._recorded(kind, body):
            self._operation.append((kind, body))
            yield

    @classmethod
    def _begin(cls, journal: Journal, problem: Problem | None, schedule: Schedule | None) -> Self:
        if problem is None:
            raise JournalError(f"{journal.path} records no run yet; give a problem to begin one.")
        optimizer = cls(problem, schedule)
        body = {
            "problem": problem.to_plain(),
            "schedule": to_plain(optimizer.schedule),
            "fingerprint": problem.fingerprint,
        }
        journal.append("opened", body)
        optimizer._journal = journal
        return optimizer

    @classmethod
    def _replay(cls, events: Sequence[Event], source: str) -> Self:
        if not events or events[0].kind != "opened":
            raise JournalError(f"{source} does not begin with an opened run; it is no record of an optimizer.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)  # they were given when the events happened
            opened = events[0].body
            optimizer = cls.__new__(cls)  # a record is taken as it is, even of a search that could not move
            optimizer._start(Problem.from_plain(opened["problem"]), from_plain(Schedule, opened["schedule"]))
            for event in events[1:]:
                optimizer._repeat(event, source)
        return optimizer

    def _repeat(self, event: Event, source: str) -> None:
        body, state = event.body, self._state
        if event.kind == "asked":
            decision = None
            with suppress(NoSafeTargetError):  # the record has a trial all the same
                decision = decide(state)
            decided = None if decision is None else _asked(_trial(state, decision), decision)
            if decision is None or not _agrees(body, decided):
                raise JournalError(
                    f"{source}: event {event.number} records trial {body['trial']} at candidate {body['index']} "
                    f"({body['stage']}), but the events before it lead to {_difference(body, decided)}. The record was "
                    "made by another version of lifesafe or NumPy; resume with that one."
                )
            state.ask(_trial(state, decision))
        elif event.kind == "told":
            state.tell(body["trial"], np.array(body["episodes"], dtype=np.float64))
        elif event.kind == "violation":
            self._noted.add(body["trial"])
        elif event.kind == "confirmed":
            state.confirm()
        elif event.kind == "limits":
            state.change(self.problem.with_limits(body["limits"], body["seeds"]))
        elif event.kind in OPERATION:
            self._operation.append((event.kind, body))
            state.operate(event.kind, body)
        else:
            raise JournalError(f"{source}: event {event.number} is of the unknown kind {event.kind!r}.")

    def _check_same(self, journal: Journal, problem: Problem | None, schedule: Schedule | None) -> None:
        source, original = journal.path, journal.events[0].body["fingerprint"]
        # A script that is run again gives the problem it began with, though the limits may have changed since.
        if problem is not None and problem.fingerprint not in (original, self.problem.fingerprint):
            raise JournalError(
                f"{source} records problem {original[:8]}, expected {problem.fingerprint[:8]}. "
                "Give another path or the original problem."
            )
        if schedule is not None and schedule != self.schedule:
            raise JournalError(
                f"{source} records the schedule {self.schedule}, expected {schedule}. "
                "Give another path or leave the schedule out."
            )


def _trial(state: State, decision: Decision) -> Trial:
    return Trial(
        number=state.asked + 1,
        target=state.problem.target(decision.index),
        index=decision.index,
        stage=decision.stage,
        episodes=state.schedule.episodes_of(decision.stage),
        risk=decision.risk,
    )


def _asked(trial: Trial, decision: Decision) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "index": trial.index,
        "target": list(trial.target),
        "stage": trial.stage.value,
        "episodes": trial.episodes,
        "risk": decision.risk,
        "allowance": decision.allowance,
        # A band without an upper end has none to record.
        "lower": [v if math.isfinite(v) else None for v in decision.lower],
        "upper": [v if math.isfinite(v) else None for v in decision.upper],
    }


def _agrees(recorded: Any, decided: Any) -> bool:
    if isinstance(decided, dict):
        return recorded.keys() == decided.keys() and all(_agrees(recorded[k], v) for k, v in decided.items())
    if isinstance(decided, list):
        return len(recorded) == len(decided) and all(map(_agrees, recorded, decided))
    if isinstance(decided, float) and isinstance(recorded, float):
        return math.isclose(recorded, decided, rel_tol=_AGREEMENT, abs_tol=1e-12)
    return bool(recorded == decided)


def _difference(recorded: Mapping[str, Any], decided: Mapping[str, Any] | None) -> str:
    if decided is None:
        return "no further trial"
    differing = [
        name for name in sorted(recorded.keys() | decided.keys()) if not _agrees(recorded.get(name), decided.get(name))
    ]
    return ", ".join(f"{name} {decided.get(name)} in place of {recorded.get(name)}" for name in differing)


def _shown(values: Sequence[float] | Float[np.ndarray, " k"]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
