"""Make data in simulation, and see whether a policy does what it is asked for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from lifesafe.console.arguments import Directory, Number, OutFile, option
from lifesafe.console.progress import progress
from lifesafe.console.prompts import OK, plural
from lifesafe.console.settings import Settings, logged_data, settings_help, with_settings
from lifesafe.console.tables import Table, print_json
from lifesafe.data import read_dsrl
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress
from lifesafe.lab.commands.methods import Conditioned, configured, on_training
from lifesafe.systems import task

_Name = Annotated[str, Positional, option("TASK")]
Policies = Annotated[tuple[Path, ...], option("DIRECTORY", "policy")]
_POLICIES = 3  # that a study of targets against actual returns trains


def collect(
    name: _Name,
    /,
    *,
    settings: Settings = (),
    seed: int = 0,
    workers: int = 2,
    out: Directory = None,
    json: bool = False,
) -> int:
    """Make a dataset in simulation.

    One behavior is trained for all cost limits at once, and its whole training is logged. For those who cannot
    fetch the public data, or whose task has none. PPO with Lagrange multipliers trains one network that is told its
    cost limit; every episode, from the first clumsy ones to the last, is logged, and an even choice over the plane
    of cost and reward is written in the layout of DSRL. Tasks of the paper have settings that are known to serve;
    the rest starts from the defaults. It takes half an hour to some hours, may be interrupted at any time, and goes
    on when the same command is given again; with more steps it collects more. EnvPool is used where it is installed
    and has the task.

    Examples:
        lifesafe data collect HopperVelocity
        lifesafe data collect CarCircle --set steps=500000 --out runs/car
        lifesafe data collect CarCircle --set help

    Exit codes: 0 done, 2 an error, 130 interrupted (run it again to go on).

    Args:
        name: The task, as `lifesafe tasks` lists them.
        settings: A setting of the collection, such as steps=2000000; may be given several times.
        seed: Decides everything that is random.
        workers: Processes for simulators that compute in Python; 0 for none but this one.
        out: Directory of the run; unless given, runs/collect-TASK-SEED.
        json: Print the outcome as JSON.
    """
    from lifesafe.lab.collection import collect as gather
    from lifesafe.lab.collection import preset

    known, config = task(name), preset(name)
    if "help" in settings:
        print(settings_help(config))
        return OK
    config = with_settings(config, settings)
    directory = out or Path("runs") / f"collect-{name}-{seed}"
    with progress(name) as report:
        path = gather(known, config, directory, seed=seed, workers=workers, progress=report)
    dataset = read_dsrl(path)
    told = dataset.summary(known.limits)
    if json:
        plain = {"task": name, "path": str(path), "fingerprint": dataset.fingerprint}
        print_json({**plain, **dataclasses.asdict(told)})
    else:
        print(told)
        print(f"Data: {path}, fingerprint {dataset.fingerprint[:8]}")
    return OK


def alignment(
    name: _Name,
    /,
    *,
    data: OutFile = None,
    method: Conditioned = "cdt",
    settings: Settings = (),
    seeds: int = _POLICIES,
    policies: Policies = (),
    rewards: int = 5,
    costs: int = 6,
    episodes: int = 20,
    workers: int = 2,
    limit: Number = None,
    out: Directory = None,
    json: bool = False,
) -> int:
    """Draw actual returns of a policy against its targets.

    Does a trained policy do what it is asked for? One policy per seed is trained from the data and run, in
    simulation, at a grid of targets; with --policy, those that you have. If the lines lay on the diagonal, nobody
    would need a safe search for targets; they seldom do (Figure 2 of Wachi et al. 2025). What is finished in the
    directory is not done again.

    Examples:
        lifesafe alignment PointCircle
        lifesafe alignment HopperVelocity --data logs.hdf5 --seeds 3 --rewards 5 --costs 6
        lifesafe alignment CarCircle --data logs.hdf5 --policy runs/train-CarCircle-cdt-0
        lifesafe alignment AntRun --data data/AntRun.hdf5 --policy runs/bench-cpu/jobs/AntRun-pls-20-40-*/limit-20

    Exit codes: 0 done, 2 an error, 130 interrupted (run it again to go on).

    Args:
        name: The task, as `lifesafe tasks` lists them.
        data: HDF5 file in the layout of DSRL; unless given, the task's own data.
        method: How policies are trained.
        settings: A setting of the method, such as steps=2000; may be given several times.
        seeds: How many policies to train.
        policies: Policies to run instead of training some: directories of `lifesafe train`, of lives or of the jobs of
            a suite, all trained from the data given.
        rewards: How many reward targets, from the median of the data to the best.
        costs: How many cost targets, from none to the 95 % quantile of the data.
        episodes: How many at each target.
        workers: Processes that run episodes; 0 for none but this one.
        limit: Limit to draw; the task's own unless given.
        out: Directory of the study; unless given, runs/alignment-TASK-METHOD, with --policy
            runs/alignment-TASK-policies.
        json: Print mean returns at every target as JSON.
    """
    from lifesafe.lab.alignment.study import study, study_policies
    from lifesafe.lab.figures.alignment import draw_alignment
    from lifesafe.lab.figures.saving import save_figure

    if policies and (settings or method != "cdt" or seeds != _POLICIES):
        raise ConfigError(
            "--policy runs policies as they are; --method, --set and --seeds are for those that are trained here."
        )
    known = task(name, limits=limit)
    config = configured(method, known, settings)
    if "help" in settings:
        print(settings_help(config))
        return OK
    dataset = logged_data(known, data)
    directory = out or Path("runs") / f"alignment-{name}-{'policies' if policies else method}"
    grid = {"rewards": rewards, "costs": costs, "episodes": episodes, "workers": workers}
    with progress(name) as report:

        def on_episodes(seed: int, done: int, _: int) -> None:
            report(Progress(f"seed {seed}: episodes", done, rewards * costs * episodes))

        if policies:
            parts = study_policies(known, dataset, policies, directory, evaluation_progress=on_episodes, **grid)
        else:
            parts = study(
                known, dataset, config, directory, seeds=range(seeds), **grid,
                training_progress=lambda seed, state: on_training(report, f"seed {seed}: ")(state),
                evaluation_progress=on_episodes,
            )  # fmt: skip
    picture = directory / "alignment.png"
    words = [*([] if policies else [method]), plural(len(parts), "seed"), f"{episodes} episodes a target"]
    title = f"{name}: {', '.join(words)}"
    save_figure(draw_alignment(parts, known.limits, title), picture)
    if json:
        points = [{"seed": p.seed, "target": x.target, "mean": x.mean.tolist()} for p in parts for x in p.points]
        print_json({"task": name, "picture": str(picture), "points": points})
        return OK
    rows = []
    for part in parts:
        above = sum(bool((point.mean[1:] > known.limits).any()) for point in part.points)
        times = f"{part.training:.0f} s", f"{part.evaluation:.0f} s"
        rows.append((str(part.seed), *times, str(len(part.points)), str(above)))
    print(Table(("seed", "training", "evaluation", "targets", "above the limit"), rows).text())
    print(f"Picture: {picture}")
    return OK
