"""A whole life from the shell: run, optimize, operate."""

from __future__ import annotations

import json as json_module
import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional

from lifesafe.cli.plan import Incident, NumberPerCost, described, incident_of, planned
from lifesafe.cli.words import in_shell, shell_words
from lifesafe.console.arguments import Count, Directory, Limits, OutFile, Run, Word, option
from lifesafe.console.progress import progress
from lifesafe.console.prompts import FOUND, OK, numbers, plural, say
from lifesafe.console.settings import Settings, data_directory, settings_help
from lifesafe.console.tables import Table, print_json
from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.interfaces import Progress
from lifesafe.journal.history import Tried
from lifesafe.lab.commands.methods import Conditioned, configured, given_threads, on_training
from lifesafe.report.page import write_page
from lifesafe.report.reading import Reading
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.problem import Target
from lifesafe.systems import Task, task_from_id
from lifesafe.systems import task as find_task

if TYPE_CHECKING:
    from lifesafe.life import Lifetime
    from lifesafe.life.comparison import TargetReturns

_HEADINGS = (
    "",
    "limit",
    "target (R, G)",
    "reward",
    "normalized",
    "cost",
    "cost / limit",
    "safe",
    "episodes",
    "stopped",
)

OptionalName = Annotated[str | None, Positional, option("[TASK]")]


def run(
    name: OptionalName = None,
    /,
    *,
    env: Word = None,
    cost: Word = None,
    largest_step: tuple[float, ...] = (1.0,),
    horizon: Count = None,
    data: OutFile = None,
    limit: Limits = (),
    delta: float = 0.1,
    promise: Literal["trial", "total"] = "trial",
    stop_at: NumberPerCost = (),
    incident: Incident = (),
    episodes: int = 150,
    start: Literal["data", "calm", "paper"] = "data",
    operate: int = 100,
    level: float = 0.01,
    method: Conditioned = "cdt",
    settings: Settings = (),
    plain: bool = True,
    seed: int = 0,
    workers: int = 2,
    out: Directory = None,
    device: str = "cpu",
    json: bool = False,
) -> int:
    """Train a policy from logs, find its best safe target, operate it.

    First it is told how many real episodes the search will take, and what would shorten it. Training touches nothing
    but the logs. Then targets are tried, only ones known to be safe: first a careful one until its own episodes prove
    it safe, then more. The best target is served under a watch. What was done is kept in the directory, and the same
    command goes on after an interruption.

    At the end, the target that users ask for without this search, the most reward in the logs and a cost of just the
    limit, is run beside it; `--no-plain` leaves that out.

    Examples:
        lifesafe run PointCircle
        lifesafe run HopperVelocity --data logs.hdf5 --limit 20 --stop-at 40 --promise total
        lifesafe run --env Pendulum-v1 --cost my_costs:swing --limit 20 --data logs.hdf5

    Exit codes: 0 a target is operated, 1 none is fit for it or operation halted, 2 an error, 130 interrupted (run it
    again to go on).

    Args:
        name: The task, as `lifesafe tasks` lists them; leave it out with --env.
        env: A Gymnasium environment instead of a task; "module:Id" imports the module first.
        cost: What a step of it costs: "module:function" of (observation, action, next observation, info); unless
            given, its own info["cost"].
        largest_step: Largest cost of one of its steps, one per cost.
        horizon: Steps of its longest episode; its own limit unless given.
        data: HDF5 file in the layout of DSRL; unless given, the task's own data.
        limit: Largest mean cost of an episode, one per cost; the task's own unless given.
        delta: Probability with which the promise may fail.
        promise: What is promised. trial: no trial's mean cost exceeds a limit, under the model. total: what all
            episodes have cost never exceeds what was allowed, without a model; needs --stop-at.
        stop_at: End every episode as soon as its cost reaches this, one per cost or one for all: two or three limits,
            say. The target is then found for episodes that are ended so.
        incident: Largest cost that one mishap adds, where there is no stop: 3 limits unless given. horizon: nothing is
            assumed, and an episode may cost as much as its steps allow; safe, and slow.
        episodes: Real episodes that the search takes at most.
        start: Where the search begins. data: at all reward and no cost for a CDT that was trained on relabeled
            episodes, as it is unless you change that; for others, and with calm for all, at a middling reward of the
            cheap logged episodes and no cost: better if the training was short. paper: in the paper's box. data and
            calm leave out rewards at which the cheap logged episodes look like luck.
        operate: How many episodes to operate.
        level: Probability that the watch over the operated target ever raises a false alarm.
        method: How the policy is trained; see `lifesafe train --help`.
        settings: A setting of the method, such as steps=2000; may be given several times.
        plain: The plain target is run beside it at the end, too, unless --no-plain is given.
        seed: Decides everything that is random.
        workers: Processes that run episodes; 0 for none but this one.
        out: Directory of the run; unless given, runs/TASK-METHOD-SEED.
        device: Where to train: cpu, cuda, cuda:1 or mps.
        json: Print the outcome as JSON.
    """
    known = _task(name, env, cost=cost, largest_step=largest_step, horizon=horizon, limits=limit)
    config = configured(method, known, settings)
    if "help" in settings:
        print(settings_help(config))
        return OK
    from lifesafe.life import Lifetime, Plan, Search

    search = Search(
        delta=delta,
        promise=promise,
        stop_at=stop_at or None,
        incident=incident_of(incident),
        episodes=episodes,
        start=start,
    )
    plan = Plan(task=known, method=config, search=search, level=level, seed=seed)
    directory = out or Path("runs") / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', known.name)}-{method}-{seed}"
    logs = _given(known, data)
    with Lifetime.open(directory, plan, data=logs, workers=workers) as life:
        say(f"Run: {directory}")
        code = _conclude(life, _live(life, operate, plain=plain, device=device), json)
    if not json:
        print(f"For its report: lifesafe report {shlex.quote(str(directory))}")
    return code


