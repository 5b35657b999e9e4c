"""How a search is begun from the shell, and what it will take."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, UseAppendAction

from lifesafe.cli.words import shell_words
from lifesafe.console.arguments import Count, Limits, Number, OutFile, option
from lifesafe.console.progress import progress
from lifesafe.console.prompts import OK, plural
from lifesafe.console.tables import print_json
from lifesafe.data import read_dsrl
from lifesafe.errors import ConfigError, JournalError
from lifesafe.journal.store import JOURNAL, Record, journal_path, read_records
from lifesafe.preparation.logs import problem_from_logs
from lifesafe.preparation.planning import Effort, effort
from lifesafe.safety import Problem
from lifesafe.safety.beliefs import Beliefs, believed

NumberPerCost = Annotated[tuple[float, ...], option("NUMBER")]
Incident = Annotated[tuple[str, ...], option("NUMBER|horizon")]
Axes = Annotated[tuple[str, ...], UseAppendAction, tyro.conf.arg(name="axis", metavar="NAME=LOW:HIGH[:UNIT]")]
Targets = Annotated[tuple[str, ...], UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE,...")]
OptionalRun = Annotated[Path | None, Positional, option("[RUN]")]

_BEGIN = (
    "begin one with --data LOGS --limit NUMBER, or without logs with --axis, --begin-at and --limit; see `lifesafe ask"
    " --help`"
)


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What a search is begun with. Leave all of it out to go on with one."""

    data: OutFile = None
    """Logs to begin with: HDF5 file in the layout of DSRL. They give the axes and the starts."""
    limit: Limits = ()
    """Largest mean cost of an episode, one per cost."""
    axis: Axes = ()
    """Without logs: the range of an axis, "speed=0:2:m/s", say; once for each. Axes named reward and cost (or cost 1,
    cost 2, ...) are returns that a policy is asked for; others are knobs of your system."""
    begin_at: Targets = ()
    """A target that you know to be safe: "speed=0.5,gain=0.1"; may be given several times, the most trusted first.
    Taken from the logs unless given."""
    target: Targets = ()
    """One of the only targets that may be asked for, "reward=200,cost=5", say; once for each. The starts are among
    them. Anything on the axes may be asked for unless given."""
    rewards: Annotated[tuple[float, float] | None, option("LOW HIGH")] = None
    """Range in which the reward of an episode lies; needed if no axis is named reward."""
    delta: Number = None
    """Probability with which the promise may fail; 0.1 unless given."""
    promise: Annotated[Literal["trial", "total"] | None, option("{trial,total}")] = None
    """trial: no trial's mean cost exceeds a limit, under the model (unless given). total: what all episodes have cost
    never exceeds what was allowed, without a model; needs --stop-at."""
    stop_at: NumberPerCost = ()
    """Cost at which you end an episode, one per cost or one for all; tell the cost at the stop."""
    largest_step: NumberPerCost = ()
    """Largest cost of one step, by which an episode can exceed --stop-at; 1 unless given."""
    incident: Incident = ()
    """Largest cost that one mishap adds, where there is no stop: 3 limits unless given. "horizon" assumes nothing: an
    episode may cost as much as --largest says; safe, and slow."""
    largest: NumberPerCost = ()
    """Largest cost that an episode can have at all: its steps times the largest cost of a step."""
    episodes: Count = None
    """Real episodes that the search takes at most; 150 unless given."""
    seed: Count = None
    """Decides what is drawn; 0 unless given."""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the problem that were given, besides logs, axes and limits."""
        given: dict[str, Any] = {
            "rewards": self.rewards,
            "delta": self.delta,
            "promise": self.promise,
            "stop_at": self.stop_at or None,
            "largest_step": self.largest_step or None,
            "incident": incident_of(self.incident),
            "largest": self.largest or None,
            "episodes": self.episodes,
            "seed": self.seed,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was given."""
        return self == Beginning()

    def problem(self) -> Problem:
        """Return the problem that a search is begun with.

        Raises:
            ConfigError: If something is missing or impossible.
            DatasetError: If the logs cannot be begun with.
            NoSafeTargetError: If the cheap episodes of the logs look like luck.
        """
        if not self.limit:
            raise ConfigError("Give --limit: the largest mean cost of an episode, one per cost.")
        if (self.data is None) == (not self.axis):
            raise ConfigError("Give either --data with logs, or an --axis for everything that you can set.")
        if not self.begin_at and (self.axis or self.target):
            among = ", and one of --target" if self.target else ""
            raise ConfigError(f"Give --begin-at: a target that you know to be safe{among}, as speed=0.5,gain=0.1.")
        settings = self.settings
        for name, words in {"starts": self.begin_at, "targets": self.target}.items():
            settings |= {name: [point_of(each) for each in words]} if words else {}
        if self.data is not None:
            logs = read_dsrl(self.data.expanduser())
            return problem_from_logs(logs, limits=self.limit, **settings)
        return Problem(axes=_axes(self.axis), limits=self.limit, **settings)

    def check(self, run: Path, recorded: Problem) -> None:
        """Refuse what differs from what the search in a directory was begun with.

        Raises:
            JournalError: If something does.
        """
        there, words = recorded.to_plain(), []
        for name, value in {"limits": self.limit or None, **self.settings}.items():
            if value is None:
                continue
            here = list(value) if isinstance(value, tuple) else value
            here = here * len(recorded.limits) if isinstance(here, list) and len(here) == 1 else here
            if here != there[name]:
                option = "--limit" if name == "limits" else f"--{name.replace('_', '-')}"
                words.append(f"{option} is {_shown(there[name])} there, {_shown(here)} here")
        if not words:
            words = [f"its {name} are others" for name, here in self._where(recorded).items() if here != there[name]]
        if words:
            raise JournalError(
                f"The search in {run} was begun otherwise: {'; '.join(words)}. Leave these options out to go on with"
                f" it, or give another directory to begin another. For other limits: lifesafe limits {run} --limit"
                " NUMBER."
            )

    def _where(self, recorded: Problem) -> dict[str, Any]:
        """Return the axes and starts that were given, as far as they were, as a problem writes them."""
        given: dict[str, Any] = {}
        if self.data is not None:
            plain = replace(self, limit=self.limit or recorded.limits).problem().to_plain()
            given = {"axes": plain["axes"], "starts": plain["starts"]}
        elif self.axis:
            given["axes"] = [[name, *axis] for name, axis in _axes(self.axis).items()]
        for name, words in {"starts": self.begin_at, "targets": self.target}.items():
            given |= {name: [list(recorded.point(point_of(each))) for each in words]} if words else {}
        return given


