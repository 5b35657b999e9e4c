"""A search on a system that no simulator stands for, from the shell: ask for a trial, tell what it returned."""

from __future__ import annotations

import json as json_module
import math
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from lifesafe.cli.plan import Begin, Beginning, Targets, begun, planned, point_of, recorded
from lifesafe.cli.words import in_shell, shell_words
from lifesafe.console.arguments import Limits, Run, option
from lifesafe.console.prompts import FOUND, OK, numbers, plural, say
from lifesafe.console.tables import print_json
from lifesafe.errors import ConfigError, GuaranteeWarning, JournalError, TrialError
from lifesafe.journal.history import Tried
from lifesafe.journal.store import journal_path
from lifesafe.operation import Operation
from lifesafe.preparation.limits import change_limits
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer
from lifesafe.safety.beliefs import opened_problem
from lifesafe.safety.problem import Target

_LIFE = "run.toml"
_SHAPE = '{"reward": 12.5, "cost": 3} or {"reward": 12.5, "costs": [3, 0.5]}'

EpisodesFile = Annotated[Path, Positional, option("FILE")]
OptionalEpisodes = Annotated[Path | None, Positional, option("[FILE]")]
_Number = Annotated[int, Positional, option("TRIAL")]


def ask(run: Run, *, begin: Begin = Beginning()) -> int:  # noqa: B008  # a value
    """Print the trial to run now: one target for each episode.

    It is printed as JSON, with the targets in the order of the episodes. For systems that no simulator stands for:
    run an episode at each target in your lab, then `lifesafe tell`. Asking again gives the same trial until it is
    told. Most targets of a trial are the same, its center; a few may lie further out, to look before the search
    steps. The promise is about the mean of all of them, so run every one.

    The first time, say what to begin with: --data and --limit, or --axis, --begin-at and --limit for knobs of your own.
    How many episodes the search will take is then told on standard error. Where the cheap episodes of the logs look
    like luck, it does not begin.

    When there is no trial, "trial" is null: "held" says what holds the search up until `lifesafe confirm`, or "done"
    why it is over, and "best" is the target to operate.

    Examples:
        lifesafe ask runs/robot --data logs.hdf5 --limit 20 --stop-at 40
        lifesafe ask runs/arm --axis speed=0:2:m/s --begin-at speed=0.5 --rewards 0 900 --limit 20
        lifesafe ask runs/robot | jq .targets

    Exit codes: 0 there is a trial, or the search is over and has a best target; 1 it is held, or over without one; 2 an
    error.

    Args:
        run: Directory of the run.
        begin: What the search is begun with.
    """
    _refuse_life(run, "ask")
    problem: Problem | None = None
    if records := recorded(run):
        begin.check(run, opened_problem(records))
    else:
        if begin.is_empty:
            begun(run)  # says what is missing
        problem = begin.problem()
        first, *_ = str(planned(problem)).splitlines()
        say(f"{shell_words(first)} `lifesafe plan {shlex.quote(str(run))}` tells more.")
    with SafeOptimizer.open(run, problem) as optimizer:
        Operation(optimizer).settle()  # an alarm that a kill has kept from the record must be known
        found = _asked(optimizer)
    print_json(found)
    return OK if found["trial"] is not None or (found["best"] is not None and found["held"] is None) else FOUND


