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
from lifesafe.journal.events import Episode, Point
from lifesafe.journal.store import Record

_OfTarget = tuple[Point, int, Float[np.ndarray, " r"], Float[np.ndarray, " r"]]
_Sums = tuple[Float[np.ndarray, "m r"], Float[np.ndarray, " k"], Float[np.ndarray, " k"], list[_OfTarget]]


@dataclass
class Tried:
    """A trial: what was asked for and, once told, what came back."""

    asked: e.Asked
    limits: tuple[float, ...]
    """Limits when it was asked for."""
    asked_at: str
    asked_number: int
    """Number of the event."""
    told: tuple[Episode, ...] | None = None
    """What counts of it: what was told, or what replaced that; none while it is open or after a retraction."""
    first_told: tuple[Episode, ...] = ()
    """What was told at first, whatever replaced it."""
    told_at: str = ""
    told_number: int = 0
    retracted: e.Retracted | None = None
    retracted_number: int = 0
    dropped: bool = False
    """Whether it was open when another trial was retracted: it rested on what was wrong, and is never told."""
    was_told: int = 0
    """Episodes that were run, whatever became of them."""
    _summed: tuple[tuple[Episode, ...] | None, _Sums] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def number(self) -> int:
        return self.asked.trial

    @property
    def counted_number(self) -> int:
        """Number of the event that brought what counts of it: the telling, or the retraction that replaced it."""
        return self.retracted_number or self.told_number

    @property
    def is_open(self) -> bool:
        """Whether its episodes are still to be told."""
        return not self.told_at and not self.dropped

    @property
    def episodes(self) -> Float[np.ndarray, "m r"]:
        """Returns of every episode that counts, the reward first."""
        return self._sums[0]

    @property
    def largest(self) -> Float[np.ndarray, " k"]:
        """Largest cost of these episodes."""
        return self._sums[1]

    @property
    def mean_costs(self) -> Float[np.ndarray, " k"]:
        """Mean costs of these episodes; 0 if there are none."""
        return self._sums[2]

    @property
    def by_target(self) -> list[_OfTarget]:
        """For each target with episodes that count: how many, the sums of their returns, and of the squares."""
        return self._sums[3]

    @property
    def _sums(self) -> _Sums:
        """What `told` adds up to, computed once for everything that is told."""
        if self._summed is None or self._summed[0] is not self.told:
            rows = np.array(self.told or (), dtype=np.float64).reshape(-1, len(self.limits) + 1)
            tickets = np.array(self.asked.tickets[: len(rows)], dtype=np.intp)
            own = [(target, rows[tickets == i]) for i, target in enumerate(self.asked.targets)]
            sums = [(target, len(each), each.sum(axis=0), (each**2).sum(axis=0)) for target, each in own if len(each)]
            costs, count = rows[:, 1:], max(len(rows), 1)
            self._summed = (self.told, (rows, costs.max(axis=0, initial=0.0), costs.sum(axis=0) / count, sums))
        return self._summed[1]

    @property
    def points(self) -> tuple[Point, ...]:
        """The target of every episode that was asked for."""
        return tuple(self.asked.targets[i] for i in self.asked.tickets)

    @property
    def center(self) -> Point:
        """The target that most episodes are asked for."""
        return self.asked.targets[0]


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
        self.services: list[Service] = []
        self.snapshot: e.Snapshot | None = None
        """The last one since the target that is served began to be served."""
        self.recent: list[Episode] = []
        """Episodes served since then."""
        self.halted: e.Halted | None = None
        """Why no target is served, unless a trial has been told since."""
        self.confirmed: list[tuple[int, e.Confirmed]] = []
        """With the numbers of the events."""
        self.limited: list[tuple[int, e.Limited]] = []
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
    def told(self) -> list[Tried]:
        """The trials that were told, in the order of asking."""
        return [tried for tried in self.trials.values() if tried.told_at]

    @property
    def open(self) -> Tried | None:
        """The trial that was asked for and is still to be told."""
        return next((tried for tried in self.trials.values() if tried.is_open), None)

    @property
    def searched(self) -> int:
        """Episodes that trials took so far, those of retracted ones included."""
        return sum(tried.was_told for tried in self.trials.values())

    @property
    def served(self) -> int:
        """Episodes of operation so far."""
        return sum(service.episodes for service in self.services)

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
                    raise JournalError("The run was opened twice; the record is not whole.")
                self.opened, self.limits = event, tuple(event.problem["limits"])
            case e.Asked():
                if event.trial in self.trials or self.open is not None:
                    raise JournalError(f"Trial {event.trial} was asked for twice, or while another was open.")
                self.trials[event.trial] = Tried(event, self.limits, time, number)
            case e.Told():
                tried = self._tried(event.trial)
                if not tried.is_open:
                    raise JournalError(f"Trial {event.trial} was told twice; the record is not whole.")
                _check_count(tried, event.episodes)
                tried.told, tried.told_at, tried.told_number = event.episodes, time, number
                tried.first_told, tried.was_told = event.episodes, len(event.episodes)
                self.halted, self.judged_at = None, number  # there is new evidence since
            case e.Retracted():
                tried = self._tried(event.trial)
                if not tried.told_at or tried.retracted is not None:
                    raise JournalError(
                        f"Trial {event.trial} was retracted twice, or never told; the record is not whole."
                    )
                _check_count(tried, event.episodes or ())
                tried.retracted, tried.retracted_number, tried.told = event, number, event.episodes
                if self.open is not None:
                    self.open.dropped = True
                self.judged_at = number
            case e.Confirmed():
                self.confirmed.append((number, event))
            case e.Limited():
                self.limits = event.limits
                self.limited.append((number, event))
                self.judged_at = number
            case e.Serving():
                stops = self.problem.get("stop_at")
                self.services.append(Service(event, time, number, None if stops is None else tuple(stops)))
                self.halted, self.snapshot, self.recent = None, None, []
            case e.Served():
                self.recent.extend(event.episodes)
                self._service.add(np.array(event.episodes, dtype=np.float64))
            case e.Alarm():
                self._service.alarm, self._service.alarm_number = event, number
            case e.Halted():
                self.halted = event
            case e.Snapshot():
                if len(event.services) != len(self.services):
                    raise JournalError(
                        f"A snapshot sums up {len(event.services)} services, and there were {len(self.services)}; the"
                        " record is not whole."
                    )
                self.snapshot, self.recent = event, []
                for service, totals in zip(self.services, event.services, strict=True):
                    service.restore(totals)
            case _:
                raise JournalError(f"No fact is known of the event {event!r}.")

    @property
    def _service(self) -> Service:
        if not self.services:
            raise JournalError("Episodes were served before any target was; the record is not whole.")
        return self.services[-1]

    def _tried(self, number: int) -> Tried:
        if number not in self.trials:
            raise JournalError(f"Trial {number} was told and never asked for; the record is not whole.")
        return self.trials[number]


def _check_count(tried: Tried, episodes: tuple[Episode, ...]) -> None:
    if len(episodes) > len(tried.asked.tickets):
        raise JournalError(
            f"Trial {tried.number} was told {len(episodes)} episodes and asked for {len(tried.asked.tickets)}; the"
            " record is not whole."
        )
