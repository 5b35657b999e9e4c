"""Operation: serves the best target, watches what it costs, falls back, and halts when nothing is left to fall back to.

Everything is recorded in the journal of the optimizer before a call returns, so an operation that was killed goes on
where it was.

    serving   a target begins to be served: which, why, under which limits and monitor
    served    what some episodes returned, and the evidence of the monitor after them
    alarm     the monitor is sure; the target is not used any more
    halted    no target is left
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lifesafe._config import from_plain, to_plain
from lifesafe.errors import NoSafeTargetError, TrialError
from lifesafe.operation.ladder import level, next_rung
from lifesafe.operation.monitor import Alarm, Monitor, MonitorConfig
from lifesafe.optimizer import Recommendation, SafeOptimizer
from lifesafe.optimizer.dither import dithered
from lifesafe.returns import Returns, returns_array


@dataclass(frozen=True)
class Verdict:
    """What came of some episodes.

    Attributes:
        target: The target that was served.
        alarm: The alarm they raised, if any.
        next_target: The target to serve from now on: the same, the one fallen back to, or none once halted.
    """

    target: Returns
    alarm: Alarm | None
    next_target: Returns | None


class Operation:
    """An operation as the record of an optimizer tells it; `begin` starts it or goes on with it.

    Then run episodes with `targets`, `tell` what they returned, and so on, for ever. There is no simulator in here: the
    same calls serve a machine.

    Args:
        optimizer: What has found the target.
        config: How easily the monitor raises an alarm, for targets that begin to be served from now on.
    """

    def __init__(self, optimizer: SafeOptimizer, config: MonitorConfig | None = None) -> None:
        self._optimizer = optimizer
        self._config = config or MonitorConfig()
        self._serving: dict[str, Any] | None = None
        self._monitor: Monitor | None = None
        self._withdrawn = False  # whether the alarm of the monitor is on record
        self._judged = 0  # trials after which the target that is served was known to be fit
        self._halted_after = 0  # trials that had been told when operation halted
        self.episodes = 0
        """Episodes served so far, at all targets."""
        self.halted: str | None = None
        """Why no target is served any more, if so."""
        for kind, body in optimizer.operation:
            self._repeat(kind, body)
        if self.halted is not None and len(optimizer.trials) > self._halted_after:
            self.halted = None  # there is new evidence since

    @property
    def target(self) -> Returns | None:
        """The target to serve; none once halted, and none before `begin` if it has been `overtaken`."""
        if self._serving is None or self.overtaken is not None:
            return None
        return self._optimizer.problem.target(self._serving["index"])

    @property
    def overtaken(self) -> str | None:
        """What keeps the target from being served on: other limits, or trials since that show it not to be fit."""
        if self._serving is None:
            return None
        if tuple(self._serving["limits"]) != self._optimizer.problem.limits:
            return "the limits have changed since it began"
        trials = len(self._optimizer.trials)
        if trials > self._judged:
            if all(target.index != self._serving["index"] for target in self._optimizer.fit):
                return "by the trials since it began, its target is not fit to be operated any more"
            self._judged = trials
        return None

    def targets(self, episodes: int) -> list[Returns]:
        """Return what to ask for in each of the next episodes: the target, dithered if the problem says so.

        Raises:
            TrialError: If no target is served.
        """
        if self.target is None:
            raise self._serves_none()
        coming = range(self.episodes, self.episodes + episodes)
        return dithered(self._optimizer.problem, self.target, coming, "operate")

    @property
    def monitor(self) -> Monitor | None:
        """What is known of the target being served."""
        return self._monitor

    def begin(self) -> Returns | None:
        """Serve the best target, unless one is being served and fit for it; return it, or none if halted.

        Raises:
            NoSafeTargetError: If no target is fit to be operated.
            ConfigError: If the problem does not say how large costs can be.
        """
        if self._monitor is not None and self._monitor.alarm is not None:  # killed between alarm and fallback
            self._fall_back(self._monitor.alarm)
        limits = self._optimizer.problem.limits
        if self.halted is None and self.target is None:
            best = self._optimizer.best
            if best is None:
                raise NoSafeTargetError(
                    f"No target is fit to be operated under the limits {limits}: none that was tried is certified by"
                    " the model and by its own episodes. Go on with the optimization, or raise the limits."
                )
            self._serve(best, "the best target that is certified")
        return self.target

    def tell(self, episodes: Sequence[Returns]) -> Verdict:
        """Record what episodes of the served target returned, and judge them.

        Raises:
            TrialError: If no target is served (operation has halted or was `overtaken`), or the returns do not fit;
                nothing is recorded then.
        """
        target = self.target
        if self._serving is None or self._monitor is None or target is None:
            raise self._serves_none()
        index = self._serving["index"]
        monitor = self._monitor.update(returns_array(episodes)[:, 1:])
        self._optimizer.serve(index, episodes, monitor.evidence)
        self._monitor, self.episodes = monitor, self.episodes + len(episodes)
        if monitor.alarm is not None:
            self._fall_back(monitor.alarm)
        return Verdict(target, monitor.alarm, self.target)

    def _serves_none(self) -> TrialError:
        if self.halted is not None:
            return TrialError(f"Operation serves no target: it has halted: {self.halted}.")
        return TrialError(f"Operation serves no target: {self.overtaken or 'it has not begun'}; call begin().")

    def _fall_back(self, alarm: Alarm) -> None:
        assert self._serving is not None
        if not self._withdrawn:
            self._optimizer.withdraw(self._serving["index"], asdict(alarm))
        rung = next_rung(self._optimizer.fit, self._serving["level"], self._optimizer.problem.limits)
        if rung is not None:
            self._serve(rung, f"fallback: {alarm}")
            return
        why = f"{alarm}, and no less costly target is certified"
        body = {"why": why, "trials": len(self._optimizer.trials)}
        self._optimizer.note("halted", body)
        self._halt(body)

    def _serve(self, target: Recommendation, why: str) -> None:
        limits = self._optimizer.problem.limits
        body = {
            "index": target.index,
            "target": list(target.target),
            "limits": list(limits),
            "level": level(target, limits),
            "cost_upper": list(target.cost_upper),
            "monitor": to_plain(self._config),
            "why": why,
            "trials": len(self._optimizer.trials),
        }
        monitor = self._start(body)  # first: without bounds on the costs nothing may be recorded
        self._optimizer.note("serving", body)
        self._serve_from(body, monitor)

    def _start(self, serving: dict[str, Any]) -> Monitor:
        config = from_plain(MonitorConfig, serving["monitor"])
        return Monitor.start(serving["limits"], self._optimizer.problem.cost_bounds, config)

    def _serve_from(self, serving: dict[str, Any], monitor: Monitor) -> None:
        self._serving, self._monitor, self._withdrawn, self.halted = serving, monitor, False, None
        self._judged = serving.get("trials", 0)  # not told by records of before

    def _halt(self, body: dict[str, Any]) -> None:
        self._serving, self._monitor = None, None
        self.halted, self._halted_after = body["why"], body["trials"]

    def _repeat(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "serving":
            self._serve_from(body, self._start(body))
        elif kind == "served" and self._monitor is not None:
            episodes = np.array(body["episodes"], dtype=np.float64)
            self._monitor = self._monitor.update(episodes[:, 1:])
            self.episodes += len(episodes)
        elif kind == "alarm":
            self._withdrawn = True
        elif kind == "halted":
            self._halt(body)