def tell(run: Run, file: EpisodesFile, *, trial: int, early: bool = False, json: bool = False) -> int:
    """Record what the episodes of a trial returned.

    The file holds a JSON list with one entry per episode, in the order of the targets that `lifesafe ask` printed:
    {"reward": 12.5, "cost": 3}, or {"reward": 12.5, "costs": [3, 0.5]} with several costs. A dash stands for standard
    input. Give every episode, not their mean. Costs are what the episode cost up to its end, or up to the stop.

    Examples:
        lifesafe tell runs/robot episodes.json --trial 7
        echo '[{"reward": 12.5, "cost": 3}]' | lifesafe tell runs/robot - --trial 7 --early

    Exit codes: 0 recorded, 1 recorded, and it holds the search up; 2 an error, and nothing is recorded.

    Args:
        run: Directory of the run.
        file: The episodes.
        trial: Number of the trial, as `lifesafe ask` printed it.
        early: You ended the trial early, because its costs were too high, say: these are its first episodes.
        json: Print what was recorded as JSON.
    """
    _refuse_life(run, "tell")
    _check_run(run)
    episodes = parse_episodes(_content(file), str(file))
    with SafeOptimizer.open(run) as optimizer:
        _check_open(run, optimizer, trial)
        _check_costs(episodes, str(file), len(optimizer.problem.limits))
        opened = optimizer.open_trial
        assert opened is not None
        if len(episodes) != opened.episodes and not (early and len(episodes) < opened.episodes):
            fewer = len(episodes) < opened.episodes
            way = "; add --early if you ended it after the first of them" if fewer else ""
            raise TrialError(
                f"Got {plural(len(episodes), 'episode')}, and trial {trial} has {plural(opened.episodes, 'target')}."
                f" Tell one episode for each, in their order{way}."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)  # told below, with the way out
            optimizer.tell(opened, episodes)
        tried, held = optimizer.trials[-1], optimizer.held
        if json:
            print_json({**_told(tried), "held": in_shell(held), "stage": optimizer.stage})
        else:
            print(_told_words(tried))
    if held is not None:
        say(_held_words(run, held))
    return OK if held is None else FOUND


def confirm(run: Run, *, reason: str, json: bool = False) -> int:
    """Resume a search that is held.

    Look at the system first; then it may go on. A search is held when the episodes of a trial are clearly above a
    limit, or cost more than was said to be possible. Look at the system first: was it an accident, a sensor,
    another floor? Was the trial mistold? (`lifesafe retract` takes it back.) The reason is kept in the record, and
    the report shows it. If costs really rise so abruptly, do not confirm: what was found so far may be operated.

    Examples:
        lifesafe confirm runs/robot --reason "trial 7: a wheel was loose; fixed"

    Exit codes: 0 the search goes on, 2 an error; it is one if nothing holds the search up.

    Args:
        run: Directory of the run.
        reason: Why the search may go on.
        json: Print what held it, and its stage now, as JSON.
    """
    _check_run(run)
    with SafeOptimizer.open(run) as optimizer:
        held = optimizer.held
        optimizer.confirm(reason)
        if json:
            now = {"held": in_shell(optimizer.held), "stage": optimizer.stage, "done": in_shell(optimizer.done)}
            print_json({"held_before": in_shell(held), **now})
        else:
            left = f"it is over: {optimizer.done}" if optimizer.done else "it goes on"
            print(shell_words(f"The search was held ({held}); {left.removesuffix('.')}."))
    return OK


def retract(run: Run, trial: _Number, file: OptionalEpisodes = None, /, *, reason: str, json: bool = False) -> int:
    """Take back what was told of a trial, because it was wrong.

    For a trial whose returns were wrong, not for one that showed something unwelcome. Two files were swapped, a
    sensor was unplugged, the wrong machine was measured. With a file the true episodes take the place of what was
    told; without one, nothing is known of that trial any more. The risk that it was charged stays charged, and
    under the promise "total" its episodes count as if each had cost the most. The reason is kept in the record, and
    the report shows it. An open trial is dropped, because it was chosen from what was wrong; if some of its
    episodes were run, tell them first.

    Examples:
        lifesafe retract runs/robot 7 --reason "told the episodes of trial 6 again"
        lifesafe retract runs/robot 7 true.json --reason "two files were swapped"

    Exit codes: 0 recorded; 2 an error, and nothing is recorded.

    Args:
        run: Directory of the run.
        trial: Number of the trial.
        file: The true episodes, as for `lifesafe tell`; a dash stands for standard input.
        reason: What was wrong.
        json: Print what was recorded as JSON.
    """
    _check_run(run)
    episodes = None if file is None else parse_episodes(_content(file), str(file))
    with SafeOptimizer.open(run) as optimizer:
        tried = optimizer.history.trials.get(trial)
        if tried is not None and tried.told_at and episodes is not None and len(episodes) != tried.was_told:
            raise TrialError(
                f"Got {plural(len(episodes), 'episode')}, and {tried.was_told} were told of trial {trial}; give the"
                " true returns of the same ones, in their order."
            )
        _check_costs(episodes or (), str(file), len(optimizer.problem.limits))
        opened = optimizer.open_trial
        optimizer.retract(trial, reason, episodes)
        known = 0 if episodes is None else len(episodes)
        if json:
            dropped = None if opened is None else opened.number
            now = {"held": in_shell(optimizer.held), "stage": optimizer.stage}
            print_json({"trial": trial, "known": known, "dropped": dropped, **now})
        else:
            what = f"its true returns count: {plural(known, 'episode')}"
            what = "nothing is known of it any more" if episodes is None else what
            print(f"Trial {trial} is retracted; {what}.")
            if opened is not None:
                print(f"Trial {opened.number} was chosen from what was wrong: do not run it. Ask for another.")
        if optimizer.held is not None:
            say(_held_words(run, optimizer.held))
    return OK


