"""Operation: serves the best target, watches what it costs, falls back, and halts when nothing is left to fall back to.

Everything is recorded before a call returns, so an operation that was killed goes on where it was:

    Serving     a target begins to be served: which, why, under which limits and watch
    Served      what some episodes returned
    Alarm       the watch is sure; the target is withdrawn until a trial has paid for it again
    Halted      no target is left, and what to do
    Snapshot    what all episodes add up to, so that opening the run reads only those since

An alarm says that the map from targets to returns is no longer the one that was learned. A target just below the one
that raised it would only raise the next, after as many costly episodes. So on the ladder of fallbacks each rung is at
most half as costly as the one above, where there is such a target; else it is the least costly one that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lifesafe.errors import ConfigError, JournalError, NoSafeTargetError, TrialError
from lifesafe.journal import events as e
from lifesafe.journal.history import History, Service
from lifesafe.journal.store import Record
from lifesafe.operation.watch import Excess, Watch
from lifesafe.returns import Returns
from lifesafe.safety import Recommendation, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS
from lifesafe.safety.problem import Target

LEVEL = 0.01
"""Probability that the watch over a target ever raises a false alarm, unless told otherwise."""
_SNAPSHOT = 1000  # episodes between two snapshots
_STEP = 0.5  # from a rung of the ladder to the next
_RECORDED = ("rule", "cost", "episode", "mean", "limit")  # of an alarm


@dataclass(frozen=True)
class Verdict:
    """What came of some episodes."""

    target: Target
    """The target that was served."""
    alarm: Excess | None
    """The alarm they raised, if any."""
    next_target: Target | None
    """The target to serve from now on: the same, the one fallen back to, or none once halted."""


class Operation:
    """An operation as the record of a search tells it; `begin` starts it or goes on with it.

    Then run episodes of `target`, `tell` what they returned, and so on, for ever. There is no simulator in here: the
    same calls serve a machine.
    """

    def __init__(self, optimizer: SafeOptimizer, level: float = LEVEL) -> None:
        """Take up the operation that the record of a search tells of.

        The level counts for targets that begin to be served from now on: it is the probability that the watch over one
        ever raises a false alarm.

        Raises:
            ConfigError: If the level is no probability.
        """
        if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
            raise ConfigError(f"level must lie between 0 and 1; got {level!r}.")
        self._optimizer, self._level = optimizer, float(level)
        self._known: tuple[tuple[int, int], Watch] | None = None  # service and episodes, and the watch after them

    @property
    def _history(self) -> History:
        return self._optimizer.history

    @property
    def watch(self) -> Watch | None:
        """What is known of the target that is served; none if none is.

        It follows from the record, so that several operations of one run know the same.
        """
        service = self._history.serving
        if service is None:
            return None
        key = (service.number, service.episodes)
        if self._known is None or self._known[0] != key:  # from the last snapshot and the episodes since
            serving, snapshot, recent = service.serving, self._history.snapshot, self._history.recent
            if snapshot is None:
                watch = Watch.start(serving.limits, serving.level, serving.largest)
            else:
                watch = Watch.from_plain(snapshot.watch)
            self._known = (key, watch.update(np.array(recent)[:, 1:]) if recent else watch)
        return self._known[1]

    @property
    def episodes(self) -> int:
        """Episodes served so far, at all targets."""
        return self._history.served

    @property
    def halted(self) -> e.Halted | None:
        """Why no target is served any more and what to do, if so."""
        return self._history.halted

    @property
    def target(self) -> Target | None:
        """The target to serve; none before `begin`, once halted, and if it has been `overtaken`."""
        service = self._history.serving
        if service is None or self.overtaken is not None or (self.watch is not None and self.watch.alarm is not None):
            return None
        return self._optimizer.problem.target(service.target)

    @property
    def overtaken(self) -> str | None:
        """What keeps the target from being served on: other limits, or what was told since and shows it to be unfit."""
        service = self._history.serving
        if service is None:
            return None
        if service.serving.limits != self._optimizer.problem.limits:
            return "the limits have changed since it began"
        is_judged = self._history.judged_at > service.number
        if is_judged and all(each.point != service.target for each in self._optimizer.fit):
            return "by what was told since it began, its target is not fit to be operated any more"
        return None

    @property
    def realised_bound(self) -> tuple[float, ...] | None:
        """Largest mean of each cost over the episodes of the served target that the silence of its watch allows.

        True whatever happened: days, wear, an adversary. None if no target is served; infinite where no largest cost of
        an episode is known.
        """
        if self.watch is None:
            return None
        bounds = self.watch.realised_bounds
        known = self._optimizer.problem.bounds is not None  # bounds of incidents are an assumption, and no bounds
        return bounds if known else (float("inf"),) * len(bounds)

    def begin(self) -> Target | None:
        """Serve the best target, unless one is being served and fit for it; return it, or none if halted.

        Raises:
            NoSafeTargetError: If no target is fit to be operated.
        """
        self.settle()
        if self.halted is None and self.target is None:
            best = self._optimizer.best
            if best is None:
                raise NoSafeTargetError(self._none_is_fit())
            self._serve(best, "the best target that may be operated", 0)
        return self.target

    def tell(self, episodes: Sequence[Returns]) -> Verdict:
        """Record what episodes of the served target returned, and judge them.

        Raises:
            TrialError: If no target is served, or the returns do not fit; nothing is recorded then.
        """
        target, watch = self.target, self.watch
        if target is None or watch is None:
            if self.halted is not None:
                why = f"it has halted: {self.halted.why}. {self.halted.advice}"
            else:
                why = f"{self.overtaken or 'it has not begun'}; call begin()"
            raise TrialError(f"Operation serves no target: {why}.")
        newcomer = self._history.open
        if newcomer is not None and newcomer.asked.stage in NEWCOMERS:
            raise TrialError(
                f"Trial {newcomer.number} is open and may spend what the account holds; tell it first, then these"
                " episodes."
            )
        rows = self._optimizer.checked(episodes)
        self._optimizer.record(e.Served(episodes=rows))
        service, watch = self._history.services[-1], watch.update(np.array(rows)[:, 1:])
        self._known = ((service.number, service.episodes), watch)
        if watch.alarm is not None:
            self.settle()
        elif len(self._history.recent) >= _SNAPSHOT:
            account = self._optimizer.beliefs.account
            totals = tuple(service.totals for service in self._history.services)
            holds = () if account is None else account.holds
            self._optimizer.record(e.Snapshot(services=totals, watch=watch.to_plain(), account=holds))
        return Verdict(target, watch.alarm, self.target)

    def settle(self) -> None:
        """Do what an alarm asks for, as far as it is not done yet: a run may have been killed right before."""
        watch = self.watch
        if watch is not None and watch.alarm is not None:
            found = {name: getattr(watch.alarm, name) for name in _RECORDED}
            self._optimizer.record(e.Alarm(target=self._history.services[-1].target, **found))
        if not self.must_fall_back:
            return
        service, rung = self._history.services[-1], self.rung
        assert service.alarm is not None
        recorded = {name: getattr(service.alarm, name) for name in _RECORDED}
        why = str(Excess(**recorded, costs=len(service.serving.limits)))
        if rung is not None:
            self._serve(rung, f"fallback: {why}", service.serving.rung + 1)
        else:
            why = f"{why}, and no less costly target may be served"
            self._optimizer.record(e.Halted(why=why, advice=self._advice()))

    @property
    def must_fall_back(self) -> bool:
        """Whether an alarm was raised, and nothing has been done about it yet."""
        services, halted = self._history.services, self._history.halted
        if not services or halted is not None or services[-1].alarm is None:
            return False
        # Unless something was tried since the target began to be served: the search goes on from new evidence then.
        return all(tried.told_number < services[-1].number for tried in self._history.told)

    @property
    def rung(self) -> Recommendation | None:
        """The target to fall back to from the one that was served last; none if there is none."""
        service: Service = self._history.services[-1]
        alarmed = max(mean / b for mean, b in zip(service.means[1:], service.serving.limits, strict=True))
        return next_rung(self._optimizer.fit, alarmed, self._optimizer.problem.limits)

    def _advice(self) -> str:
        held, done = self._optimizer.held, self._optimizer.done
        if held is not None:
            return f"Look at the system first ({held}); once that is settled, confirm, and search again."
        if done is not None:
            then = f"Then begin a new run: this search is over ({done})."
        else:
            then = "Then search again: what the alarm has shown is known, and a trial that pays brings a target back."
        return f"Look at the system: has something worn, moved or been replaced? {then}"

    def _serve(self, target: Recommendation, why: str, rung: int) -> None:
        limits, largest = self._optimizer.problem.limits, self._optimizer.beliefs.most
        level = self._level / 2**rung
        Watch.start(limits, level, largest)  # refuses what cannot be watched, before it is recorded
        self._optimizer.record(
            e.Serving(target=target.point, why=why, limits=limits, level=level, largest=largest, rung=rung)
        )

    def _none_is_fit(self) -> str:
        limits, journal = ", ".join(f"{limit:g}" for limit in self._optimizer.problem.limits), self._optimizer.journal
        where = "" if journal is None else f" of {journal.path.parent}"
        said = f"No target{where} may be operated under the limit {limits}"
        if self._optimizer.held is not None:
            return f"{said} while the search is held: {self._optimizer.held}."
        return (
            f"{said}: none that was tried has paid for its risk and shown by its own episodes what it costs. Go on with"
            " the search, or raise the limit."
        )


def use(target: Recommendation, limits: Sequence[float]) -> float:
    """Return how much of its limits a target may use: the largest 95 % quantile of its mean costs, as a share."""
    return max(upper / limit for upper, limit in zip(target.expected, limits, strict=True))


def next_rung(fit: Sequence[Recommendation], alarmed: float, limits: Sequence[float]) -> Recommendation | None:
    """Return the target to fall back to, or none if none that is fit is less costly.

    `fit` has those that earn more first; `alarmed` is the use of the limits by the target that raised the alarm.
    """
    for target in fit:
        if use(target, limits) <= _STEP * alarmed:
            return target
    less = [target for target in fit if use(target, limits) < alarmed]
    return min(less, key=lambda target: use(target, limits), default=None)


def replay(records: Sequence[Record]) -> SafeOptimizer:
    """Return the optimizer in the state that records lead to; every decision of search and operation is made again.

    Raises:
        JournalError: If a decision differs from the recorded one, or a snapshot from what it sums up.
    """
    return SafeOptimizer.replay(records, _check)


def _check(optimizer: SafeOptimizer, record: Record) -> None:
    """Refuse an event of operation that does not follow from those before it."""
    operation = Operation(optimizer)
    match record.event:
        case e.Serving() as serving:
            falls = operation.must_fall_back
            found = operation.rung if falls else optimizer.best
            rung = operation._history.services[-1].serving.rung + 1 if falls else 0
            due = (None if found is None else found.point, rung, optimizer.problem.limits)
            follows, what = due == (serving.target, serving.rung, serving.limits), "the target that is served"
        case e.Alarm() as alarm:
            raised = None if operation.watch is None else operation.watch.alarm
            seen = None if raised is None else (raised.rule, raised.cost, raised.episode)
            follows, what = seen == (alarm.rule, alarm.cost, alarm.episode), "the alarm"
        case e.Halted():
            follows, what = operation.must_fall_back and operation.rung is None, "the halt"
        case e.Snapshot() as snapshot:
            watch = operation.watch
            silent = watch is not None and watch.alarm is None
            follows, what = silent and watch.to_plain() == snapshot.watch, "the watch of the snapshot"  # type: ignore[union-attr]
        case _:
            return
    if not follows:
        raise JournalError(
            f"Event {record.number}: {what} does not follow from what was recorded before it. The record was changed,"
            " or another version of lifesafe decided."
        )
