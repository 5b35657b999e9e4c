"""Operation: serves the best target, watches what it costs, falls back, and halts when nothing is left to fall back to.

Everything is recorded before a call returns, so an operation that was killed goes on where it was:

    Serving     a target begins to be served: which, why, under which limits and watch
    Served      what some episodes returned
    Alarm       the watch is sure; the target is withdrawn until a trial has paid for it again
    Halted      no target is left, and what to do
    Snapshot    what all episodes add up to, so that opening the run reads only those since
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lifesafe.errors import ConfigError, NoSafeTargetError, TrialError
from lifesafe.journal import events as e
from lifesafe.journal.history import Service
from lifesafe.operation.ladder import next_rung
from lifesafe.operation.watch import Alarm, Watch, realised_bound
from lifesafe.returns import Returns
from lifesafe.safety import Recommendation, SafeOptimizer
from lifesafe.safety.account import NEWCOMERS
from lifesafe.safety.problem import Target

LEVEL = 0.01
"""Probability that the watch over a target ever raises a false alarm, unless told otherwise."""
_SNAPSHOT = 1000  # episodes between two snapshots


@dataclass(frozen=True)
class Verdict:
    """What came of some episodes."""

    target: Target
    """The target that was served."""
    alarm: Alarm | None
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

        Args:
            optimizer: What has found the target.
            level: Probability that the watch over a target ever raises a false alarm, for targets that begin to be
                served from now on.

        Raises:
            ConfigError: If the level is no probability.
        """
        if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
            raise ConfigError(f"level must lie between 0 and 1; got {level!r}.")
        self._optimizer, self._level = optimizer, float(level)
        self._known: tuple[tuple[int, int], Watch] | None = None  # service and episodes, and the watch after them

    @property
    def watch(self) -> Watch | None:
        """What is known of the target that is served; none if none is.

        It follows from the record, so that several operations of one run know the same.
        """
        service = self._optimizer.history.serving
        if service is None:
            return None
        key = (service.number, service.episodes)
        if self._known is None or self._known[0] != key:
            self._known = (key, self._watch_so_far(service))
        return self._known[1]

    @property
    def episodes(self) -> int:
        """Episodes served so far, at all targets."""
        return self._optimizer.history.served

    @property
    def halted(self) -> e.Halted | None:
        """Why no target is served any more and what to do, if so."""
        return self._optimizer.history.halted

    @property
    def target(self) -> Target | None:
        """The target to serve; none before `begin`, once halted, and if it has been `overtaken`."""
        service = self._optimizer.history.serving
        if service is None or self.overtaken is not None or (self.watch is not None and self.watch.alarm is not None):
            return None
        return self._optimizer.problem.target(service.target)

    @property
    def overtaken(self) -> str | None:
        """What keeps the target from being served on: other limits, or what was told since and shows it to be unfit."""
        history, service = self._optimizer.history, self._optimizer.history.serving
        if service is None:
            return None
        if service.serving.limits != self._optimizer.problem.limits:
            return "the limits have changed since it began"
        if history.judged_at > service.number and all(each.point != service.target for each in self._optimizer.fit):
            return "by what was told since it began, its target is not fit to be operated any more"
        return None

    @property
    def realised_bound(self) -> tuple[float, ...] | None:
        """Largest mean of each cost over the episodes of the served target that the silence of its watch allows.

        True whatever happened: days, wear, an adversary. None if no target is served; infinite where no largest cost of
        an episode is known.
        """
        if self.watch is None or self._optimizer.history.serving is None:
            return None
        bounds = realised_bound(self.watch.limits, self.watch)
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
            raise TrialError(f"Operation serves no target: {self._why_none()}.")
        newcomer = self._optimizer.history.open
        if newcomer is not None and newcomer.asked.stage in NEWCOMERS:
            raise TrialError(
                f"Trial {newcomer.number} is open and may spend what the account holds; tell it first, then these"
                " episodes."
            )
        rows = self._optimizer.checked(episodes)
        self._optimizer.record(e.Served(episodes=rows))
        service, watch = self._optimizer.history.services[-1], watch.update(np.array(rows)[:, 1:])
        self._known = ((service.number, service.episodes), watch)
        alarm = watch.alarm
        if alarm is not None:
            self.settle()
        elif len(self._optimizer.history.recent) >= _SNAPSHOT:
            self._summarize(watch)
        return Verdict(target, alarm, self.target)

    def settle(self) -> None:
        """Do what an alarm asks for, as far as it is not done yet: a run may have been killed right before."""
        history = self._optimizer.history
        if not history.services or history.halted is not None:
            return
        service = history.services[-1]
        watch = self.watch
        if watch is not None and (alarm := watch.alarm) is not None:
            self._optimizer.record(
                e.Alarm(
                    target=service.target,
                    rule=alarm.rule,
                    cost=alarm.cost,
                    episode=alarm.episode,
                    mean=alarm.mean,
                    limit=alarm.limit,
                )
            )
        if self.must_fall_back:
            self._fall_back()

    def _is_last(self, number: int) -> bool:
        """Whether nothing was tried since a target began to be served: else the search goes on from new evidence."""
        return all(tried.told_number < number for tried in self._optimizer.history.told)

    @property
    def must_fall_back(self) -> bool:
        """Whether an alarm was raised, and nothing has been done about it yet."""
        history = self._optimizer.history
        if not history.services or history.halted is not None or history.services[-1].alarm is None:
            return False
        return self._is_last(history.services[-1].number)

    @property
    def rung(self) -> Recommendation | None:
        """The target to fall back to from the one that was served last; none if there is none."""
        service = self._optimizer.history.services[-1]
        alarmed = max(mean / b for mean, b in zip(service.means[1:], service.serving.limits, strict=True))
        return next_rung(self._optimizer.fit, alarmed, self._optimizer.problem.limits)

    def _fall_back(self) -> None:
        service, rung = self._optimizer.history.services[-1], self.rung
        assert service.alarm is not None
        why = _in_words(service.alarm)
        if rung is not None:
            self._serve(rung, f"fallback: {why}", service.serving.rung + 1)
            return
        self._optimizer.record(e.Halted(why=f"{why}, and no less costly target may be served", advice=self._advice()))

    def _advice(self) -> str:
        if self._optimizer.held is not None:
            return (
                f"Look at the system first ({self._optimizer.held}); once that is settled, confirm, and search again."
            )
        look = "Look at the system: has something worn, moved or been replaced?"
        if self._optimizer.done is not None:
            return f"{look} Then begin a new run: this search is over ({self._optimizer.done})."
        return (
            f"{look} Then search again: what the alarm has shown is known, and a trial that is paid for brings a target"
            " back."
        )

    def _serve(self, target: Recommendation, why: str, rung: int) -> None:
        limits, largest = self._optimizer.problem.limits, self._optimizer.beliefs.most
        level = self._level / 2**rung
        Watch.start(limits, level, largest)  # refuses what cannot be watched, before it is recorded
        self._optimizer.record(
            e.Serving(target=target.point, why=why, limits=limits, level=level, largest=largest, rung=rung)
        )

    def _watch_so_far(self, service: Service) -> Watch:
        """Return the watch over the target that is served, from the last snapshot and the episodes since."""
        history, serving = self._optimizer.history, service.serving
        if history.snapshot is not None:
            watch = Watch.from_plain(history.snapshot.watch)
        else:
            watch = Watch.start(serving.limits, serving.level, serving.largest)
        return watch.update(np.array(history.recent)[:, 1:]) if history.recent else watch

    def _summarize(self, watch: Watch) -> None:
        history, account = self._optimizer.history, self._optimizer.beliefs.account
        self._optimizer.record(
            e.Snapshot(
                services=tuple(service.totals for service in history.services),
                watch=watch.to_plain(),
                account=() if account is None else account.holds,
            )
        )

    def _why_none(self) -> str:
        if self.halted is not None:
            return f"it has halted: {self.halted.why}. {self.halted.advice}"
        return f"{self.overtaken or 'it has not begun'}; call begin()"

    def _none_is_fit(self) -> str:
        limits = ", ".join(f"{limit:g}" for limit in self._optimizer.problem.limits)
        held = self._optimizer.held
        if held is not None:
            return f"No target may be operated under the limit {limits} while the search is held: {held}."
        return (
            f"No target may be operated under the limit {limits}: none that was tried has paid for its risk and shown"
            " by its own episodes what it costs. Go on with the search, or raise the limit."
        )


def _in_words(alarm: e.Alarm) -> str:
    watch = Alarm(rule=alarm.rule, cost=alarm.cost, episode=alarm.episode, mean=alarm.mean, limit=alarm.limit)  # type: ignore[arg-type]  # recorded as text
    return str(watch)
