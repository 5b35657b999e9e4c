"""Everything that a report says of a run, read in one walk over its record; only this asks the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from lifesafe._config import read_toml
from lifesafe.errors import ConfigError, JournalError, NoSafeTargetError
from lifesafe.journal import events as e
from lifesafe.journal.events import EpisodeReturns, Point
from lifesafe.journal.history import History, Service, Tried
from lifesafe.journal.store import Record, journal_path, read_records
from lifesafe.operation import replay
from lifesafe.report.moments import Moment, Plane, moments_at, planes_of
from lifesafe.report.operated import ServiceView, operated
from lifesafe.report.wording import number, target_text, target_texts
from lifesafe.returns import return_names
from lifesafe.safety import Problem, Recommendation, choice, newcomers
from lifesafe.safety.account import Account
from lifesafe.safety.beliefs import Beliefs, Books, Own
from lifesafe.safety.choice import Choice
from lifesafe.safety.posterior import Model
from lifesafe.safety.recommendation import fit_targets, recommend

RUN_TOML = "run.toml"
PREPAID = ("newcomer", "test")
"""Stages whose episodes the account must be able to pay for beforehand."""


@dataclass(frozen=True)
class Tally:
    """What real episodes it took, and how they ended."""

    start: int
    search: int
    operation: int
    counted: int
    """Those that count: episodes that were retracted do not."""
    above: int
    """Those that cost more than a limit of their time."""
    ended: int | None
    """Those that the stop has ended; none without a stop."""
    largest: tuple[float, ...]
    """Largest cost of an episode, for each cost."""
    where: tuple[str, ...]
    """Where each of these happened."""

    @property
    def worst(self) -> tuple[str, ...]:
        """The largest cost with where it happened, for each cost."""
        pairs = zip(self.largest, self.where, strict=True)
        return tuple(f"{number(cost)} ({where})" if cost else "0" for cost, where in pairs)

    @property
    def total(self) -> int:
        return self.start + self.search + self.operation


@dataclass(frozen=True, eq=False)
class Saved:
    """What the account held after some episodes that were told together."""

    first: int
    """Number of the first of them, over the whole run."""
    holds: Float[np.ndarray, "m k"]
    """After each."""
    prices: tuple[float, ...]
    """Of an episode of a newcomer."""
    stage: str
    """Of the trial, or "operation"."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A run as the report needs it."""

    run: Path
    """As the user named it."""
    records: tuple[Record, ...]
    beliefs: Beliefs
    """What is believed at the end."""
    marked: tuple[tuple[Moment, Model], ...]
    """Moments, still without risks: only the end tells which target the planes go through."""
    best_after: dict[int, Recommendation]
    """The target to operate after each trial, by number, where there was one."""
    saved: tuple[Saved, ...]
    """The account, where there is one."""
    services: tuple[ServiceView, ...]
    halts: tuple[int, ...]
    """Episodes of operation after which it halted."""
    manifest: dict[str, Any]
    """What the run was begun with; empty where there is no run.toml."""
    notices: tuple[str, ...]
    """What could not be read."""
    replayed: bool | None
    """Whether all decisions follow from the record; none if that was not tried."""

    @classmethod
    def read(cls, run: Path, *, replay: bool = True) -> Reading:
        """Read a run, which a writer may have open, and unless told otherwise make all decisions again to compare.

        Raises:
            JournalError: If there is no journal, it is damaged, or it is no record of a search.
        """
        records = read_records(journal_path(run))
        notices: list[str] = []
        manifest = _manifest(run, notices)
        replayed = _replay(records, notices) if replay else None
        return cls(
            run, tuple(records), **_folded(records), manifest=manifest, notices=tuple(notices), replayed=replayed
        )

    @property
    def problem(self) -> Problem:
        """The problem, with the limits of now."""
        return self.beliefs.problem

    @property
    def history(self) -> History:
        return self.beliefs.history

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the returns, the reward first."""
        return return_names(len(self.problem.limits))

    @property
    def name(self) -> str:
        """What the run is about: the task, or the directory as the user named it, never a path from the root."""
        task = self.setting("run", "task")
        as_given = self.run.name and not self.run.is_absolute()
        return str(task) if task else f"Run {self.run if as_given else self.run.resolve().name}"

    def text(self, point: Point) -> str:
        """Return a target in words, with so many digits that no other target of the run reads the same."""
        return self._texts.get(point) or target_text(self.problem, point)

    @cached_property
    def _texts(self) -> dict[Point, str]:
        tried = (point for each in self.history.trials.values() for point in each.asked.targets)
        return target_texts(self.problem, dict.fromkeys((*self.problem.starts, *tried)))

    def setting(self, *path: str) -> Any:
        """Return a value of run.toml; none if it is not there."""
        value: Any = self.manifest
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    @cached_property
    def fit(self) -> tuple[Recommendation, ...]:
        """All targets fit to be operated, those that earn more for sure first."""
        return fit_targets(self.beliefs)

    @property
    def chosen(self) -> Recommendation | None:
        """The target being served, if it is fit for it; else, unless operation has halted, the best."""
        serving = self.history.serving
        if serving is not None:
            return next((each for each in self.fit if each.point == serving.target), None)
        return None if self.history.halted else next(iter(self.fit), None)

    @cached_property
    def _next(self) -> Choice | str:
        """The next trial, or why there is none."""
        assumed = self.problem.promise == "trial" or all(self.problem.sure)
        try:
            found = (choice if assumed else newcomers).choose(self.beliefs)
        except NoSafeTargetError as error:
            return str(error)
        return found if isinstance(found, Choice) else found.why

    @property
    def ended(self) -> str | None:
        """Why the search is over; none while it goes on, or is held."""
        if self.history.open is not None or self.beliefs.held is not None or isinstance(self._next, Choice):
            return None
        return self._next

    @property
    def phase(self) -> str:
        """Where the run is, in a word or two."""
        open_, services, halted = self.history.open, self.history.services, self.history.halted
        if halted is not None:
            return "halted"
        if self.history.serving is not None:
            return "operating" if self.ended else "operating, search open"
        if services and services[-1].alarm is not None and all(
            tried.told_number < services[-1].number for tried in self.history.told
        ):  # fmt: skip
            return "alarm, fallback pending"
        if open_ is None and self.beliefs.held is not None:
            return "search held"
        if self.ended is not None:
            return "ready to operate" if self.fit else "ended without a target"
        stage = open_.asked.stage if open_ is not None else self._next.stage if isinstance(self._next, Choice) else ""
        return f"searching, {stage} stage"

    @cached_property
    def tally(self) -> Tally:
        """What real episodes it took."""
        told, stop = self.history.told, self.problem.stop_at
        parts = [(f"trial {each.number}", each.episodes, each.limits) for each in told]
        parts += [("operation", each.episodes, each.limits) for each in self.services]
        largest, where = np.zeros(len(self.problem.limits)), [""] * len(self.problem.limits)
        above = ended = counted = 0
        for name, episodes, limits in parts:
            costs = episodes[:, 1:]
            counted += len(costs)
            above += int(above_limit(costs, limits).sum())
            ended += 0 if stop is None else int((costs >= np.array(stop)).any(axis=1).sum())
            for k, cost in enumerate(costs.max(axis=0, initial=0.0)):
                if cost > largest[k]:
                    largest[k], where[k] = cost, name
        start = sum(each.was_told for each in told if each.asked.stage == "start")
        return Tally(
            start=start,
            search=self.history.searched - start,
            operation=self.history.served,
            counted=counted,
            above=above,
            ended=None if stop is None else ended,
            largest=tuple(largest.tolist()),
            where=tuple(where),
        )

    @cached_property
    def exceeded(self) -> dict[int, str]:
        """The trials whose mean cost was clearly above a limit, with how, in words."""
        found = {each.number: self.beliefs.exceeded(each) for each in self.history.told}
        return {number: words for number, words in found.items() if words}

    @cached_property
    def planes(self) -> tuple[Plane, ...]:
        """The planes of targets to show."""
        return planes_of(self.problem, self.focus)

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """What was believed after some trials, and in the end; before the first trial if there is none."""
        trial, best = (self.marked[-1][0].trial if self.marked else 0), self.chosen
        end = (_moment(trial, self.beliefs, best), self.beliefs.model)
        return tuple(
            replace(moment, risks=tuple(model.expect(plane.points).risks() for plane in self.planes))
            for moment, model in (*self.marked[:-1], end)
        )

    def modeled(self, best: Recommendation) -> float:
        """Return the mean reward of a target by the model, from all episodes."""
        low, high = self.problem.rewards  # type: ignore[misc]  # made so by the problem
        return low + (high - low) * best.modeled

    def doubt(self, episodes: Float[np.ndarray, "m r"]) -> Float[np.ndarray, " r"]:
        """Return two standard deviations of the mean of each return; episodes without cost show none.

        Rewards are taken to spread as they do at all targets, and costs as the model says, or as these episodes do if
        that is more.
        """
        return self._doubt(len(episodes), episodes.sum(axis=0), (episodes**2).sum(axis=0))

    def doubt_of(self, own: Own) -> Float[np.ndarray, " r"]:
        """Return the same for all episodes of a target."""
        return self._doubt(own.episodes, own.totals, own.squares)

    def _doubt(
        self, n: int, totals: Float[np.ndarray, " r"], squares: Float[np.ndarray, " r"]
    ) -> Float[np.ndarray, " r"]:
        mean = totals / n
        var = np.maximum(squares - n * mean**2, 0.0) / max(n - 1, 1)
        spread = np.array([self._reward_variance, *(self._phis * self.problem.limits * mean[1:])])
        return np.asarray(2 * np.sqrt(np.maximum(var, spread) / n))

    @cached_property
    def _phis(self) -> Float[np.ndarray, " k"]:
        return np.array([0.0 if cost is None else cost.phi for cost in self.beliefs.model.costs])

    @cached_property
    def _reward_variance(self) -> float:
        """Variance of the reward of an episode around the mean of its target, over all targets."""
        own = self.beliefs.own.values()
        squares = sum(float(each.squares[0] - each.totals[0] ** 2 / each.episodes) for each in own)
        return max(squares, 0.0) / max(sum(each.episodes - 1 for each in own), 1)

    @property
    def focus(self) -> Point:
        """The target that pictures of the model go through: the one that is chosen, or served, or the start."""
        if self.chosen is not None:
            return self.chosen.point
        if self.history.services:
            return self.history.services[-1].target
        first: Point = self.problem.starts[0]
        return first

    @cached_property
    def spent_after(self) -> tuple[tuple[int, float], ...]:
        """Number of each trial, with the risk charged up to it; other limits begin anew."""
        found, total, before = [], 0.0, 0
        for tried in self.history.trials.values():
            if any(before < number < tried.asked_number for number, _ in self.history.limited):
                total = 0.0
            total, before = total + tried.asked.charge, tried.asked_number
            found.append((tried.number, total))
        return tuple(found)

    @property
    def charges(self) -> bool:
        """Whether trials are charged to a ledger."""
        return self.problem.promise == "trial" and not all(self.problem.sure)

    @property
    def alarms(self) -> int:
        """Alarms of operation."""
        return sum(each.service.alarm is not None for each in self.services)

    @property
    def a_limit(self) -> str:
        """The limit, or, where there were several, a limit."""
        return "the limit" if len(self.problem.limits) == 1 and not self.limit_changes else "a limit"

    @property
    def retracted(self) -> tuple[Tried, ...]:
        """The trials that were retracted."""
        return tuple(each for each in self.history.told if each.retracted is not None)

    @cached_property
    def limit_changes(self) -> tuple[tuple[float, tuple[float, ...]], ...]:
        """New limits, each with the place on the axis of trials where they began."""
        asked = [each.asked_number for each in self.history.trials.values()]
        return tuple((sum(n < number for n in asked) + 0.5, event.limits) for number, event in self.history.limited)

    @property
    def version(self) -> str:
        """What identifies the record as it was read."""
        return f"{len(self.records)}-{self.records[-1].hash}"


def above_limit(costs: Float[np.ndarray, "m k"], limits: Sequence[float]) -> Bool[np.ndarray, " m"]:
    """Return which episodes cost more than a limit."""
    return np.asarray((costs > np.array(limits)).any(axis=1))


def episodes_of(tried: Tried, which: int) -> Float[np.ndarray, "m r"]:
    """Return the episodes of the center of a trial (0), or of its scout (1)."""
    episodes = tried.episodes
    return np.asarray(episodes[np.array(tried.asked.tickets[: len(episodes)], dtype=np.intp) == which])


def scout_of(tried: Tried) -> Point | None:
    """Return the target further out that a few episodes of a trial were asked for, if any."""
    return tried.asked.targets[1] if len(tried.asked.targets) > 1 else None


def _folded(records: Sequence[Record]) -> dict[str, Any]:
    """Return what follows from the events, one after the other."""
    if not records or not isinstance(records[0].event, e.Opened):
        raise JournalError("The journal does not begin with an opened run; it is no record of a search.")
    books, shown = Books(Problem.from_plain(records[0].event.problem)), moments_at(records)
    history = books.history
    marked: list[tuple[Moment, Model]] = []
    best: dict[int, Recommendation] = {}
    saved: list[Saved] = []
    services: list[tuple[Service, list[EpisodeReturns], tuple[float, ...]]] = []
    halts: list[int] = []
    for record in records:
        before, told = books.account, history.searched + history.served
        books.apply(record)
        beliefs = books.beliefs
        match record.event:
            case e.Told(trial=trial, episodes=episodes):
                if before is not None:
                    saved.append(_saved(before, episodes, told, history.trials[trial].asked.stage))
                found = recommend(beliefs)
                if found is not None:
                    best[trial] = found
                if trial in shown:
                    marked.append((_moment(trial, beliefs, found), beliefs.model))
            case e.Served(episodes=episodes):
                services[-1][1].extend(episodes)
                if before is not None:
                    saved.append(_saved(before, episodes, told, "operation"))
            case e.Serving():
                services.append((history.services[-1], [], beliefs.most))
            case e.Halted():
                halts.append(history.served)
    served = operated(services)
    return {
        "beliefs": books.beliefs, "marked": tuple(marked), "best_after": best, "saved": tuple(saved),
        "services": served, "halts": tuple(halts),
    }  # fmt: skip


def _moment(trial: int, beliefs: Beliefs, best: Recommendation | None) -> Moment:
    history, point = beliefs.history, None if best is None else best.point
    return Moment(trial, point, history.searched, history.served, beliefs.spent, len(beliefs.certified))


def _saved(account: Account, episodes: Sequence[EpisodeReturns], told: int, stage: str) -> Saved:
    # C_t = min(C_t-1 + b - X_t, capacity), for all episodes at once: see `safety.account`.
    sums = np.cumsum(np.array(account.limits) - np.array(episodes, dtype=np.float64)[:, 1:], axis=0)
    room = np.minimum.accumulate(np.array(account.capacity) - sums, axis=0)
    return Saved(told + 1, sums + np.minimum(np.array(account.holds), room), account.prices, stage)


def _replay(records: Sequence[Record], notices: list[str]) -> bool:
    try:
        replay(records)
    except (JournalError, ConfigError, NoSafeTargetError) as error:
        notices.append(f"The decisions could not be made again from the record: {error}")
        return False
    return True


def _manifest(run: Path, notices: list[str]) -> dict[str, Any]:
    path = run / RUN_TOML
    if not path.is_file():
        return {}
    try:
        return read_toml(path)
    except ConfigError as error:
        notices.append(f"The settings of the run are left out. {error}")
        return {}