def demo(
    *,
    out: Path = Path("runs/demo"),
    limit: float = 20.0,
    delta: float = 0.1,
    steps: int = 2000,
    seed: int = 0,
    workers: int = 2,
    json: bool = False,
) -> int:
    """Live a whole life on the embedded task, in a minute or two.

    At its end the report of the run is written. PointCircle: a point is paid for driving in a circle, and driving
    far out costs. A small Constrained Decision Transformer learns from logs of 1500 episodes by drivers of all
    kinds; then targets are tried in 150 episodes, only ones known to be safe; then the best one is operated under
    the watch. Beside it stands plain CDT, asked for the most reward in the logs at a cost of just the limit, as one
    would without the search.

    The same command goes on after an interruption; to begin anew, remove the directory or give another.

    Examples:
        lifesafe demo
        lifesafe demo --limit 40 --out runs/demo-40

    Exit codes: 0 a target is operated, 1 none is fit for it, 2 an error, 130 interrupted (run it again to go on).

    Args:
        out: Directory of the run.
        limit: Largest mean cost of an episode.
        delta: Probability with which any trial at all may exceed the limit.
        steps: Gradient steps of the training.
        seed: Decides everything that is random.
        workers: Processes that run episodes; 0 for none but this one.
        json: Print the outcome as JSON.
    """
    from lifesafe.life import Lifetime, Plan, Search
    from lifesafe.policies import CDTConfig

    config = CDTConfig(steps=steps, batch=64, width=64, layers=2, heads=4, context=2)
    search = Search(delta=delta, start="calm")
    plan = Plan(task=find_task("PointCircle", limits=limit), method=config, search=search, seed=seed)
    with Lifetime.open(out, plan, workers=workers) as life:
        say(f"Run: {out}")
        rows = _live(life, 100, plain=True)
        code = _conclude(life, rows, json)
    path = out / "report.html"
    with progress("writing the report"):
        write_page(Reading.read(out), path)
    if not json:
        print(f"Report: {path}")
    return code


