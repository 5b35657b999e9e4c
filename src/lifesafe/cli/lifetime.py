"""A whole life from the shell: run, optimize, operate."""

from __future__ import annotations

import json as json_module
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from lifesafe.cli.console import (
    FOUND,
    OK,
    Directory,
    Limits,
    OutFile,
    Run,
    patience,
    print_json,
    progress_lines,
    say,
    table,
)
from lifesafe.cli.learning import Conditioned, configured
from lifesafe.cli.settings import Settings, settings_help
from lifesafe.errors import ConfigError

if TYPE_CHECKING:
    from lifesafe.environments import Task
    from lifesafe.lifetime import Lifetime
    from lifesafe.lifetime.comparison import Row
    from lifesafe.optimizer import SafeOptimizer

OptionalName = Annotated[str | None, Positional, tyro.conf.arg(metavar="TASK")]


def run(
    name: OptionalName = None,
    /,
    *,
    env: str | None = None,
    cost: str | None = None,
    largest_costs: tuple[float, ...] = (1.0,),
    horizon: int | None = None,
    data: OutFile = None,
    limit: Limits = (),
    delta: float = 0.1,
    method: Conditioned = "cdt",
    settings: Settings = (),
    start: Literal["data", "calm", "paper"] = "data",
    dither: float = 0.05,
    simulator: str | None = None,
    trials: int = 30,
    episodes: int = 100,
    plain: bool = True,
    seed: int = 0,
    workers: int = 2,
    out: Directory = None,
    device: str = "cpu",
    json: bool = False,
) -> int:
    """Live a whole life in simulation: train a policy from logs, find its best safe target, operate it.

    Training touches nothing but the logs. Then targets are tried, only ones known to be safe: first one of no cost
    until its own episodes prove it safe, then more. The best certified one is served under a monitor. What was done is
    kept in the directory, and the same command goes on after an interruption.

    At the end, the target that users ask for without this search, the most reward in the logs and a cost of just the
    limit, is run beside it; `--no-plain` leaves that out.

    Examples:
        lifesafe run PointCircle
        lifesafe run HopperVelocity --data logs.hdf5 --limit 20
        lifesafe run --env Pendulum-v1 --cost my_costs:swing --limit 20 --data logs.hdf5

    Exit codes: 0 a target is operated, 1 none is fit for it or operation halted, 2 an error, 130 interrupted (run it
    again to go on).

    Args:
        name: The task, as `lifesafe tasks` lists them; leave it out with --env.
        env: A Gymnasium environment instead of a task; "module:Id" imports the module first.
        cost: What a step of it costs: "module:function" of (observation, action, next observation, info); unless
            given, its own info["cost"].
        largest_costs: Largest cost of one of its steps, one per cost.
        horizon: Steps of its longest episode; its own limit unless given.
        data: HDF5 file in the layout of DSRL; unless given, the task's own data.
        limit: Largest mean cost of an episode, one per cost; the task's own unless given.
        delta: Probability with which any trial at all may exceed a limit.
        method: How the policy is trained; see `lifesafe train --help`.
        settings: A setting of the method, such as steps=2000; may be given several times.
        start: Where the search begins. data: at all reward and no cost for a CDT that was trained on relabeled
            episodes, as it is unless you change that; for others, and with calm for all, at a middling reward of the
            cheap logged episodes and no cost: better if the training was short. paper: in the paper's box. data and
            calm leave out rewards at which the cheap logged episodes look like luck.
        dither: How much what is asked for differs from episode to episode, as a fraction of each axis. It lets a
            trial tell how near an edge is beyond which costs jump, even on a machine that repeats itself exactly; 0
            turns it off, where episodes differ enough by themselves.
        simulator: A task that stands for the real one. The policy is run there first, and what it returns becomes the
            prior: of use if the simulator is right about where costs rise, dangerous if it is not.
        trials: How many trials at the most, those of the first target included. Each has 20 episodes, those of the
            first as many as it takes to certify it.
        episodes: How many episodes to operate.
        plain: The plain target is run beside it at the end, too, unless --no-plain is given.
        seed: Decides everything that is random.
        workers: Processes that run episodes; 0 for none but this one.
        out: Directory of the run; unless given, runs/TASK-METHOD-SEED.
        device: Where to train: cpu, cuda, cuda:1 or mps.
        json: Print the outcome as JSON.
    """
    from lifesafe.environments import task
    from lifesafe.lifetime import Lifetime, default_schedule

    known = _task(name, env, cost=cost, largest_costs=largest_costs, horizon=horizon, limits=limit)
    config = configured(method, known, settings)
    if "help" in settings:
        print(settings_help(config))
        return OK
    directory = out or Path("runs") / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', known.name)}-{method}-{seed}"
    say(f"Run: {directory}")
    with Lifetime.open(
        directory,
        known,
        config,
        data=_given(known, data),
        seed=seed,
        delta=delta,
        schedule=replace(default_schedule(known, dither), trials=trials),
        start=start,
        dither=dither,
        simulator=None if simulator is None else task(simulator),
        workers=workers,
    ) as life:
        code = _conclude(life, _live(life, episodes, plain=plain, device=device), json)
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
    """Live a whole life on the embedded task, in a minute or two, and write its report.

    PointCircle: a point is paid for driving in a circle, and driving far out costs. A small Constrained Decision
    Transformer learns from logs of 1500 episodes by drivers of all kinds; then targets are tried, only ones known to be
    safe; then the best one is operated under the monitor. Beside it stands plain CDT, asked for the most reward in the
    logs at a cost of just the limit, as one would without the search.

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
    from lifesafe.environments import task
    from lifesafe.lifetime import Lifetime
    from lifesafe.policies import CDTConfig

    config = CDTConfig(steps=steps, batch=64, width=64, layers=2, heads=4, context=2)
    known = task("PointCircle", limits=limit)
    say(f"Run: {out}")
    with Lifetime.open(
        out, known, config, data=known.dataset(), seed=seed, delta=delta, start="calm", workers=workers
    ) as life:
        rows = _live(life, 100, plain=True)
        code = _conclude(life, rows, json)
    path = out / "report.html"
    _write_report(out, path)
    if not json:
        print(f"Report: {path}")
    return code


def optimize(run: Run, *, limit: Limits = (), workers: int = 2, json: bool = False) -> int:
    """Find the best safe target of a run; for other limits than before, too, from what is already known.

    Nothing is trained again: what a target returns does not depend on the limit, so every trial so far counts. With one
    cost several limits may be given; they are worked through one after the other, and the table at the end has a row
    for each.

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
    from lifesafe.lifetime import Lifetime
    from lifesafe.lifetime.comparison import best_row

    rows: list[Row] = []
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
    """Serve the best target of a run under the monitor, for so many more episodes.

    Every episode and every verdict is recorded. If the monitor is sure that a cost is too high, the target is withdrawn
    and a less costly one is served; when none is left, operation halts.

    Examples:
        lifesafe operate runs/HopperVelocity-cdt-0 --episodes 1000
        lifesafe operate runs/HopperVelocity-cdt-0 --together 1 --until-alarm

    Exit codes: 0 served, 1 operation has halted or has ended at an alarm, 2 an error, 130 interrupted (run it again to
    serve further episodes).

    Args:
        run: Directory of the run.
        episodes: How many.
        together: How many run side by side; the monitor judges them when all have ended.
        until_alarm: End at the first alarm, before another target is served. Look at the machine; the same command then
            goes on with the target that was fallen back to.
        workers: Processes that run episodes; 0 for none but this one.
        json: Print one line of JSON per episode.
    """
    from lifesafe.lifetime import Lifetime
    from lifesafe.lifetime.comparison import operated_row

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
    largest_costs: tuple[float, ...],
    horizon: int | None,
    limits: tuple[float, ...],
) -> Task:
    from lifesafe.environments import task, task_from_id

    _look_here()
    if (name is None) == (env is None):
        raise ConfigError("Give either a task, as `lifesafe tasks` lists them, or --env with a Gymnasium environment.")
    if name is not None:
        return task(name, limits=limits or None)
    if not limits:
        raise ConfigError(f"Give --limit for {env}: the largest mean cost of an episode, one per cost.")
    assert env is not None
    if len(largest_costs) == 1:
        largest_costs *= len(limits)
    return task_from_id(env, limits=limits, cost=cost, largest_costs=largest_costs, horizon=horizon)