Begin = Annotated[Beginning, tyro.conf.arg(name="")]


def plan(run: OptionalRun = None, /, *, begin: Begin = Beginning(), json: bool = False) -> int:  # noqa: B008
    """Tell how many real episodes a search will take.

    It also says what limits that, and what would shorten it. Give what `lifesafe ask` would begin the search with,
    or the directory of a run that was begun. The search is run a few times on a plain machine, whose costs are what
    is asked for; so the plan is exact about the rules and the start, and a rule of thumb about your machine.
    Nothing is recorded.

    Examples:
        lifesafe plan --data logs.hdf5 --limit 20
        lifesafe plan --axis speed=0:2:m/s --begin-at speed=0.5 --rewards 0 900 --limit 20 --stop-at 40
        lifesafe plan runs/robot --json

    Exit codes: 0 told, 2 an error; it is one if the search could never leave its start.

    Args:
        run: Directory of a run that was begun.
        begin: What a search would be begun with.
        json: Print the plan as JSON.
    """
    if run is not None and not begin.is_empty:
        raise ConfigError("Give either the directory of a run, or what a search would be begun with.")
    if run is None and begin.is_empty:
        raise ConfigError(f"There is nothing to plan; give the directory of a run, or {_BEGIN}.")
    if run is None:
        problem, done = begin.problem(), 0
    else:
        beliefs = begun(journal_path(run))
        problem, done = beliefs.problem, beliefs.searched
    made = planned(problem)
    if json:
        shorter = {shell_words(change): count for change, count in made.shorter.items()}
        more = {"shorter": shorter, "done": done, "promise": problem.promise, "limits": list(problem.limits)}
        print_json(asdict(made) | more)
    else:
        print(described(made, problem))
        if done:
            print(
                f"{plural(done, 'episode')} done so far; `lifesafe report {shlex.quote(str(run))}` shows the findings."
            )
    return OK


