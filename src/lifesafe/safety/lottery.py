"""A lottery: which target each episode of a trial is asked for.

Most tickets are for the *center*, the target that the trial is about; a few for a *scout* further out. The mean cost of
a trial is the mean over its tickets. A lottery over targets is itself a policy: draw a ticket, then act. So a promise
about the mean cost of every trial is the paper's promise, with lotteries as its policies.
"""

from __future__ import annotations

from dataclasses import dataclass

from lifesafe._random import generator
from lifesafe.journal.events import Point

SCOUTS = 2
"""Tickets of a trial that go to the scout."""


@dataclass(frozen=True)
class Ticket:
    """What one episode is asked for."""

    target: Point


@dataclass(frozen=True)
class Lottery:
    """The tickets of a trial, in the order of its episodes."""

    tickets: tuple[Ticket, ...]

    @property
    def targets(self) -> tuple[Point, ...]:
        """The distinct targets: the center, which has most tickets, then the scout if there is one."""
        points = [ticket.target for ticket in self.tickets]
        return tuple(sorted(dict.fromkeys(points), key=lambda point: -points.count(point)))

    @property
    def draws(self) -> tuple[int, ...]:
        """For each ticket, which of the targets it is for."""
        targets = self.targets
        return tuple(targets.index(ticket.target) for ticket in self.tickets)


def lottery(center: Point, episodes: int, scout: Point | None = None, *, seed: int = 0, trial: int = 0) -> Lottery:
    """Return a lottery of so many episodes at a center, some of them at a scout, in a random order.

    Args:
        center: Target of most tickets.
        episodes: Number of tickets.
        scout: Target of `SCOUTS` tickets; none for a center alone.
        seed: Seed of the search.
        trial: Number of the trial; the same seed and number give the same order.
    """
    if scout is None:
        return Lottery((Ticket(center),) * episodes)
    points = [center] * (episodes - SCOUTS) + [scout] * SCOUTS
    order = generator(seed, "tickets", trial).permutation(episodes)
    return Lottery(tuple(Ticket(points[i]) for i in order))