def _look_here() -> None:
    """Let modules in the directory of now be found, as `python -m` does: environments and costs of one's own."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _given(task: Task, data: Path | None) -> Any:
    """Return the file given, or the data of the task from where this machine keeps them."""
    from lifesafe.cli.data import data_directory

    return data.expanduser() if data is not None else task.dataset(data_directory())


def _live(life: Lifetime, episodes: int, *, plain: bool, device: str = "cpu") -> list[Row]:
    """Train, search and operate, each as far as it is not done yet, and return what came of it."""
    from lifesafe.lifetime.comparison import operated_row, plain_row
    from lifesafe.policies import progress_bar

    if life.phase == "train":
        with progress_bar(f"{life.task.name}: training") as progress:
            life.train(progress, device=device)
    if life.optimizer.problem.limits != life.task.limits:  # changed by `lifesafe optimize` since
        say(f"Back to the limit of this command, {_limits(life.task.limits)}.")
        life.change_limits(life.task.limits)
    _search(life)
    rows: list[Row] = []
    if life.optimizer.best is not None:
        _serve(life, max(episodes - life.served, 0))
        rows.append(operated_row(life))
    if plain:
        with patience("running the plain target"):
            rows.append(plain_row(life))
    return rows


def _write_report(run: Path, path: Path) -> None:
    from lifesafe.report.page.document import write_page
    from lifesafe.report.page.reading import Reading

    with patience("writing the report"):
        write_page(Reading.read(run), path)


def _search(life: Lifetime) -> None:
    """Optimize, with a line for every trial."""
    with patience("preparing the search"):  # with a simulator, the policy is run there first
        optimizer = life.optimizer
    done = len(optimizer.trials)
    with progress_lines("trials", done + optimizer.schedule.trials) as advance:
        if optimizer.stage != "done":
            advance(_heading(optimizer), done)

        def progress(optimizer: SafeOptimizer, _: int, asked: int) -> None:
            if not asked:
                advance(_line(optimizer), len(optimizer.trials))

        life.optimize(progress)


def _heading(optimizer: SafeOptimizer) -> str:
    limits = _limits(optimizer.problem.limits)
    return f"trial  stage     episodes  target (R, G)        mean reward  mean cost (limit {limits})  risk left"


def _line(optimizer: SafeOptimizer) -> str:
    result = optimizer.trials[-1]
    trial, means = result.trial, result.episodes.mean(axis=0)
    target = f"({trial.target.reward:.4g}, {', '.join(f'{cost:.3g}' for cost in trial.target.costs)})"
    costs = ", ".join(f"{cost:.3g}" for cost in means[1:])
    left = 1 - optimizer.spent / optimizer.problem.delta
    flag = "  ABOVE THE LIMIT" if result.violated else ""
    return (
        f"{trial.number:5d}  {trial.stage.value:8}  {len(result.episodes):8d}  {target:19}  {means[0]:11.4g}"
        f"  {costs:>20}  {left:9.0%}{flag}"
    )


def _serve(
    life: Lifetime, episodes: int, together: int = 10, *, until_alarm: bool = False, as_json: bool = False
) -> bool:
    """Serve so many episodes, or until the first alarm; return whether that has ended it."""
    with _served_bar(episodes, hidden=as_json) as advance:
        for served in life.operate(episodes, together=together):
            advance()
            if as_json:
                print(json_module.dumps(asdict(served), allow_nan=False), flush=True)
            if served.alarm is not None:
                then = "next" if until_alarm else "now serving"
                then = "operation halts" if served.next_target is None else f"{then} {served.next_target}"
                say(f"ALARM at {served.target}: {served.alarm}; {then}")
                if until_alarm:
                    return True
    return False


@contextmanager
def _served_bar(total: int, *, hidden: bool) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as shown:
        bar = shown.add_task("operating", total=total)
        yield lambda: shown.advance(bar)


def _limits(limits: Sequence[float]) -> str:
    return ", ".join(f"{limit:g}" for limit in limits)


def _conclude(life: Lifetime, rows: Sequence[Row], json: bool) -> int:
    optimizer = life.optimizer
    violations = sum(result.violated for result in optimizer.trials)
    if json:
        print_json(
            {
                "run": str(life.directory),
                "phase": life.phase.value,
                "trials": len(optimizer.trials),
                "violations": violations,
                "spent": optimizer.spent,
                "delta": optimizer.problem.delta,
                "rows": [asdict(row) for row in rows],
            }
        )
    else:
        print(table([rows[0].headings(), *(row.cells() for row in rows)]) if rows else "")
        print(
            f"\n{len(optimizer.trials)} trials, {violations} of them clearly above a limit; risk spent"
            f" {optimizer.spent:.3f} of delta {optimizer.problem.delta:g} under the limit"
            f" {_limits(optimizer.problem.limits)}. Phase: {life.phase.value}."
        )
        if optimizer.best is None and life.phase == "halted":
            print(
                "No target is fit to be operated: none that was tried is certified by the model and by its own"
                " episodes. Train the policy longer, give more trials, or raise the limit: `lifesafe optimize --limit`."
            )
    return OK if optimizer.best is not None and life.phase != "halted" else FOUND