def planned(problem: Problem) -> Effort:
    """Return the plan of a search, showing that it is being made."""
    with progress("planning"):
        return effort(problem)


def described(made: Effort, problem: Problem) -> str:
    """Return a plan, and which promise can be had, in the words of the shell."""
    lines = [shell_words(str(made))]
    if all(problem.sure):
        lines.append(
            "An episode costs at most the stop and one step, and that keeps the limits: every single episode keeps"
            " them for sure, and only reward is searched."
        )
    elif problem.stop_at is not None and problem.promise == "trial":
        lines.append(
            "With your stop you may have the promise that needs no model, too: --promise total (what all episodes have"
            " cost never exceeds what was allowed)."
        )
    return "\n".join(lines)


def begun(run: Path) -> Beliefs:
    """Return what is believed in the search in a directory.

    Raises:
        JournalError: If there is none.
    """
    records = recorded(run)
    if not records:
        raise JournalError(f"{run} records no search yet; {_BEGIN}.")
    return believed(records)


def recorded(run: Path) -> list[Record]:
    """Return the records of the search in a directory; none if it was not begun."""
    path = run if run.is_file() else run / JOURNAL
    return read_records(path, everything=False) if path.exists() else []


def _axes(words: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    axes: dict[str, tuple[Any, ...]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        low, _, rest = text.partition(":")
        high, _, unit = rest.partition(":")
        try:
            axis = (float(low), float(high), unit)
        except ValueError as error:
            raise ConfigError(f"An axis is given as NAME=LOW:HIGH or NAME=LOW:HIGH:UNIT; got {word!r}.") from error
        if not equals or not name.strip() or name.strip() in axes:
            raise ConfigError(f"Every --axis needs a name of its own, as in speed=0:2:m/s; got {word!r}.")
        if "," in name:
            raise ConfigError(f"A comma separates axes in --begin-at, so no name may have one; got {name.strip()!r}.")
        axes[name.strip()] = axis
    return axes


def incident_of(words: Sequence[str]) -> tuple[float, ...] | Literal["horizon"] | None:
    """Return the words of --incident as numbers, or as "horizon"; none if there are none.

    Raises:
        ConfigError: If they are something else.
    """
    if not words:
        return None
    if tuple(words) == ("horizon",):
        return "horizon"
    try:
        return tuple(float(word) for word in words)
    except ValueError as error:
        raise ConfigError(f'--incident is a number, one per cost, or "horizon"; got {" ".join(words)}.') from error


def point_of(text: str) -> dict[str, float]:
    """Return a target from words such as "speed=0.5,gain=0.1".

    Raises:
        ConfigError: If a word is no name with a number.
    """
    point: dict[str, float] = {}
    for word in text.split(","):
        name, _, value = word.partition("=")
        try:
            number = float(value)
        except ValueError as error:
            raise ConfigError(f"A target is given as speed=0.5,gain=0.1, say; got {text!r}.") from error
        if name.strip() in point:
            raise ConfigError(f"{text!r} names {name.strip()} twice; give every axis once.")
        point[name.strip()] = number
    return point


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
