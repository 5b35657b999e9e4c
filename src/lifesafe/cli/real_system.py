"""A search on a system that no simulator stands for, from the shell: ask for a trial, tell what it returned."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from lifesafe.cli.console import OK, Limits, OutFile, Run, print_json
from lifesafe.errors import ConfigError, JournalError, TrialError

if TYPE_CHECKING:
    from lifesafe.optimizer import Problem, SafeOptimizer, Schedule, Trial
    from lifesafe.returns import Returns

Number = Annotated[float | None, tyro.conf.arg(metavar="NUMBER")]
Seed = Annotated[int | None, tyro.conf.arg(metavar="INT")]


def ask(
    run: Run,
    *,
    data: OutFile = None,
    limit: Limits = (),
    cost_bounds: tuple[float, ...] = (),
    delta: Number = None,
    dither: Number = None,
    seed: Seed = None,
) -> int:
    """Print the trial to run now as JSON: which target, for how many episodes.

    For systems that no simulator stands for: run the episodes in your lab, then `lifesafe tell`. Asking again gives the
    same trial until it is told. When the search is done the answer has no trial, but the best target.

    "held_by" is null unless a violation, or costs far above what was predicted, hold up the search: then no new target
    is asked for until `lifesafe confirm`.

    The first time, --data and --limit begin the search; the other options count only then. Where the cheap episodes of
    the logs look like luck, it does not begin.

    Examples:
        lifesafe ask runs/robot --data logs.hdf5 --limit 20 --cost-bounds 500
        lifesafe ask runs/robot | jq .target

    Exit codes: 0 printed, 2 an error.

    Args:
        run: Directory of the run.
        data: Logs to begin with: HDF5 file in the layout of DSRL.
        limit: Largest mean cost of an episode, one per cost.
        cost_bounds: Largest possible cost of an episode, one per cost: horizon times the largest cost of a step. With
            it, the first target is certified whatever the distribution of costs, and operation can be monitored.
        delta: Probability with which any trial at all may exceed a limit; 0.1 unless given.
        dither: How much what is asked for differs from episode to episode, as a fraction of each axis; not at all
            unless given. "targets" then has a target for every episode.
        seed: Decides what dither draws; 0 unless given.
    """
    from lifesafe.optimizer import SafeOptimizer
    from lifesafe.optimizer.journal import JOURNAL

    settings = {"cost_bounds": cost_bounds or None, "delta": delta, "dither": dither, "dither_seed": seed}
    settings = {name: value for name, value in settings.items() if value is not None}
    problem, schedule = None, None
    if limit:
        _check_limits(run, limit)
    if data is not None or limit or settings:
        if data is None or not limit:
            raise ConfigError(
                "To begin a search give both --data and --limit; to go on with one give only its directory. It keeps"
                " the bounds, delta, dither and seed that it was begun with."
            )
        problem, schedule = _begin(data, limit, settings)
    elif not (run / JOURNAL).exists():
        raise JournalError(f"{run} records no search yet; begin one with --data LOGS --limit NUMBER.")
    with SafeOptimizer.open(run, problem, schedule) as optimizer:
        trial = optimizer.ask()
        asked = _trial(trial, optimizer) if trial is not None else {"trial": None, **_best(optimizer)}
        print_json(asked | {"held_by": optimizer.held_by})
    return OK


def tell(run: Run, file: Annotated[Path, Positional, tyro.conf.arg(metavar="FILE")], *, trial: int) -> int:
    """Record what the episodes of a trial returned.

    The file holds a JSON list with one entry per episode: {"reward": 12.5, "cost": 3}, or {"reward": 12.5, "costs":
    [3, 0.5]} with several costs. A dash stands for standard input. Give every episode, not their mean.

    Examples:
        lifesafe tell runs/robot episodes.json --trial 7
        echo '[{"reward": 12.5, "cost": 3}]' | lifesafe tell runs/robot - --trial 7

    Exit codes: 0 recorded, 2 an error; nothing is recorded then.

    Args:
        run: Directory of the run.
        file: The episodes.
        trial: Number of the trial, as `lifesafe ask` printed it.
    """
    from lifesafe.optimizer import SafeOptimizer
    from lifesafe.report.history import journal_path

    journal_path(run)
    episodes = read_episodes(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes(), str(file))
    with SafeOptimizer.open(run) as optimizer:
        found = next((each for each in optimizer.open_trials if each.number == trial), None)
        if found is None:
            numbers = [each.number for each in optimizer.open_trials] or "none"
            raise TrialError(f"Trial {trial} is not open; open trials: {numbers}. `lifesafe ask {run}` prints it.")
        optimizer.tell(found, episodes)
        means = optimizer.trials[-1].episodes.mean(axis=0)
        costs = ", ".join(f"{value:.4g}" for value in means[1:])
        print(f"Trial {trial}: {len(episodes)} episodes, mean reward {means[0]:.4g}, mean cost {costs}.")
    return OK


def confirm(run: Run, *, reason: str) -> int:
    """Let a search go on that a violation, or costs far above what was predicted, hold up.

    Then the model is in doubt, and only targets already tried, or only seeds, are asked for. Look at the system first:
    was it an accident, a sensor, another floor? The reason is kept in the record, and the report says that somebody
    confirmed. If costs really rise so abruptly, do not confirm: what was found so far can be operated.

    Examples:
        lifesafe confirm runs/robot --reason "trial 7: a wheel was loose; fixed"

    Exit codes: 0 the search goes on, 2 an error; it is one if nothing holds up the search.

    Args:
        run: Directory of the run.
        reason: Why you still trust the model.
    """
    from lifesafe.optimizer import SafeOptimizer
    from lifesafe.report.history import journal_path

    journal_path(run)
    if not reason.strip():
        raise TrialError("The reason is empty; say why the search may go on, for those who read the record.")
    with SafeOptimizer.open(run) as optimizer:
        held_by = optimizer.held_by
        optimizer.confirm(reason.strip())
        left = "its trials are used up" if optimizer.stage == "done" else "it goes on"
    print(f"The search was held up by {'a violation' if held_by == 'violation' else held_by}; {left}.")
    return OK


def read_episodes(text: str | bytes, source: str) -> list[Any]:
    """Return the episodes in a JSON text.

    Raises:
        TrialError: If it is not a list of episodes, naming the first entry that is none.
    """
    from lifesafe.returns import Returns

    shape = '{"reward": 12.5, "cost": 3} or {"reward": 12.5, "costs": [3, 0.5]}'
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise TrialError(f"{source} is not JSON: {error}. Give a list of {shape}.") from error
    if not isinstance(entries, list) or not entries:
        raise TrialError(f"{source} must hold a list with one entry per episode, each {shape}.")
    episodes = []
    for number, entry in enumerate(entries, 1):
        try:
            costs = entry["costs"] if "costs" in entry else [entry["cost"]]
            episodes.append(Returns(float(entry["reward"]), [float(each) for each in costs]))
        except (KeyError, TypeError, ValueError) as error:
            raise TrialError(f"{source}: episode {number} is {entry!r}; give {shape}, all finite numbers.") from error
    return episodes


def _check_limits(run: Path, limits: tuple[float, ...]) -> None:
    """Refuse limits that a search which was begun never had."""
    from lifesafe.optimizer.journal import JOURNAL, read_events

    if not (run / JOURNAL).exists():
        return
    bodies = [event.body for event in read_events(run / JOURNAL) if event.kind in ("opened", "limits")]
    had = [tuple(body.get("problem", body)["limits"]) for body in bodies]
    if had and limits not in had:
        now, asked = (", ".join(f"{limit:g}" for limit in each) for each in (had[-1], limits))
        raise JournalError(
            f"The search in {run} has the limit {now}; got {asked}. Leave --limit and --data out to go on with it,"
            " give another directory to begin another, or go on under other limits in Python, with"
            " SafeOptimizer.change_limits."
        )


def _begin(data: Path, limits: tuple[float, ...], settings: Mapping[str, Any]) -> tuple[Problem, Schedule]:
    """Return a new problem as a life has it, without seeds at which the logs look like luck, and its schedule."""
    from lifesafe.data import read_dsrl
    from lifesafe.lifetime.seeds import skilled
    from lifesafe.lifetime.trials import schedule_for
    from lifesafe.optimizer import Problem

    dataset = read_dsrl(data.expanduser())
    problem = skilled(Problem.from_returns(dataset.returns, limits=limits, **settings), dataset)
    return problem, schedule_for(problem.limits, problem.cost_bounds, problem.dither)


def _trial(trial: Trial, optimizer: SafeOptimizer) -> dict[str, Any]:
    asked = {
        "trial": trial.number,
        "target": _plain(trial.target),
        "episodes": trial.episodes,
        "stage": trial.stage.value,
        "risk": trial.risk,
    }
    return asked | (
        {"targets": [_plain(each) for each in optimizer.targets(trial)]} if optimizer.problem.dither else {}
    )


def _best(optimizer: SafeOptimizer) -> dict[str, Any]:
    best = optimizer.best
    if best is None:
        return {"best": None}
    return {
        "best": {
            "target": _plain(best.target),
            "mean": _plain(best.means),
            "cost_upper": list(best.cost_upper),
            "episodes": best.episodes,
        }
    }


def _plain(returns: Returns) -> dict[str, Any]:
    return {"reward": returns.reward, "costs": list(returns.costs)}
