"""Operation as the record tells it: every target that was served, with its watch computed again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from lifesafe.journal.events import EpisodeReturns
from lifesafe.journal.history import Service
from lifesafe.operation import Watch

POINTS = 500
"""Points of a line of evidence; longer operations are drawn in steps of several episodes each."""


@dataclass(frozen=True, eq=False)
class ServiceView:
    """The time during which one target was served."""

    service: Service
    first: int
    """Number of its first episode, counted over all of operation."""
    episodes: Float[np.ndarray, "m r"]
    step: int
    """Episodes between two points that are drawn."""
    largest: tuple[float, ...]
    """Most that an episode may cost before the watch calls it too much."""

    @property
    def limits(self) -> tuple[float, ...]:
        return self.service.serving.limits

    @property
    def line(self) -> float:
        """Logarithm of the evidence at which an alarm is raised."""
        return math.log(len(self.limits) / self.service.serving.level)

    @property
    def ends(self) -> tuple[float, float]:
        """Where it begins and ends on the axis of episodes."""
        return self.first - 0.5, self.first + max(len(self.episodes), 1) - 0.5

    @cached_property
    def places(self) -> Int[np.ndarray, " p"]:
        """How many of its episodes are over at each point that is drawn."""
        return np.unique(np.append(np.arange(0, len(self.episodes), self.step), len(self.episodes)))[1:]

    @cached_property
    def path(self) -> tuple[Float[np.ndarray, "p k"], Watch]:
        """The logarithm of the evidence against each cost at those points, and the watch in the end."""
        watch = Watch.start(self.limits, self.service.serving.level, self.largest)
        found, before = [], 0
        for place in self.places:
            watch, before = watch.update(self.episodes[before:place, 1:]), place
            found.append(watch.log_evidence)
        return np.array(found).reshape(-1, len(self.limits)), watch

    @property
    def agrees(self) -> bool:
        """Whether the watch raises the recorded alarm when it is computed again."""
        computed, recorded = (
            None if alarm is None else (alarm.rule, alarm.cost, alarm.episode)
            for alarm in (self.path[1].alarm, self.service.alarm)
        )
        return computed == recorded

    def running(self, cost: int) -> Float[np.ndarray, " p"]:
        """Return the mean of a cost so far, at the points that are drawn."""
        return np.asarray(np.cumsum(self.episodes[:, 1 + cost])[self.places - 1] / self.places)

    def highest(self, cost: int) -> Float[np.ndarray, " p"]:
        """Return the largest cost of the episodes up to each point since the one before."""
        starts = np.append(0, self.places[:-1])
        return np.maximum.reduceat(self.episodes[:, 1 + cost], starts) if len(self.episodes) else np.zeros(0)

    @cached_property
    def proved(self) -> tuple[float, ...] | None:
        """What the silence of the watch proves of the mean of each cost; none if nothing finite."""
        if not len(self.episodes) or self.path[1].alarm is not None:
            return None  # NOTE: where incidents are assumed, silence proves that no episode cost more, too
        return self.path[1].realised_bounds


def operated(
    services: Sequence[tuple[Service, Sequence[EpisodeReturns], tuple[float, ...]]],
) -> tuple[ServiceView, ...]:
    """Return all services, from each with its episodes and the most that one may cost."""
    step = max(math.ceil(sum(len(rows) for _, rows, _ in services) / POINTS), 1)
    found, first = [], 1
    for service, rows, largest in services:
        episodes = np.array(rows, dtype=np.float64).reshape(-1, 1 + len(service.serving.limits))
        found.append(ServiceView(service, first, episodes, step, largest))
        first += len(episodes)
    return tuple(found)
