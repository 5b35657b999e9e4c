"""The facts of a run, folded from its events: what was asked and told, what was served, what was said.

Nothing here judges; `safety.beliefs` folds the same events into what is believed of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe.errors import JournalError
from lifesafe.journal import events as e
from lifesafe.journal.events import EpisodeReturns, Point
from lifesafe.journal.store import Record

_OfTarget = tuple[Point, int, Float[np.ndarray, " r"], Float[np.ndarray, " r"]]


@dataclass
class Tried:
    """A trial: what was asked for and, once told, what came back."""

    asked: e.Asked
    limits: tuple[float, ...]
    """Limits when it was asked for."""
    asked_at: str
    asked_number: int
    """Number of the event."""
    told: tuple[EpisodeReturns, ...] | None = None
    """What counts of it: what was told, or what replaced that; none while it is open or after a retraction."""
    first_told: tuple[EpisodeReturns, ...] = ()
    """What was told at first, whatever replaced it."""
    told_at: str = ""
    told_number: int = 0
    retracted: e.Retracted | None = None
    retracted_number: int = 0
    counted_number: int = 0
    """Number of the event that brought what counts of it: the telling, or the retraction that replaced it."""
    dropped: bool = False
    """Whether it was open when another trial was retracted: it rested on what was wrong, and is never told."""
    was_told: int = 0
    """Episodes that were run, whatever became of them."""

    def __post_init__(self) -> None:
        self.number, self.center = self.asked.trial, self.asked.targets[0]
        self.points = tuple(self.asked.targets[i] for i in self.asked.tickets)
        """The target of every episode that was asked for."""
        self.keep(self.told)

    def keep(self, told: tuple[EpisodeReturns, ...] | None) -> None:
        """Let some episodes be what counts."""
        self.told = told
        self.episodes = np.array(told or (), dtype=np.float64).reshape(-1, len(self.limits) + 1)
        """Returns of every episode that counts, the reward first."""
        costs = self.episodes[:, 1:]
        self.largest = costs.max(axis=0, initial=0.0)
        """Largest cost of these episodes."""
        self.mean_costs = costs.sum(axis=0) / max(len(costs), 1)
        """Mean costs of these episodes; 0 if there are none."""
        tickets = np.array(self.asked.tickets[: len(costs)], dtype=np.intp)
        own = [(target, self.episodes[tickets == i]) for i, target in enumerate(self.asked.targets)]
        self.by_target: list[_OfTarget] = [
            (target, len(rows), rows.sum(axis=0), (rows**2).sum(axis=0)) for target, rows in own if len(rows)
        ]
        """For each target with episodes that count: how many, the sums of their returns, and of the squares."""


@dataclass
class Service:
    """The time during which one target was served, with what its episodes add up to."""

    serving: e.Serving
    began: str
    number: int
    """Of the event."""
    stops: tuple[float, ...] | None
    """Costs at which an episode is ended, if there are any."""
    episodes: int = 0
    sums: Float[np.ndarray, " r"] = field(default_factory=lambda: np.zeros(0))
    squares: Float[np.ndarray, " r"] = field(default_factory=lambda: np.zeros(0))
    largest: Float[np.ndarray, " k"] = field(default_factory=lambda: np.zeros(0))
    """Largest cost of an episode."""
    above: int = 0
    """Episodes that cost more than a limit."""
    ended: int = 0
    """Episodes that were ended by the stop."""
    alarm: e.Alarm | None = None
    alarm_number: int = 0

    def __post_init__(self) -> None:
        costs = len(self.serving.limits)
        self.sums, self.squares, self.largest = np.zeros(1 + costs), np.zeros(1 + costs), np.zeros(costs)

    @property
    def target(self) -> Point:
        return self.serving.target

    @property
    def means(self) -> Float[np.ndarray, " r"]:
        """Mean returns of its episodes."""
        return np.asarray(self.sums / self.episodes) if self.episodes else np.full(len(self.sums), np.nan)

    def add(self, episodes: Float[np.ndarray, "m r"]) -> None:
        """Add episodes, one after the other: sums are then the same however the episodes are split."""
        costs = episodes[:, 1:]
        for row in episodes:
            self.sums = self.sums + row
            self.squares = self.squares + row**2
        self.episodes += len(episodes)
        self.largest = np.maximum(self.largest, costs.max(axis=0, initial=0.0))
        self.above += int((costs > np.array(self.serving.limits)).any(axis=1).sum())
        if self.stops is not None:
            self.ended += int((costs >= np.array(self.stops)).any(axis=1).sum())

    @property
    def totals(self) -> e.Totals:
        """What a snapshot keeps."""
        return e.Totals(
            episodes=self.episodes,
            sums=tuple(self.sums.tolist()),
            squares=tuple(self.squares.tolist()),
            largest=tuple(self.largest.tolist()),
            above=self.above,
            ended=self.ended,
        )

    def restore(self, totals: e.Totals) -> None:
        """Take over what a snapshot kept."""
        self.episodes, self.above, self.ended = totals.episodes, totals.above, totals.ended
        self.sums, self.squares = np.array(totals.sums), np.array(totals.squares)
        self.largest = np.array(totals.largest)


class History:
    """What happened in a run so far. `apply` adds one event."""

    def __init__(self) -> None:
        self.opened: e.Opened | None = None
        self.limits: tuple[float, ...] = ()
        """Limits now."""
        self.trials: dict[int, Tried] = {}
        """By number, in the order of asking."""
        self.told: list[Tried] = []
        """The trials that were told, in the order of asking."""
        self.open: Tried | None = None
        """The trial that was asked for and is still to be told."""
        self.services: list[Service] = []
        self.snapshot: e.Snapshot | None = None
        """The last one since the target that is served began to be served."""
        self.recent: list[EpisodeReturns] = []
        """Episodes served since then."""
        self.halted: e.Halted | None = None
        """Why no target is served, unless a trial has been told since."""
        self.confirmed: list[tuple[int, e.Confirmed]] = []
        """With the numbers of the events."""
        self.limited: list[tuple[int, e.Limited]] = []
        self.limited_at = 0
        """Number of the last event that changed the limits."""
        self.judged_at = 0
        """Number of the last event, other than of operation, that can change what is believed of a target."""

    @property
    def problem(self) -> dict[str, Any]:
        """The problem as it was recorded.

        Raises:
            JournalError: If the events do not begin with one.
        """
        if self.opened is None:
            raise JournalError("The journal does not begin with an opened run; it is no record of a search.")
        return self.opened.problem

    @property
    def searched(self) -> int:
        """Episodes that trials took so far, those of retracted ones included."""
        return sum(tried.was_told for tried in self.trials.values())

    @property
    def served(self) -> int:
        """Episodes of operation so far."""
        return sum(service.episodes for service in self.services)

    @property
    def largest(self) -> Float[np.ndarray, " k"]:
        """Largest cost of an episode that counts."""
        told, served = [each.largest for each in self.told], [each.largest for each in self.services]
        return np.asarray(np.max([np.zeros(len(self.limits)), *told, *served], axis=0))

    @property
    def serving(self) -> Service | None:
        """What is being served; none before the first time, after an alarm, and once halted."""
        if not self.services or self.halted is not None or self.services[-1].alarm is not None:
            return None
        return self.services[-1]

    def apply(self, record: Record) -> None:
        """Add what happened.

        Raises:
            JournalError: If it cannot have happened after what happened before.
        """
        event, number, time = record.event, record.number, record.time
        match event:
            case e.Opened():
                if self.opened is not None:
                    raise _not_whole("The run was opened twice")
                self.opened, self.limits = event, tuple(event.problem["limits"])
            case e.Asked():
                if event.trial in self.trials or self.open is not None:
                    raise _not_whole(f"Trial {event.trial} was asked for twice, or while another was open")
                if not event.targets or not all(0 <= i < len(event.targets) for i in event.tickets):
                    raise _not_whole(f"Trial {event.trial} asks for targets that it does not name")
                self.open = self.trials[event.trial] = Tried(event, self.limits, time, number)
            case e.Told() | e.Retracted():
                self._tell(event, number, time)
            case e.Confirmed():
                self.confirmed.append((number, event))
            case e.Limited():
                self.limits, self.limited_at, self.judged_at = event.limits, number, number
                self.limited.append((number, event))
            case e.Serving():
                stops = self.problem.get("stop_at")
                self.services.append(Service(event, time, number, None if stops is None else tuple(stops)))
                self.halted, self.snapshot, self.recent = None, None, []
            case e.Served() | e.Alarm() if not self.services:
                raise _not_whole("Episodes were served before any target was")
            case e.Served():
                self.recent.extend(event.episodes)
                self.services[-1].add(np.array(event.episodes, dtype=np.float64))
            case e.Alarm():
                self.services[-1].alarm, self.services[-1].alarm_number = event, number
            case e.Halted():
                self.halted = event
            case e.Snapshot():
                if len(event.services) != len(self.services):
                    there = len(self.services)
                    raise _not_whole(f"A snapshot sums up {len(event.services)} services, and there were {there}")
                self.snapshot, self.recent = event, []
                for service, totals in zip(self.services, event.services, strict=True):
                    service.restore(totals)
            case _:
                raise JournalError(f"No fact is known of the event {event!r}.")

    def _tell(self, event: e.Told | e.Retracted, number: int, time: str) -> None:
        tried, episodes = self.trials.get(event.trial), event.episodes or ()
        if tried is None:
            raise _not_whole(f"Trial {event.trial} was told and never asked for")
        if len(episodes) > len(tried.points):
            counts = f"{len(episodes)} episodes and asked for {len(tried.points)}"
            raise _not_whole(f"Trial {event.trial} was told {counts}")
        if isinstance(event, e.Told):
            if tried is not self.open:
                raise _not_whole(f"Trial {event.trial} was told twice")
            tried.first_told, tried.was_told = episodes, len(episodes)
            tried.told_at, tried.told_number = time, number
            self.told.append(tried)
            self.halted = None  # there is new evidence since
        else:
            if not tried.told_at or tried.retracted is not None:
                raise _not_whole(f"Trial {event.trial} was retracted twice, or never told")
            tried.retracted, tried.retracted_number = event, number
            if self.open is not None:
                self.open.dropped = True
        tried.keep(event.episodes)
        tried.counted_number = self.judged_at = number
        self.open = None


def _not_whole(why: str) -> JournalError:
    return JournalError(f"{why}; the record is not whole.")