def limits(run: Run, *, limit: Limits, begin_at: Targets = (), json: bool = False) -> int:
    """Go on with a search under other limits.

    Everything that was observed so far still counts. What a target returns does not depend on the limits, so every
    episode still counts. The promise is one for each set of limits, and the search may take all of its episodes
    once more. Under lower limits it begins at the targets that are known to keep them, or at those that you name.

    Examples:
        lifesafe limits runs/robot --limit 40
        lifesafe limits runs/arm --limit 10 --begin-at speed=0.3,gain=0.1

    Exit codes: 0 changed; 2 an error, and nothing is changed.

    Args:
        run: Directory of the run.
        limit: Largest mean cost of an episode, one per cost.
        begin_at: A target that you know to be safe under the new limits; may be given several times.
        json: Print the limits and the stage as JSON.
    """
    _refuse_life(run, "limits")
    _check_run(run)
    with SafeOptimizer.open(run) as optimizer:
        had = optimizer.problem.limits
        if len(limit) != len(had):
            raise ConfigError(f"Got {len(limit)} limits for {len(had)} costs; give one limit per cost.")
        change_limits(optimizer, limit, [point_of(each) for each in begin_at] or None)
        problem, stage = optimizer.problem, optimizer.stage
    if json:
        begins = [_plain(problem.target(start)) for start in problem.starts]
        print_json({"limits": list(problem.limits), "stage": stage, "starts": begins})
    else:
        print(f"The limit was {numbers(had)} and is {numbers(problem.limits)}; next: {stage}.")
    return OK


def parse_episodes(text: str | bytes, source: str) -> list[Returns]:
    """Return the episodes in a JSON text.

    Raises:
        TrialError: If it is not a list of episodes, naming the first entry that is none.
    """
    try:
        entries = json_module.loads(text)
    except (ValueError, RecursionError) as error:
        raise TrialError(f"{source} is not JSON: {error}. Give a list of {_SHAPE}.") from error
    if not isinstance(entries, list) or not entries:
        raise TrialError(f"{source} must hold a list with one entry per episode, each {_SHAPE}.")
    return [_episode(entry, number, source) for number, entry in enumerate(entries, 1)]


