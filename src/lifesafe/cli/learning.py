"""Train a policy from logs, and see what it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from tyro.conf import Positional

from lifesafe.console.arguments import Directory, Limits, Number, OutFile, option
from lifesafe.console.progress import progress
from lifesafe.console.prompts import FOUND, OK
from lifesafe.console.settings import Settings, logged_data, settings_help
from lifesafe.console.tables import Table, print_json
from lifesafe.errors import ConfigError
from lifesafe.lab.commands.methods import AnyMethod, configured, given_threads, on_training
from lifesafe.lab.methods import METHODS, can_be_asked
from lifesafe.returns import Returns, returns_array
from lifesafe.systems import Task, task
from lifesafe.systems import evaluate as run_episodes

if TYPE_CHECKING:
    from lifesafe.policies.learner import StoredPolicy

_Name = Annotated[str, Positional, option("TASK")]


def train(
    name: _Name,
    /,
    *,
    data: OutFile = None,
    method: AnyMethod = "cdt",
    limit: Limits = (),
    settings: Settings = (),
    seed: int = 0,
    out: Directory = None,
    device: str = "cpu",
    compile: bool = False,
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

    One thread or all are used, whichever makes steps faster, which is measured now and then. Set OMP_NUM_THREADS to
    decide it yourself: the same command then gives the same weights to the bit.

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
        json: Print the outcome as JSON.
    """
    known = task(name, limits=limit or None)
    config = configured(method, known, settings)
    if "help" in settings:
        print(settings_help(config))
        return OK
    from lifesafe.policies import train as learn

    dataset = logged_data(known, data)
    words = [name, method, *(f"{value:g}" for value in known.limits if METHODS[method].one_limit), str(seed)]
    directory = out or Path("runs") / "-".join(["train", *words])
    with progress(f"{name} {method}") as report:
        told = on_training(report)
        learn(
            config,
            dataset,
            seed=seed,
            directory=directory,
            device=device,
            compile=compile,
            threads=given_threads(),
            report=told,
        )
    if json:
        print_json({"task": name, "policy": str(directory / "policy"), "seed": seed, "dataset": dataset.fingerprint})
    else:
        print(f"Policy: {directory / 'policy'}")
    return OK


def evaluate(
    name: _Name,
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
    """Run a trained policy in simulation; print its returns.

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
    from lifesafe.policies import load

    known, acting = task(name, limits=limit or None), load(policy)
    _check_fits(acting, known)
    wanted = reward if reward is not None else (known.reference[1] if known.reference else 0.0)
    target = Returns(wanted, known.limits)
    with progress(name) as report:
        returns = returns_array(
            run_episodes(acting, known, target, episodes, seed=seed, workers=workers, progress=report)
        )
    mean, spread = returns.mean(axis=0), returns.std(axis=0)
    safe = bool(np.all(mean[1:] <= known.limits))
    if json:
        print_json({"task": name, "target": [wanted, *known.limits], "returns": returns.tolist(), "safe": safe})
    else:
        heading = ("", "reward", *(f"cost (limit {value:g})" for value in known.limits))
        asked = {"asked for": target} if can_be_asked(acting.config) else {}
        rows = [
            (word, *(f"{x:.1f}" for x in row)) for word, row in (asked | {"mean": mean, "deviation": spread}).items()
        ]
        print(Table(heading, rows).text())
    return OK if safe else FOUND


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