def optimize(run: Run, *, limit: Limits = (), workers: int = 2, json: bool = False) -> int:
    """Find the best safe target of a run, also for other limits.

    What is already known is used. Nothing is trained again: what a target returns does not depend on the limit, so
    every trial so far counts. With one cost several limits may be given; they are worked through one after the
    other, and the table at the end has a row for each.

    Examples:
        lifesafe optimize runs/HopperVelocity-cdt-0
        lifesafe optimize runs/HopperVelocity-cdt-0 --limit 40
        lifesafe optimize runs/HopperVelocity-cdt-0 --limit 10 20 40

    Exit codes: 0 found, 1 no target is fit to be operated under the last limit, 2 an error, 130 interrupted.

    Args:
        run: Directory of the run.
        limit: Limits on the mean cost of an episode; those of the run unless given.
        workers: Processes that run episodes; 0 for none but this one.
        json: Print the outcome as JSON.
    """
    from lifesafe.life import Lifetime
    from lifesafe.life.comparison import best_row

    rows: list[TargetReturns] = []
    _look_here()
    with Lifetime.open(run, workers=workers) as life:
        costs = len(life.task.limits)
        asked: list[tuple[float, ...]] = [limit] if costs > 1 and limit else [(each,) for each in limit]
        for limits in asked or [life.optimizer.problem.limits]:
            life.change_limits(limits)
            _search(life)
            rows.append(best_row(life))
        return _conclude(life, rows, json)


def operate(
    run: Run,
    *,
    episodes: int = 100,
    together: int = 10,
    until_alarm: bool = False,
    workers: int = 2,
    json: bool = False,
) -> int:
    """Serve the best target of a run under the watch.

    Every episode and every verdict is recorded; episodes end at the stop, if the run has one. If the watch is sure that
    a cost is too high, the target is withdrawn and a less costly one is served; when none is left, operation halts.

    Examples:
        lifesafe operate runs/HopperVelocity-cdt-0 --episodes 1000
        lifesafe operate runs/HopperVelocity-cdt-0 --together 1 --until-alarm

    Exit codes: 0 served, 1 operation has halted or has ended at an alarm, 2 an error, 130 interrupted (run it again to
    serve further episodes).

    Args:
        run: Directory of the run.
        episodes: How many.
        together: How many run side by side; the watch judges them when all have ended.
        until_alarm: End at the first alarm, before another target is served. Look at the machine; the same command then
            goes on with the target that was fallen back to.
        workers: Processes that run episodes; 0 for none but this one.
        json: Print one line of JSON per episode.
    """
    from lifesafe.life import Lifetime
    from lifesafe.life.comparison import operated_row

    _look_here()
    with Lifetime.open(run, workers=workers) as life:
        alarmed = _serve(life, episodes, together, until_alarm=until_alarm, as_json=json)
        if json:
            return FOUND if alarmed or life.phase == "halted" else OK
        code = _conclude(life, [operated_row(life)], json)
        return FOUND if alarmed else code


def _task(
    name: str | None,
    env: str | None,
    *,
    cost: str | None,
    largest_step: tuple[float, ...],
    horizon: int | None,
    limits: tuple[float, ...],
) -> Task:
    _look_here()
    if (name is None) == (env is None):
        raise ConfigError("Give either a task, as `lifesafe tasks` lists them, or --env with a Gymnasium environment.")
    if name is not None:
        return find_task(name, limits=limits or None)
    if not limits:
        raise ConfigError(f"Give --limit for {env}: the largest mean cost of an episode, one per cost.")
    assert env is not None
    if len(largest_step) == 1:
        largest_step *= len(limits)
    return task_from_id(env, limits=limits, cost=cost, largest_costs=largest_step, horizon=horizon)


