"""What operation did, episode by episode, with the evidence of the monitor computed again from the recorded costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe._config import from_plain
from lifesafe.operation import Monitor, MonitorConfig
from lifesafe.optimizer import Problem
from lifesafe.optimizer.journal import Event
from lifesafe.theory.betting import detector_path, wealth_path

_AGREEMENT = 1e-6  # difference up to which evidence computed again counts as the recorded one


@dataclass(frozen=True, eq=False)
class Alarm:
    """An alarm, placed among all episodes of operation."""

    episode: int
    """Number among all episodes of operation, from 1."""
    rule: str
    cost: int
    mean: float
    limit: float


@dataclass(frozen=True, eq=False)
class Serving:
    """The time during which one target was served."""

    index: int
    target: tuple[float, ...]
    limits: tuple[float, ...]
    why: str
    config: MonitorConfig | None
    """How easily the monitor raised an alarm; none where nothing watched."""
    first: int
    """Number of its first episode among all episodes of operation, from 1."""
    episodes: Float[np.ndarray, "m r"]
    log_wealth: Float[np.ndarray, "k m"]
    """Evidence against "the mean cost is at most its limit" after every episode; an alarm at `wealth_alarm`."""
    log_drift: Float[np.ndarray, "k m"]
    """Evidence for a cost that has risen, after every episode; an alarm at `drift_alarm`."""
    agrees: bool
    """Whether the evidence is the recorded one."""
    alarm: Alarm | None = None

    @property
    def wealth_alarm(self) -> float:
        """Logarithm of the wealth at which the rule "mean" raises an alarm."""
        return math.log(len(self.limits) / self.config.level) if self.config else math.inf

    @property
    def drift_alarm(self) -> float:
        """Logarithm of the detector at which the rule "drift" raises an alarm."""
        return math.log(len(self.limits) * self.config.run_length) if self.config else math.inf

    @property
    def means(self) -> Float[np.ndarray, " r"]:
        """Mean returns of its episodes."""
        return np.asarray(self.episodes.mean(axis=0)) if len(self.episodes) else np.full(self.episodes.shape[1], np.nan)

    def running_mean(self, cost: int) -> Float[np.ndarray, " m"]:
        """Return the mean of a cost from the first of its episodes up to each."""
        costs = self.episodes[:, 1 + cost]
        return np.asarray(np.cumsum(costs) / np.arange(1, len(costs) + 1))


@dataclass(frozen=True, eq=False)
class Operated:
    """All of operation."""

    servings: tuple[Serving, ...]
    serving: Serving | None
    """What is being served; none before the first time and once halted."""
    halted: str | None
    """Why no target is served any more, if so."""
    halts: tuple[int, ...]
    """Episodes after which operation halted."""

    @classmethod
    def read(cls, events: Sequence[Event], problem: Problem) -> Operated:
        """Return what the events of a journal tell about operation."""
        open_, servings, halts = None, [], []
        halted: str | None = None
        told = halted_after = done = 0
        for event in events:
            body = event.body
            if event.kind == "told":
                told += 1
            elif event.kind == "serving":
                open_, halted = _Open(body, done + 1), None
                servings.append(open_)
            elif event.kind == "served":
                if open_ is None or open_.body["index"] != body["index"]:  # told to the optimizer, without a monitor
                    open_ = _Open({"index": body["index"], "why": "served without a monitor"}, done + 1)
                    servings.append(open_)
                open_.batches.append(np.array(body["episodes"], dtype=np.float64))
                open_.verdicts.append(body.get("verdict") or {})
                done += len(body["episodes"])
            elif event.kind == "alarm" and open_ is not None:
                open_.alarm = body
            elif event.kind == "halted":
                halted, halted_after, open_ = str(body["why"]), body["trials"], None
                halts.append(done)
        if halted is not None and told > halted_after:
            halted = None  # there is new evidence since
        closed = tuple(each.close(problem) for each in servings)
        serving = closed[-1] if open_ is not None and open_ is servings[-1] and open_.alarm is None else None
        return cls(closed, serving, halted, tuple(halts))

    @property
    def episodes(self) -> int:
        """Episodes served so far, at all targets."""
        return sum(len(serving.episodes) for serving in self.servings)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All alarms, in order."""
        return tuple(serving.alarm for serving in self.servings if serving.alarm is not None)

    @property
    def fallbacks(self) -> int:
        """How often another target was served after an alarm."""
        pairs = zip(self.servings, self.servings[1:], strict=False)
        return sum(before.alarm is not None for before, _ in pairs)


@dataclass(eq=False)
class _Open:
    """A serving that events are still added to."""

    body: dict[str, Any]
    first: int
    batches: list[Float[np.ndarray, "_ r"]] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    alarm: dict[str, Any] | None = None

    def close(self, problem: Problem) -> Serving:
        body = self.body
        limits = tuple(float(b) for b in body.get("limits", problem.limits))
        config = from_plain(MonitorConfig, body["monitor"]) if body.get("monitor") else None
        episodes = np.concatenate([np.empty((0, 1 + len(limits))), *self.batches])
        wealth, drift = _evidence(episodes[:, 1:].T, limits, problem.cost_bounds, config)
        return Serving(
            index=body["index"],
            target=tuple(float(value) for value in body.get("target", problem.candidates[body["index"]])),
            limits=limits,
            why=str(body["why"]),
            config=config,
            first=self.first,
            episodes=episodes,
            log_wealth=wealth,
            log_drift=drift,
            agrees=config is None or self._agrees(wealth, drift),
            alarm=None if self.alarm is None else _alarm(self.alarm, self.first, episodes, limits),
        )

    def _agrees(self, wealth: Float[np.ndarray, "k m"], drift: Float[np.ndarray, "k m"]) -> bool:
        last = np.cumsum([len(batch) for batch in self.batches]) - 1
        for path, name in ((wealth, "log_wealth"), (drift, "log_drift")):
            for at, verdict in zip(last, self.verdicts, strict=True):
                recorded = np.array(verdict.get(name, []), dtype=np.float64)
                if at < 0:
                    continue
                if len(recorded) != len(path) or not np.allclose(recorded, path[:, at], _AGREEMENT, _AGREEMENT):
                    return False
        return True


def _evidence(
    costs: Float[np.ndarray, "k m"], limits: tuple[float, ...], bounds: tuple[float, ...], config: MonitorConfig | None
) -> tuple[Float[np.ndarray, "k m"], Float[np.ndarray, "k m"]]:
    if config is None or (costs < 0).any():  # which is no evidence of anything
        return np.full_like(costs, np.nan), np.full_like(costs, np.nan)
    monitor = Monitor.start(limits, bounds, config)
    costs = np.minimum(costs, np.array(bounds)[:, None])  # as the monitor does, which then raises an alarm
    wealth = [wealth_path(test, x) for test, x in zip(monitor.tests, costs, strict=True)]
    drift = [detector_path(detector, x) for detector, x in zip(monitor.detectors, costs, strict=True)]
    return np.stack(wealth), np.stack(drift)


def _alarm(body: dict[str, Any], first: int, episodes: Float[np.ndarray, "m r"], limits: tuple[float, ...]) -> Alarm:
    """Return an alarm; one that somebody else than the monitor raised need not say when and why."""
    cost = int(body.get("cost", 0))
    mean = float(episodes[:, 1 + cost].mean()) if len(episodes) else math.nan
    return Alarm(
        episode=first + int(body.get("episode", len(episodes))) - 1,
        rule=str(body.get("rule", "by hand")),
        cost=cost,
        mean=float(body.get("mean", mean)),
        limit=float(body.get("limit", limits[cost])),
    )
