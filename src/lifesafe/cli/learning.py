"""Learn from logs, and see what was learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional

from lifesafe.cli.settings import Settings, settings_help, with_settings
from lifesafe.console import (
    FOUND,
    OK,
    Directory,
    Limits,
    Number,
    OutFile,
    bar,
    collection_bar,
    option,
    print_json,
    study_bars,
    table,
)
from lifesafe.errors import ConfigError

if TYPE_CHECKING:
    from lifesafe.data import Dataset
    from lifesafe.policies import LearnerConfig
    from lifesafe.policies.learner import StoredPolicy
    from lifesafe.systems import Task

# As lifesafe.lab.baselines.catalogue has them, which --help must not wait for.
Conditioned = Literal["cdt", "cdt-osrl", "dt-cost", "rvs"]
Baseline = Literal[
    "ccac",
    "ccac-osrl",
    "bc-all",
    "bc-frontier",
    "bc-safe",
    "bcq-lag",
    "bcq-lag-osrl",
    "bear-lag",
    "bear-lag-osrl",
    "cpq",
    "cpq-osrl",
    "coptidice",
    "coptidice-osrl",
]
Name = Annotated[str, Positional, option("TASK")]
Policies = Annotated[tuple[Path, ...], option("DIRECTORY", "policy")]
Log = Literal["csv", "tensorboard", "wandb", "none"]
_POLICIES = 3  # that a study of targets against actual returns trains


def train(
    name: Name,
    /,
    *,
    data: OutFile = None,
    method: Conditioned | Baseline = "cdt",
    limit: Limits = (),
    settings: Settings = (),
    seed: int = 0,
    out: Directory = None,
    device: str = "cpu",
    compile: bool = False,
    log: Log = "csv",
    json: bool = False,
) -> int:
    """Train a policy from logged data.

    Nothing is run on the system: the policy learns what actions led to which rewards and costs. A training that was
    interrupted or killed goes on where it was when the same command is given again, and ends with the same weights.
    The directory then holds policy/ (weights, settings, scales) and training/ (log.csv, the last checkpoint).

    Policies that can be asked for target returns, and so for any limit: cdt, a Constrained Decision Transformer with
    lifesafe's defaults; cdt-osrl, the same as OSRL trains it (days on a CPU); dt-cost, a plain Decision Transformer;
    rvs, a return-conditioned MLP. Others, to compare with: ccac, for any limit; bcq-lag, bear-lag, cpq and coptidice,
    each for the one --limit; behavior cloning of all episodes (bc-all), of the best at their cost (bc-frontier) or of
    those within --limit (bc-safe). A name that ends in -osrl computes what the incumbents' code does, errors included.
    `--set help` lists the settings of a method.

    While other work keeps the processors busy, set OMP_NUM_THREADS=1: threads that wait for each other are then
    slower than one alone, by far.

    Examples:
        lifesafe train PointCircle
        lifesafe train CarCircle --data logs.hdf5 --set steps=10000 --set width=64 --out runs/car
        lifesafe train HopperVelocity --method cpq --limit 20 --seed 1 --device cuda

    Exit codes: 0 trained, 2 an error, 130 interrupted (run it again to go on).

    Args:
        name: The task, as `lifesafe tasks` lists them.
        data: HDF5 file in the layout of DSRL; unless given, the task's own data.
        method: How it is trained.
        limit: Largest cost of an episode, one per cost, for methods that are trained for one; the task's own unless
            given.
        settings: A setting of the method, such as steps=2000; may be given several times.
        seed: Decides everything that is random.
        out: Directory of the run; unless given, runs/train-TASK-METHOD-SEED, with the limit if it matters.
        device: cpu, cuda, cuda:1 or mps.
        compile: Let torch.compile fuse the computation.
        log: Where metrics go.
        json: Print the outcome as JSON.
    """
    from lifesafe.systems import task

    known = task(name, limits=limit or None)
    config = configured(method, known, settings)
    if "help" in settings:
        print(settings_help(config))
        return OK
    from lifesafe.lab.baselines.catalogue import needs_limit
    from lifesafe.policies import progress_bar
    from lifesafe.policies import train as learn

    dataset = _dataset(known, data)
    words = [name, method, *(f"{value:g}" for value in known.limits if needs_limit(method)), str(seed)]
    directory = out or Path("runs") / "-".join(["train", *words])
    with progress_bar(f"{name} {method}") as progress:
        learn(
            config, dataset, seed=seed, directory=directory, device=device, compile=compile, log=log, progress=progress
        )
    if json:
        print_json({"task": name, "policy": str(directory / "policy"), "seed": seed, "dataset": dataset.fingerprint})
    else:
        print(f"Policy: {directory / 'policy'}")
    return OK


def evaluate(
    name: Name,
    policy: Annotated[Path, Positional, option("POLICY")],
    /,
    *,
    reward: Number = None,
    limit: Limits = (),
    episodes: int = 20,
    seed: int = 0,
    workers: int = 2,
    json: bool = False,
) -> int:
    """Run a trained policy in simulation, and tell what its episodes earned and cost.

    A policy that can be asked is asked for --reward at a cost of just the limit. That is no safe search: whether it
    does what it is asked for is what this shows.

    Examples:
        lifesafe evaluate HopperVelocity runs/train-HopperVelocity-cpq-20-0/policy --limit 20
        lifesafe evaluate PointCircle runs/train-PointCircle-cdt-0/policy --reward 300 --limit 20

    Exit codes: 0 the mean costs keep the limits, 1 they do not, 2 an error.

    Args:
        name: The task, as `lifesafe tasks` lists them.
        policy: Directory of the policy.
        reward: What a policy that can be asked should earn; unless given, the most in the public data of the
            task, or 0 where it has none.
        limit: Largest mean cost of an episode, one per cost; the task's own unless given.
        episodes: How many.
        seed: Decides everything that is random.
        workers: Processes that run episodes; 0 for none but this one.
        json: Print the returns of every episode as JSON.
    """
    import numpy as np

    from lifesafe.lab.baselines import RvSConfig
    from lifesafe.policies import CDTConfig, load
    from lifesafe.returns import Returns, returns_array
    from lifesafe.systems import evaluate as run
    from lifesafe.systems import task

    known, acting = task(name, limits=limit or None), load(policy)
    _check_fits(acting, known)
    wanted = reward if reward is not None else (known.reference[1] if known.reference else 0.0)
    with bar("Running episodes", episodes) as advance:
        done = 0

        def progress(count: int, _: int) -> None:
            nonlocal done
            advance(count - done)
            done = count

        target = Returns(wanted, known.limits)
        returns = returns_array(run(acting, known, target, episodes, seed=seed, workers=workers, progress=progress))
    mean, spread = returns.mean(axis=0), returns.std(axis=0)
    safe = bool(np.all(mean[1:] <= known.limits))
    if json:
        print_json({"task": name, "target": [wanted, *known.limits], "returns": returns.tolist(), "safe": safe})
    else:
        heading = ("", "reward", *(f"cost (limit {value:g})" for value in known.limits))
        asked = {"asked for": target} if isinstance(acting.config, CDTConfig | RvSConfig) else {}
        rows = [
            (word, *(f"{x:.1f}" for x in row)) for word, row in (asked | {"mean": mean, "deviation": spread}).items()
        ]
        print(table([heading, *rows]))
    return OK if safe else FOUND


def collect(
    name: Name,
    /,
    *,
    settings: Settings = (),
    seed: int = 0,
    workers: int = 2,
    out: Directory = None,
    json: bool = False,
) -> int:
    """Make a dataset in simulation: train a behavior for all cost limits at once, and log the whole training.

    For those who cannot fetch the public data, or whose task has none. PPO with Lagrange multipliers trains one network
    that is told its cost limit; every episode, from the first clumsy ones to the last, is logged, and an even choice
    over the plane of cost and reward is written in the layout of DSRL. Tasks of the paper have settings that are
    known to serve; the rest starts from the defaults. It takes half an hour to some hours, may be interrupted at any
    time, and goes on when the same command is given again; with more steps it collects more. EnvPool is used where
    it is installed and has the task.

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
    from lifesafe.data import read_dsrl
    from lifesafe.lab.collection import collect as gather
    from lifesafe.lab.collection import preset
    from lifesafe.systems import task

    known, config = task(name), preset(name)
    if "help" in settings:
        print(settings_help(config))
        return OK
    config = with_settings(config, settings)
    directory = out or Path("runs") / f"collect-{name}-{seed}"
    with collection_bar(name) as progress:
        path = gather(known, config, directory, seed=seed, workers=workers, progress=progress)
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
    name: Name,
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
    """Draw target against actual returns: does a trained policy do what it is asked for?

    One policy per seed is trained from the data and run, in simulation, at a grid of targets; with --policy, those that
    you have. If the lines lay on the diagonal, nobody would need a safe search for targets; they seldom do (Figure 2 of
    Wachi et al. 2025). What is finished in the directory is not done again.

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
    from lifesafe.lab.figures import save
    from lifesafe.lab.figures.alignment import draw_alignment
    from lifesafe.report.wording import plural
    from lifesafe.systems import task

    if policies and (settings or method != "cdt" or seeds != _POLICIES):
        raise ConfigError(
            "--policy runs policies as they are; --method, --set and --seeds are for those that are trained here."
        )
    known = task(name, limits=limit)
    config = configured(method, known, settings)
    if "help" in settings:
        print(settings_help(config))
        return OK
    dataset = _dataset(known, data)
    directory = out or Path("runs") / f"alignment-{name}-{'policies' if policies else method}"
    with study_bars(name, rewards * costs * episodes) as (on_training, on_evaluation):
        run = (
            partial(study_policies, known, dataset, policies, directory)
            if policies
            else partial(study, known, dataset, config, directory, seeds=range(seeds), training_progress=on_training)
        )
        parts = run(rewards=rewards, costs=costs, episodes=episodes, workers=workers, evaluation_progress=on_evaluation)
    picture = directory / "alignment.png"
    words = [*([] if policies else [method]), plural(len(parts), "seed"), f"{episodes} episodes a target"]
    title = f"{name}: {', '.join(words)}"
    save(draw_alignment(parts, known.limits, title), picture)
    if json:
        points = [{"seed": p.seed, "target": x.target, "mean": x.mean.tolist()} for p in parts for x in p.points]
        print_json({"task": name, "picture": str(picture), "points": points})
        return OK
    rows = [("seed", "training", "evaluation", "targets", "above the limit")]
    for part in parts:
        above = sum(bool((point.mean[1:] > known.limits).any()) for point in part.points)
        rows.append(
            (str(part.seed), f"{part.training:.0f} s", f"{part.evaluation:.0f} s", str(len(part.points)), str(above))
        )
    print(table(rows))
    print(f"Picture: {picture}")
    return OK


def _dataset(task: Task, data: Path | None) -> Dataset:
    """Return the data given, else those of the task."""
    from lifesafe.cli.data import data_directory
    from lifesafe.data import read_dsrl

    dataset = task.dataset(data_directory()) if data is None else read_dsrl(data.expanduser())
    task.check(dataset)
    return dataset


def _check_fits(policy: StoredPolicy, task: Task) -> None:
    """Refuse a policy of another task."""
    plain = policy.plain()
    sizes = plain.get("sizes", plain)
    found = sizes.get("observations") or len(plain["scaling"]["mean"]), sizes["actions"]
    if found != (task.observations, task.actions):
        raise ConfigError(
            f"The policy sees {found[0]} numbers and acts by {found[1]}; task {task.name!r} has {task.observations}"
            f" observations and {task.actions} actions. Give the task that it was trained for."
        )


def configured(method: str, task: Task, settings: Sequence[str]) -> LearnerConfig:
    """Return the settings of a method for a task and its limits, some of them changed."""
    from lifesafe.lab.baselines.catalogue import method_config

    if any(word.partition("=")[0].strip() == "limits" for word in settings):
        raise ConfigError("limits are no setting of a method here; give them by --limit.")
    config = method_config(method, limits=task.limits, task=task.name)
    return with_settings(config, [word for word in settings if word != "help"])
