"""What was known after every trial of a run, read from its journal or from an optimizer in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from lifesafe._config import from_plain
from lifesafe.errors import GuaranteeWarning, JournalError
from lifesafe.optimizer import Problem, Recommendation, Result, SafeOptimizer, Schedule, Stage, Trial
from lifesafe.optimizer.calibration import Calibration, calibration
from lifesafe.optimizer.decision import admissible
from lifesafe.optimizer.journal import JOURNAL, Event, read_events
from lifesafe.optimizer.optimizer import OPERATION
from lifesafe.optimizer.recommendation import recommend
from lifesafe.optimizer.sets import frontier_mask
from lifesafe.optimizer.state import State, known_now
from lifesafe.returns import Returns


@dataclass(frozen=True, eq=False)
class Moment:
    """What was known after one trial."""

    result: Result
    """The trial, with what it showed."""
    limits: tuple[float, ...]
    """Limits at that time."""
    noise_sds: tuple[float, ...]
    """How well the mean of each cost of the trial is known: one standard deviation, raw units."""
    spent: float
    """Risk charged so far under these limits."""
    safe: Bool[np.ndarray, " n"]
    """Safe set: the candidates that may be tried now."""
    frontier: Bool[np.ndarray, " n"]
    """Candidates that are not known to be safe, nor unsafe, and could still be the best."""
    closed: Bool[np.ndarray, " n"]
    """Candidates closed by a violation nearby."""
    best: Recommendation | None
    """The target to operate, if one is fit for it."""

    @property
    def mean_costs(self) -> tuple[float, ...]:
        """Mean of each cost over the episodes of the trial."""
        return tuple(float(cost) for cost in self.result.episodes[:, 1:].mean(axis=0))


@dataclass(frozen=True, eq=False)
class History:
    """A run, moment by moment."""

    problem: Problem
    """The problem at the end; only the limits and seeds of a problem ever change."""
    schedule: Schedule
    moments: tuple[Moment, ...]
    """One per trial told, in the order of telling."""
    calibration: Calibration
    state: State
    """All that a decision would depend on at the end."""

    @property
    def best(self) -> Recommendation | None:
        """The target to operate at the end."""
        return self.moments[-1].best if self.moments else None

    @property
    def is_stranded(self) -> bool:
        """Whether the search has ended because no seed is left, and no other target is known to be safe."""
        return not self.state.open and _is_stranded(self.state)

    @classmethod
    def read(cls, run: Path) -> History:
        """Return the history of the run in a directory; a writer may be active.

        Raises:
            JournalError: If there is no journal, it is damaged, or it is no record of an optimizer.
        """
        return cls.from_events(read_events(journal_path(run)), str(run))

    @classmethod
    def from_events(cls, events: Sequence[Event], source: str = "the journal") -> History:
        """Return the history that the events of a journal tell.

        The decisions are taken as recorded; `SafeOptimizer.replay` makes them again and compares.

        Raises:
            JournalError: If the events are no record of an optimizer.
        """
        if not events or events[0].kind != "opened":
            raise JournalError(f"{source} does not begin with an opened run; it is no record of an optimizer.")
        opened = events[0].body
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)  # given when the run was opened
            schedule = from_plain(Schedule, opened["schedule"])
        state = State(Problem.from_plain(opened["problem"]), schedule)
        return cls._told(state, (_apply(state, event, source) for event in events[1:]))

    @classmethod
    def from_optimizer(cls, optimizer: SafeOptimizer) -> History:
        """Return the history of an optimizer in memory.

        It does not remember when its limits were changed: all trials are shown under the limits it has now. A
        journal does remember.
        """
        state = State(optimizer.problem, optimizer.schedule)
        return cls._told(state, (_repeat(state, result) for result in optimizer.trials))

    @classmethod
    def _told(cls, state: State, results: Iterator[Result | None]) -> History:
        moments = tuple(_moment(state, result) for result in results if result is not None)
        return cls(state.problem, state.schedule, moments, calibration(state), state)


def journal_path(run: Path) -> Path:
    """Return the journal of a run, given its directory or the journal itself.

    Raises:
        JournalError: If there is none.
    """
    path = run if run.is_file() else run / JOURNAL
    if not path.exists():
        what = "has no journal.sqlite" if run.exists() else "does not exist"
        raise JournalError(f"{run} {what}; give the directory of a run, such as runs/demo.")
    return path


def _apply(state: State, event: Event, source: str) -> Result | None:
    """Let an event change the state, and return the result if it told a trial."""
    body = event.body
    if event.kind == "told":
        return state.tell(body["trial"], np.array(body["episodes"], dtype=np.float64))
    if event.kind == "asked":
        state.ask(_trial(body))
    elif event.kind == "confirmed":
        state.confirm()
    elif event.kind == "violation":
        pass  # a note for readers of the journal; the state knows from the trial itself
    elif event.kind == "limits":
        state.change(state.problem.with_limits(body["limits"], body["seeds"]))
    elif event.kind in OPERATION:
        state.operate(event.kind, body)
    else:
        raise JournalError(f"{source}: event {event.number} is of the unknown kind {event.kind!r}.")
    return None


def _repeat(state: State, result: Result) -> Result:
    state.ask(result.trial)
    return state.tell(result.trial.number, result.episodes)


def _trial(body: dict[str, Any]) -> Trial:
    reward, *costs = body["target"]
    return Trial(
        number=body["trial"],
        target=Returns(reward, costs),
        index=body["index"],
        stage=Stage(body["stage"]),
        episodes=body["episodes"],
        risk=body["risk"],
    )


def _is_stranded(state: State) -> bool:
    if state.seed is not None:
        return False
    return state.stage is Stage.SEED or not admissible(state, known_now(state)).any()


def _moment(state: State, result: Result) -> Moment:
    known, posterior = known_now(state), state.posterior
    safe = admissible(state, known)
    frontier = frontier_mask(known, safe, state.distance, state.schedule.reach, state.closed)
    costs = result.episodes[:, 1:].T
    return Moment(
        result=result,
        limits=state.problem.limits,
        noise_sds=tuple(posterior.noise_sd(k, x) for k, x in enumerate(costs)),
        spent=state.spent,
        safe=safe,
        frontier=np.zeros_like(frontier) if _is_stranded(state) else frontier,
        closed=state.closed.copy(),
        best=recommend(state),
    )
