"""Everything that the page says of a run, read once: its record, what follows from it, and how it was begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lifesafe._config import read_toml
from lifesafe.errors import ConfigError, JournalError
from lifesafe.optimizer import Bands, Problem, Recommendation, SafeOptimizer, Stage
from lifesafe.optimizer.certificates import upper_bounds
from lifesafe.optimizer.confidence import raw_bands
from lifesafe.optimizer.decision import is_done
from lifesafe.optimizer.journal import Event, read_events
from lifesafe.optimizer.recommendation import fit_targets
from lifesafe.optimizer.state import State, Trial, known_now
from lifesafe.report.history import History, journal_path
from lifesafe.report.page.operated import Operated
from lifesafe.report.simulation import Simulation
from lifesafe.returns import Returns
from lifesafe.theory.simulators import SimulatedMap

MANIFEST = "run.toml"


@dataclass(frozen=True, eq=False)
class Reading:
    """A run as the page needs it."""

    run: Path
    """As the user named it."""
    events: tuple[Event, ...]
    history: History
    state: State
    """What is known at the end."""
    operated: Operated
    manifest: dict[str, Any]
    """What the run was begun with; empty where there is no run.toml."""
    truth: SimulatedMap | None
    """The true map under the limits of now, where the system was simulated."""
    notices: tuple[str, ...]
    """What could not be read."""
    replayed: bool | None
    """Whether all decisions follow from the record; none if that was not tried."""

    @classmethod
    def read(cls, run: Path, *, replay: bool = True) -> Reading:
        """Read a run; a writer may be active.

        Args:
            run: Directory of the run.
            replay: Whether to make all decisions again and compare.

        Raises:
            JournalError: If there is no journal, it is damaged, or it is no record of an optimizer.
        """
        events = read_events(journal_path(run))
        history = History.from_events(events, str(run))
        state = history.state
        notices: list[str] = []
        manifest, simulation = _manifest(run, notices), _simulation(run, notices)
        truth = _truth(simulation, history.problem)
        replayed = _replay(events, str(run), notices) if replay else None
        return cls(
            run=run,
            events=events,
            history=history,
            state=state,
            operated=Operated.read(events, history.problem),
            manifest=manifest,
            truth=truth,
            notices=tuple(notices),
            replayed=replayed,
        )

    @property
    def problem(self) -> Problem:
        return self.history.problem

    @property
    def name(self) -> str:
        """What the run is about: the task, or the directory."""
        task = self.setting("run", "task")
        return str(task) if task else f"Run {self.run.resolve().name}"

    def setting(self, *path: str) -> Any:
        """Return a value of run.toml; none if it is not there."""
        value: Any = self.manifest
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    @cached_property
    def fit(self) -> tuple[Recommendation, ...]:
        """All targets fit to be operated, those that earn more for certain first; with the numbers of all episodes."""
        return tuple(self._up_to_date(each) for each in fit_targets(self.state))

    def own_episodes(self, index: int) -> Float[np.ndarray, "m r"]:
        """Return all episodes of a target that was tried, those of operation last.

        The model takes those of operation in batches, so it may not know the newest yet.
        """
        tried = [m.result.episodes for m in self.history.moments if m.result.trial.index == index]
        return np.concatenate([*tried, *(each.episodes for each in self.operated.servings if each.index == index)])

    def _up_to_date(self, fit: Recommendation) -> Recommendation:
        own = self.own_episodes(fit.index)
        reward, *costs = own.mean(axis=0).tolist()
        upper = upper_bounds(self.state.posterior, own)
        return replace(fit, means=Returns(reward, costs), cost_upper=upper, episodes=len(own))

    @cached_property
    def chosen(self) -> Recommendation | None:
        """The target being served, if it is fit for it; else, unless operation has halted, the best."""
        serving = self.operated.serving
        if serving is not None:
            return next((each for each in self.fit if each.index == serving.index), None)
        return None if self.operated.halted else next(iter(self.fit), None)

    @property
    def focus(self) -> int | None:
        """The candidate that slices go through: served, chosen, or the last one served or tried."""
        if self.operated.serving is not None:
            return self.operated.serving.index
        if self.chosen is not None:
            return self.chosen.index
        if self.operated.servings:
            return self.operated.servings[-1].index
        return self.history.moments[-1].result.trial.index if self.history.moments else None

    @cached_property
    def bands(self) -> Bands:
        """Confidence bounds of every return at every candidate, raw units."""
        return raw_bands(self.problem, known_now(self.state))

    @property
    def open_trials(self) -> tuple[Trial, ...]:
        """Trials asked for and not yet told."""
        return tuple(self.state.open.values())

    @cached_property
    def stage(self) -> Stage:
        """What the optimizer is doing."""
        ended = self.history.is_stranded or (not self.state.open and is_done(self.state))
        return Stage.DONE if ended else self.state.stage

    @property
    def phase(self) -> str:
        """Where the life is, in a word or two."""
        if self.operated.halted:
            return "halted"
        if self.operated.serving is not None:
            return "operating" if self.stage is Stage.DONE else f"operating, search open ({self.stage.value})"
        if self.operated.servings and self.operated.servings[-1].alarm is not None and not self.operated.halts:
            return "alarm, fallback pending"
        if self.stage is Stage.DONE:
            return "ready to operate" if self.fit else "ended without a target"
        return f"optimizing, {self.stage.value} stage"

    @property
    def violations(self) -> int:
        """Trials that show a violation."""
        return sum(moment.result.violated for moment in self.history.moments)

    @property
    def spent(self) -> float:
        """Risk charged under the limits of now."""
        return self.state.spent

    @cached_property
    def limit_changes(self) -> tuple[tuple[float, tuple[float, ...]], ...]:
        """New limits, each with the place on the axis of trials where they began."""
        told, found = 0, []
        for event in self.events:
            told += event.kind == "told"
            if event.kind == "limits":
                found.append((told + 0.5, tuple(float(b) for b in event.body["limits"])))
        return tuple(found)

    @property
    def version(self) -> str:
        """What identifies the record as it was read."""
        return f"{len(self.events)}-{self.events[-1].hash}"


def _replay(events: Sequence[Event], source: str, notices: list[str]) -> bool:
    try:
        SafeOptimizer.replay(events, source)
    except (JournalError, ConfigError) as error:
        notices.append(f"The decisions could not be made again from the record: {error}")
        return False
    return True


def _manifest(run: Path, notices: list[str]) -> dict[str, Any]:
    path = run / MANIFEST
    if not path.is_file():
        return {}
    try:
        return read_toml(path)
    except ConfigError as error:
        notices.append(f"The settings of the run are left out. {error}")
        return {}


def _truth(simulation: Simulation | None, problem: Problem) -> SimulatedMap | None:
    if simulation is None or not np.array_equal(simulation.map.candidates, problem.candidates):
        return None
    return replace(simulation.map, limit=problem.limits[0])


def _simulation(run: Path, notices: list[str]) -> Simulation | None:
    try:
        return Simulation.read(run)
    except ConfigError as error:
        notices.append(f"The truth of the simulation is left out. {error}")
        return None