def _episode(entry: Any, number: int, source: str) -> Returns:
    try:
        if ("cost" in entry) == ("costs" in entry):
            raise ValueError("give cost, or costs")
        costs = entry["costs"] if "costs" in entry else [entry["cost"]]
        values = [entry["reward"], *costs]
        if not isinstance(costs, list) or not all(_is_number(value) for value in values):
            raise ValueError("give numbers")
        episode = Returns(float(values[0]), [float(each) for each in costs])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        shown = json_module.dumps(entry)
        shown = shown if len(shown) <= 200 else f"{shown[:200]} ..."
        raise TrialError(f"{source}: episode {number} is {shown}; give {_SHAPE}, all finite numbers.") from error
    lowest = min(episode.costs)
    if lowest < 0:
        raise TrialError(
            f"{source}: episode {number} has a cost of {lowest:g}; costs are never negative. If less is better without"
            " end, it is a reward."
        )
    return episode


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _content(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    if not file.is_file():
        raise TrialError(f"{file} is no file; give the episodes of the trial as JSON, or a dash for standard input.")
    return file.read_bytes()


def _refuse_life(run: Path, command: str) -> None:
    if (run / _LIFE).exists():
        way = "lifesafe optimize RUN --limit NUMBER" if command == "limits" else "lifesafe optimize RUN"
        raise JournalError(
            f"{run} holds a life, whose trials lifesafe runs in simulation; `lifesafe {command}` is for systems of your"
            f" own. Use `{way.replace('RUN', str(run))}`, or give another directory."
        )


def _check_run(run: Path) -> None:
    """Refuse what is no directory with a search."""
    if run.is_file():
        raise JournalError(f"{run} is a file; give the directory of a run, such as runs/robot.")
    journal_path(run)


def _check_costs(episodes: Sequence[Returns], source: str, costs: int) -> None:
    """Refuse episodes with another number of costs than there are limits."""
    for number, episode in enumerate(episodes, 1):
        if len(episode.costs) != costs:
            shape = '"cost": 3' if costs == 1 else f'"costs": [{", ".join("3" * costs)}]'
            raise TrialError(
                f"{source}: episode {number} has {plural(len(episode.costs), 'cost')}, and the search has"
                f' {plural(costs, "limit")}; give one cost for each limit, as {{"reward": 12.5, {shape}}}.'
            )


def _check_open(run: Path, optimizer: SafeOptimizer, trial: int) -> None:
    """Refuse a trial that is not open."""
    opened, directory = optimizer.open_trial, shlex.quote(str(run))
    if opened is not None and opened.number == trial:
        return
    tried = optimizer.history.trials.get(trial)
    now = f"Trial {opened.number} is open" if opened is not None else "No trial is open"
    if tried is not None and tried.dropped:
        raise TrialError(
            f"Trial {trial} was dropped by a retraction, because it was chosen from what was wrong. {now}; `lifesafe"
            f" ask {directory}` prints the one to run."
        )
    if tried is not None:
        raise TrialError(
            f"Trial {trial} was told already. {now}; if what was told is wrong, `lifesafe retract {directory} {trial}"
            " --reason WHY` takes it back."
        )
    raise TrialError(f"Trial {trial} is not open. {now}; `lifesafe ask {directory}` prints the one to run.")


def _asked(optimizer: SafeOptimizer) -> dict[str, Any]:
    """Return what to do now, as plain values."""
    trial, problem = (None if optimizer.done is not None else optimizer.ask()), optimizer.problem
    best = optimizer.best
    return {
        "trial": None if trial is None else trial.number,
        "stage": optimizer.stage,
        "episodes": 0 if trial is None else trial.episodes,
        "targets": [] if trial is None else [_plain(target) for target in trial.targets],
        "promise": problem.promise,
        "limits": list(problem.limits),
        "stop_at": None if problem.stop_at is None else list(problem.stop_at),
        "held": in_shell(optimizer.held),
        "done": in_shell(optimizer.done),
        "best": None
        if best is None
        else {
            "target": _plain(best.target),
            "mean": {"reward": best.means[0], "costs": list(best.means[1:])},
            "episodes": best.episodes,
        },
    }


def _told(tried: Tried) -> dict[str, Any]:
    mean = tried.episodes.mean(axis=0).tolist()
    return {"trial": tried.number, "episodes": len(tried.episodes), "mean": {"reward": mean[0], "costs": mean[1:]}}


def _told_words(tried: Tried) -> str:
    reward, *costs = tried.episodes.mean(axis=0).tolist()
    told = plural(len(tried.episodes), "episode")
    if len(tried.episodes) < len(tried.points):
        told = f"{len(tried.episodes)} of {plural(len(tried.points), 'episode')}"
    return (
        f"Trial {tried.number}: {told}, mean reward {reward:.4g}, mean cost"
        f" {', '.join(f'{cost:.4g}' for cost in costs)} (limit {numbers(tried.limits)})."
    )


def _held_words(run: Path, held: str) -> str:
    directory = shlex.quote(str(run))
    return (
        f"The search is held: {shell_words(held)}. Look at the system. Then `lifesafe confirm {directory} --reason"
        f" WHY` lets it go on, or `lifesafe retract {directory} TRIAL --reason WHY` takes back a trial that was"
        " mistold."
    )


def _plain(target: Target) -> dict[str, Any]:
    if isinstance(target, Returns):
        return {"reward": target.reward, "costs": list(target.costs)}
    return dict(target)
