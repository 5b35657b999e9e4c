"""What can happen in a run, one class for each kind of event, and the one codec between events and text.

Nothing outside this module looks into the text of an event. A new kind of event is one class here and one line in each
fold that cares: `journal.history` (facts) and `safety.beliefs` (beliefs).

Amounts are in the user's units. A point is a target as plain numbers, one for each axis of the problem.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from lifesafe.errors import JournalError

Point = tuple[float, ...]
EpisodeReturns = tuple[float, ...]
"""Reward, then every cost."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower, forbid_unknown_fields=True):
    """Anything that happened."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was expected of a target when it was asked for."""

    reward: tuple[float, float]
    """Mean and standard deviation of the mean reward."""
    costs: tuple[tuple[float, float], ...]
    """Median and 95 % quantile of each mean cost."""
    risk: float
    """Probability that a mean cost exceeds its limit."""


class Opened(Event, frozen=True):
    """A run began."""

    problem: dict[str, Any]
    version: str
    """Of lifesafe."""


class Asked(Event, frozen=True):
    """A trial was chosen."""

    trial: int
    stage: str
    targets: tuple[Point, ...]
    """The distinct targets: the center, then the scout if there is one."""
    tickets: tuple[int, ...]
    """For each episode, which of the targets it is asked for."""
    charge: float
    """Risk that this trial adds to the ledger."""
    paid: tuple[Point, ...]
    """Targets that have paid with this trial: they may be tried and operated from now on."""
    allowance: float
    """Risk that this trial was allowed to take."""
    forecasts: tuple[Forecast, ...]


class Told(Event, frozen=True):
    """The episodes of a trial ended."""

    trial: int
    episodes: tuple[EpisodeReturns, ...]


class Retracted(Event, frozen=True):
    """What was told of a trial was wrong; without other episodes, nothing is known of it."""

    trial: int
    reason: str
    episodes: tuple[EpisodeReturns, ...] | None = None


class Confirmed(Event, frozen=True):
    """Somebody let a search go on that was held."""

    reason: str


class Limited(Event, frozen=True):
    """The limits changed."""

    limits: tuple[float, ...]
    starts: tuple[Point, ...]
    """Targets that somebody knows to be safe under them; none if nobody has said so."""


class Serving(Event, frozen=True):
    """A target began to be served in operation."""

    target: Point
    why: str
    limits: tuple[float, ...]
    level: float
    """Probability that its watch ever raises a false alarm."""
    largest: tuple[float, ...]
    """Costs of an episode above which its watch raises the alarm "bound"."""
    rung: int
    """How often operation has fallen back."""


class Served(Event, frozen=True):
    """Episodes of operation ended."""

    episodes: tuple[EpisodeReturns, ...]


class Alarm(Event, frozen=True):
    """The watch is sure that a cost of the served target is too high; the target is withdrawn."""

    target: Point
    rule: str
    cost: int
    episode: int
    mean: float
    limit: float


class Halted(Event, frozen=True):
    """No target is left to be served."""

    why: str
    advice: str


class Totals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the episodes of one service add up to."""

    episodes: int
    sums: EpisodeReturns
    squares: EpisodeReturns
    largest: tuple[float, ...]
    above: int
    ended: int


class Snapshot(Event, frozen=True):
    """What all served episodes up to here add up to, so that opening a run need not read them again."""

    services: tuple[Totals, ...]
    """One for each `Serving` so far."""
    watch: dict[str, Any]
    """State of the watch over the target that is served."""
    account: tuple[float, ...]
    """What each account holds."""


EVENT_KINDS: dict[str, type[Event]] = {
    cls.__struct_config__.tag: cls  # type: ignore[misc]
    for cls in (
        Opened, Asked, Told, Retracted, Confirmed, Limited, Serving, Served, Alarm, Halted, Snapshot
    )
}  # fmt: skip
SERVED = "served"
SNAPSHOT = "snapshot"

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders = {kind: msgspec.json.Decoder(cls) for kind, cls in EVENT_KINDS.items()}


def kind_of(event: Event) -> str:
    """Return the word that names the kind of an event."""
    return str(event.__struct_config__.tag)


def encode(event: Event) -> str:
    """Return an event as text.

    Raises:
        JournalError: If it holds what JSON cannot keep: a number that is not finite, say.
    """
    try:
        _check_finite(msgspec.to_builtins(event), kind_of(event))
        return _encoder.encode(event).decode()
    except (TypeError, ValueError) as error:  # an object of NumPy, or half of a character
        raise JournalError(f"An event of kind {kind_of(event)!r} cannot be written: {error}.") from error


def decode(kind: str, text: str) -> Event:
    """Return the event that a text describes.

    Raises:
        JournalError: If this version knows no such event, or the text does not fit its kind.
    """
    if kind not in _decoders:
        raise JournalError(f"Unknown kind of event {kind!r}; this lifesafe knows {', '.join(EVENT_KINDS)}. Upgrade it.")
    try:
        return _decoders[kind].decode(text)
    except msgspec.DecodeError as error:
        raise JournalError(f"An event of kind {kind!r} does not have the form of its kind: {error}.") from error


def _check_finite(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_finite(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_finite(item, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise JournalError(f"{where} is {value}; a journal holds finite numbers only.")