def _look_here() -> None:
    """Let modules in the current directory be found, as `python -m` does: environments and costs of one's own."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _given(task: Task, data: Path | None) -> Any:
    """Return the file given, or the data of the task from where this machine keeps them."""
    return data.expanduser() if data is not None else task.dataset(data_directory())


def _live(life: Lifetime, episodes: int, *, plain: bool, device: str = "cpu") -> list[TargetReturns]:
    """Train, search and operate, each as far as it is not done yet, and return what came of it."""
    from lifesafe.life.comparison import operated_row, plain_row

    if not life.has_search:
        say(described(planned(life.problem), life.problem))
    if life.phase == "train":
        with progress(life.task.name) as report:
            life.train(on_training(report), device=device, threads=given_threads())
    if life.optimizer.problem.limits != life.task.limits:  # changed by `lifesafe optimize` since
        say(f"Back to the limit of this command, {numbers(life.task.limits)}.")
        life.change_limits(life.task.limits)
    if life.phase == "optimize":
        _search(life)
    elif life.optimizer.stage not in ("done", "held"):  # what was served has shown that there may be more to gain
        say(f"A target is served. `lifesafe optimize {shlex.quote(str(life.directory))}` searches on for a better one.")
    rows: list[TargetReturns] = []
    if life.optimizer.best is not None:
        _serve(life, max(episodes - life.served, 0))
        rows.append(operated_row(life))
    if plain:
        with progress("running the plain target"):
            rows.append(plain_row(life))
    return rows


def _search(life: Lifetime) -> None:
    """Optimize, with a line for every trial and a bar for the episodes."""
    optimizer = life.optimizer
    before = optimizer.history.searched - optimizer.beliefs.searched  # under other limits
    with progress("") as report:

        def told(episodes: int, note: str) -> None:
            report(Progress("episodes", episodes, optimizer.problem.episodes, note))

        if optimizer.done is None and optimizer.held is None:
            told(optimizer.beliefs.searched, _heading(optimizer))
        trials = len(optimizer.trials)

        def on_episodes(state: Progress) -> None:
            nonlocal trials
            line = _line(optimizer) if len(optimizer.trials) > trials else ""
            trials = len(optimizer.trials)
            told(state.done - before, line)

        with suppress(NoSafeTargetError):  # `_conclude` says why the search is over
            life.optimize(on_episodes)


def _heading(optimizer: SafeOptimizer) -> str:
    limits = numbers(optimizer.problem.limits)
    left = "account" if optimizer.problem.promise == "total" else "risk left"
    return f"trial  stage     episodes  {'targets (R, G)':38}  mean reward  {f'mean cost (limit {limits})':>20}  {left}"


def _line(optimizer: SafeOptimizer) -> str:
    tried, problem = optimizer.trials[-1], optimizer.problem
    reward, *costs = tried.episodes.mean(axis=0).tolist()
    left = f"{1 - optimizer.spent / problem.delta:9.0%}"
    if optimizer.beliefs.account is not None:
        left = ", ".join(f"{held:.4g}" for held in optimizer.beliefs.account.holds).rjust(7)
    flag = "" if optimizer.beliefs.exceeded(tried) is None else "  ABOVE THE LIMIT"
    return (
        f"{tried.number:5d}  {tried.asked.stage:8}  {len(tried.episodes):8d}  {_lottery(tried):38}  {reward:11.4g}"
        f"  {', '.join(f'{cost:.3g}' for cost in costs):>20}  {left}{flag}"
    )


def _lottery(tried: Tried) -> str:
    """Return the targets of a trial, with how many episodes each had if there are several."""
    drawn = Counter(tried.points[: len(tried.episodes)])
    points = [point for point in tried.asked.targets if point in drawn]  # the center first
    for digits in (4, 5, 6):  # a scout near its center must not look like it
        words = [f"({', '.join(f'{value:.{digits}g}' for value in point)})" for point in points]
        if len(set(words)) == len(words):
            break
    counts = [drawn[point] for point in points]
    return words[0] if len(words) == 1 else ", ".join(f"{n} x {word}" for n, word in zip(counts, words, strict=True))


def _serve(
    life: Lifetime, episodes: int, together: int = 10, *, until_alarm: bool = False, as_json: bool = False
) -> bool:
    """Serve so many episodes, or until the first alarm; return whether that has ended it."""
    with nullcontext(lambda state: None) if as_json else progress("operating") as report:
        for count, served in enumerate(life.operate(episodes, together=together), 1):
            report(Progress("episodes", count, episodes))
            if as_json:
                print(json_module.dumps(asdict(served), allow_nan=False), flush=True)
            if served.alarm is not None:
                then = "next" if until_alarm else "now serving"
                then = "operation halts" if served.next_target is None else f"{then} {_target(served.next_target)}"
                say(f"ALARM at {_target(served.target)}: {served.alarm}; {then}")
                if until_alarm:
                    return True
    return False


def _target(target: Target) -> str:
    """Return a target as the table of trials shows it."""
    assert isinstance(target, Returns)  # a policy is asked for returns
    return f"({', '.join(f'{value:.4g}' for value in target)})"


def _cells(row: TargetReturns) -> tuple[str, ...]:
    """Return what came of a target in words, below `_HEADINGS`."""
    limits, costs = (", ".join(f"{value:.3g}" for value in values) for values in (row.limits, row.costs))
    if row.target is None or row.reward is None:
        return (row.name, limits, "none", *["-"] * 5, "0", "-")
    target = f"({row.target[0]:.4g}, {', '.join(f'{cost:.3g}' for cost in row.target[1:])})"
    normalized = "-" if row.normalized is None else f"{row.normalized:.2f}"
    shares = ", ".join(f"{share:.2f}" for share in row.costs_normalized)
    ended = "-" if row.ended is None else f"{row.ended:.0%}"
    safe = "yes" if row.safe else "NO"
    return (row.name, limits, target, f"{row.reward:.1f}", normalized, costs, shares, safe, str(row.episodes), ended)


def _conclude(life: Lifetime, rows: Sequence[TargetReturns], json: bool) -> int:
    optimizer, problem = life.optimizer, life.optimizer.problem
    above = sum(optimizer.beliefs.exceeded(tried) is not None for tried in optimizer.trials)
    account, stopped = optimizer.beliefs.account, _stopped(optimizer)
    fit, phase = optimizer.best is not None, life.phase
    if json:
        print_json(
            {
                "run": str(life.directory),
                "phase": phase.value,
                "promise": problem.promise,
                "trials": len(optimizer.trials),
                "searched": optimizer.history.searched,
                "served": optimizer.history.served,
                "above": above,
                "stop_at": None if problem.stop_at is None else list(problem.stop_at),
                "stopped": stopped,
                "spent": optimizer.spent,
                "delta": problem.delta,
                "account": None if account is None else list(account.holds),
                "held": in_shell(optimizer.held),
                "done": in_shell(optimizer.done),
                "rows": [asdict(row) for row in rows],
            }
        )
        return OK if fit and phase != "halted" else FOUND
    if rows:
        print(Table(_HEADINGS, [_cells(row) for row in rows]).text() + "\n")
    print(_counted(optimizer, above), end=" ")
    limits = numbers(problem.limits)
    if all(problem.sure):
        print(f"Every single episode keeps the limit {limits} for sure.", end=" ")
    elif account is None:
        print(f"Risk spent {optimizer.spent:.3f} of delta {problem.delta:g} under the limit {limits}.", end=" ")
    else:
        print(f"The account holds {', '.join(f'{held:.4g}' for held in account.holds)}; limit {limits}.", end=" ")
    if stopped is not None:
        print(f"The stop at {numbers(problem.stop_at or ())} ended {plural(stopped, 'episode')}.", end=" ")
    print(f"Phase: {phase.value}.")
    if optimizer.held is not None:
        print(
            f"The search is held: {shell_words(optimizer.held)}. Look into it, then:"
            f" lifesafe confirm {shlex.quote(str(life.directory))} --reason WHY"
        )
    elif optimizer.done is not None:
        print(f"The search is over: {shell_words(optimizer.done)}{'' if optimizer.done.endswith('.') else '.'}")
    halted = optimizer.history.halted
    if halted is not None:
        print(f"Operation has halted: {shell_words(halted.why)}. {shell_words(halted.advice)}")
    elif not fit and phase == "halted":
        print(
            "No target is fit to be operated: none that was tried is known to keep the limit. Train the policy longer,"
            " give the search more episodes, or raise the limit: `lifesafe optimize --limit`."
        )
    return OK if fit and phase != "halted" else FOUND


def _counted(optimizer: SafeOptimizer, above: int) -> str:
    """Return how many trials and episodes there were, and how many trials were clearly above a limit."""
    told = f"{plural(len(optimizer.trials), 'trial')} with {plural(optimizer.history.searched, 'episode')}"
    problem = optimizer.problem
    if problem.promise == "total" or all(problem.sure):
        return f"{told}."
    after = sum(tried.asked.stage != "start" for tried in optimizer.trials)
    if not after:
        return f"{told}, all of them at a start."
    verb = "is" if above < 2 else "are"
    return f"{told}; of the {after} after the start, {above or 'none'} {verb} clearly above a limit."


def _stopped(optimizer: SafeOptimizer) -> int | None:
    """Return how many episodes the stop has ended, of trials and of operation; none if there is no stop."""
    stop_at = optimizer.problem.stop_at
    if stop_at is None:
        return None
    stops = list(stop_at)
    tried = sum(int((each.episodes[:, 1:] >= stops).any(axis=1).sum()) for each in optimizer.trials)
    return tried + sum(service.ended for service in optimizer.history.services)
