"""The budget of Theorem 3, and simulated deployments, one or many."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from tyro.conf import Positional

from lifesafe._files import write_atomic
from lifesafe.console.arguments import Count, Number, OutFile, Word
from lifesafe.console.progress import progress
from lifesafe.console.prompts import FOUND, OK, say
from lifesafe.console.tables import Table, print_json
from lifesafe.errors import ConfigError, JournalError
from lifesafe.interfaces import Progress
from lifesafe.journal.store import JOURNAL, read_records
from lifesafe.lab.theory.budget import trial_budget
from lifesafe.lab.theory.kernels import Kernel
from lifesafe.returns import Returns, return_names
from lifesafe.safety.beliefs import opened_problem
from lifesafe.safety.problem import EPISODES, Promise
from lifesafe.safety.recommendation import Recommendation
from lifesafe.safety.search import SafeOptimizer, Trial

if TYPE_CHECKING:
    from lifesafe.lab.coverage.deployment import Deployment, Judge
    from lifesafe.lab.coverage.worlds import World

_MOST_CANDIDATES = 10_000  # of `theory budget`; the information gain looks at all pairs

_WORST_CASE = """\
This is a worst case over all maps that the prior allows, not what a run needs: a run is over after 150 episodes
unless told otherwise. `lifesafe theory coverage` simulates what to expect."""


def theory_budget(
    *,
    accuracy: float = 0.05,
    tolerance: float = 0.25,
    delta: float = 0.1,
    costs: int = 1,
    points: int = 30,
    lengthscale: float = 0.5,
    kernel: Kernel = "matern52",
    reward_sd: float = 0.15,
    reward_noise: float = 0.02,
    cost_sd: float = 0.5,
    cost_noise: float = 0.1,
    episodes: int = 20,
    literal: bool = False,
    json: bool = False,
) -> int:
    """Tell how many trials Theorem 3 asks for.

    Rewards are in units of the range of the reward axis, costs in units of the limit. Theorem 3 is a worst case
    over all maps that the prior allows: read its numbers as "finite", not as a plan. The simulated deployments
    of `lifesafe theory coverage` tell what to expect.

    Examples:
        lifesafe theory budget
        lifesafe theory budget --accuracy 0.1 --tolerance 0.5 --points 20
        lifesafe theory budget --literal --json

    Exit codes: 0 told, 2 an impossible setting.

    Args:
        accuracy: How near to the best reward, epsilon of the theorem.
        tolerance: Width of the cost bands at which exploration stops, zeta.
        delta: Probability of failure.
        costs: Number of costs.
        points: Grid points per axis; there is one axis for the reward and one per cost.
        lengthscale: Distance over which the map bends, as a fraction of an axis.
        kernel: How rough the map may be.
        reward_sd: Prior deviation of the reward.
        reward_noise: Deviation of the mean reward of a trial.
        cost_sd: Prior deviation of each cost.
        cost_noise: Deviation of the mean cost of a trial.
        episodes: Episodes of a trial.
        literal: Use the formulas of the paper as printed; not a guarantee.
        json: Print the numbers as JSON.
    """
    with progress("counting"):
        theorem = trial_budget(
            _grid(points, costs, lengthscale),
            accuracy=accuracy,
            tolerance=tolerance,
            reward_sd=reward_sd,
            reward_noise_sd=reward_noise,
            cost_sd=cost_sd,
            cost_noise_sd=cost_noise,
            delta=delta,
            costs=costs,
            kernel=kernel,
            episodes_per_trial=episodes,
            literal=literal,
        )
    if json:
        print_json(asdict(theorem) | {"trials": theorem.trials, "episodes": theorem.episodes})
    else:
        print(f"{theorem}\n\n{_WORST_CASE}")
    return OK


def theory_coverage(
    suite: Annotated[Literal["headline", "default", "held-back", "rivals", "budgets", "quick"], Positional] = "quick",
    /,
    *,
    family: Word = None,
    deployments: Count = None,
    workers: int = 2,
    out: OutFile = None,
    json: bool = False,
) -> int:
    """Count broken promises on simulated machines.

    Deployments are simulated on machines whose truth is known. Each line of the table is a family of machines and a
    search. A deployment draws a machine and searches it to the end; the truth judges every trial. The table says in
    which share of the deployments the promise was broken, the upper end of a one-sided 95 % interval of that share,
    and the verdict: the promise keeps if the upper end is at most delta; if not, which stated assumption these
    machines break, and by how much the limit was exceeded. Beside it: reward missed by the recommended target as a
    share of the range (regret), its mean cost in limits (use), real episodes, and how often the search was held.

    Suites: `headline` and `default` are whether the promises hold; `held-back` is the same on families that nobody
    tuned on; `rivals` are the searches of others on the same machines; `budgets` is what more episodes buy; `quick` is
    for a look. Every outcome is on disk when it is known, so a study that was stopped goes on.

    Examples:
        lifesafe theory coverage
        lifesafe theory coverage headline --family cliff
        lifesafe theory coverage default --deployments 100 --out runs/mine.md

    Exit codes: 0 done, 2 an error, 130 interrupted (run it again to resume).

    Args:
        suite: Which lines.
        family: Only the lines on machines of this family.
        deployments: Deployments a line; as many as the suite needs unless told.
        workers: Processes.
        out: File of the table, `runs/coverage/<suite>.md` unless told. Beside it are the numbers as .json, and a
            directory of all outcomes.
        json: Print the numbers as JSON.
    """
    # The machines need much of SciPy, which takes longer to load than all else: --help must not wait for it.
    from lifesafe.lab.coverage.simulation import simulate
    from lifesafe.lab.coverage.suite import SUITES
    from lifesafe.lab.coverage.table import markdown, summarize_row

    every, needed = SUITES[suite]
    rows = [row for row in every if family in (None, row.family)]
    if not rows:
        known = sorted({row.family for row in every})
        raise ConfigError(f"The suite {suite} has no family {family!r}; it has {', '.join(known)}.")
    count = needed if deployments is None else deployments
    path = out or Path("runs/coverage") / f"{suite}.md"
    with progress(f"{len(rows)} rows") as report:
        found = simulate(rows, count, path.with_suffix(""), workers=workers, report=report)
    numbers = [summarize_row(row, outcomes).to_plain() for row, outcomes in found.items()]
    write_atomic(path, markdown(found))
    write_atomic(path.with_suffix(".json"), dumps(numbers, indent=1) + "\n")
    if json:
        print_json(numbers)
    else:
        print(f"{markdown(found)}\nTable and numbers: {path}, .json; outcomes: {path.with_suffix('')}/")
    return OK


def _grid(points: int, costs: int, lengthscale: float) -> Any:
    if points < 2 or costs < 1 or not lengthscale > 0:
        raise ConfigError(
            f"Got {points} points, {costs} costs and length-scale {lengthscale:g}; give at least 2 points, 1 cost "
            "and a positive length-scale."
        )
    count = points ** (1 + costs)
    if count > _MOST_CANDIDATES:
        raise ConfigError(
            f"{points} points on {1 + costs} axes are {count:,} candidates; give at most {_MOST_CANDIDATES:,}."
        )
    axis = np.linspace(0.0, 1.0, points) / lengthscale
    return np.stack(np.meshgrid(*[axis] * (1 + costs), indexing="ij"), axis=-1).reshape(count, -1)


def theory_simulate(
    family: Annotated[str, Positional] = "overshoot",
    /,
    *,
    out: Path = Path("runs/simulated"),
    seed: int = 0,
    promise: Promise = "trial",
    stop: Number = None,
    delta: float = 0.1,
    episodes: int = EPISODES,
    json: bool = False,
) -> int:
    """Run the search on one simulated machine.

    What is true of it is printed beside what was found. The search tries targets, keeps its promise while it does,
    and ends with a target to operate. It knows nothing of the machine but a safe start; the truth is only for the
    reader. The run is a directory like any other: `lifesafe report` shows it. Another seed is another machine, and
    another story, not all of them as pleasant.

    An unfinished run in the directory is resumed; a finished one is told again.

    Examples:
        lifesafe theory simulate
        lifesafe theory simulate cliff --seed 3 --out runs/cliff
        lifesafe theory simulate lumps_50 --promise total --stop 3 --episodes 300 --out runs/total

    Exit codes: 0 a target was found, 1 none is fit to be operated, 2 an error, 130 interrupted (run it again
    to resume).

    Args:
        family: Kind of machine; `lifesafe.lab.coverage.worlds` says what each does.
        out: Directory of the run.
        seed: Number of the machine, of its episodes, and of the search.
        promise: `trial`, no trial's mean cost exceeds the limit, under the model; or `total`, what has been spent never
            exceeds what was allowed, without a model.
        stop: End an episode when its cost reaches this, in limits; the promise `total` needs it.
        delta: Probability with which the promise may fail.
        episodes: Real episodes that the search takes at most.
        json: Print the outcome as JSON.
    """
    from lifesafe.lab.coverage.deployment import CoverageRow, Judge, draw_world, problem_for, search

    _check_simulation(promise, stop)
    row = CoverageRow(family=family, promise=promise, stop=stop, delta=delta, episodes=episodes)
    world = draw_world(row, seed)
    judge, problem = Judge(row, world), problem_for(row, world, seed)
    records = read_records(out / JOURNAL, everything=False) if (out / JOURNAL).exists() else []
    if records and opened_problem(records).fingerprint != problem.fingerprint:
        raise JournalError(
            f"{out} holds a run of another machine, or one with other options. Give another --out, or the options of"
            " that run."
        )
    with SafeOptimizer.open(out, problem) as optimizer:
        say(f"The run is in {out}.")
        with progress("") as report:

            def show(trial: Trial, told: Float[np.ndarray, "m r"]) -> None:
                line = _told(world, trial, told)
                report(Progress("episodes", optimizer.history.searched, episodes, note=line))

            outcome = search(optimizer, judge, seed, show)
        best = optimizer.best
    if json:
        print_json(asdict(outcome) | {"run": str(out), "recommended": None if best is None else list(best.point)})
    else:
        print(f"\n{_story(judge, outcome, best)}\n\nReport: lifesafe report {shlex.quote(str(out))}")
    return OK if best is not None else FOUND


def _check_simulation(promise: Promise, stop: float | None) -> None:
    if stop is not None and not 0 < stop < math.inf:
        raise ConfigError(f"--stop must be a positive number, in limits: 2 or 3, say; got {stop:g}.")
    if promise == "total" and stop is None:
        raise ConfigError("--promise total needs --stop: the cost at which an episode ends, in limits; 2 or 3, say.")


def _told(world: World, trial: Trial, episodes: Float[np.ndarray, "m r"]) -> str:
    """Return a line about a trial."""
    reward, *means = episodes.mean(axis=0)
    costs = ", ".join(f"{mean:.1f} of {limit:g}" for mean, limit in zip(means, world.limits, strict=True))
    center = max(trial.targets, key=trial.targets.count)
    asked = ", ".join(f"{value:.3g}" for value in (center if isinstance(center, Returns) else center.values()))
    return f"trial {trial.number:3}  {trial.stage:8} {trial.episodes:3} at ({asked}): reward {reward:.0f}, cost {costs}"


def _story(judge: Judge, outcome: Deployment, best: Recommendation | None) -> str:
    """Return what a deployment came to, beside what is true."""
    world, promise = judge.world, judge.row.promise
    names = zip(return_names(len(world.limits))[1:], world.limits, strict=True)
    heading = ("", "true reward", *(f"true {name}, limit {limit:g}" for name, limit in names))
    rows = []
    recommended = None if best is None else best.point
    found = {"start": world.start, "recommended": recommended, "best that can be found": judge.reference.target}
    for name, point in found.items():
        if point is not None:
            reward, *costs = judge.means(point)
            rows.append((name, f"{reward:.0f}", *(f"{cost:.1f}" for cost in costs)))
    above = "trials had a mean cost" if promise == "trial" else "episodes were at targets with a mean cost"
    lines = [
        Table(heading, rows).text(),
        "",
        f"{outcome.share:.0%} of the {above} above a limit. The promise {promise!r} was"
        f" {'broken' if outcome.violated or outcome.broken_sure else 'kept'}.",
        f"The search took {outcome.episodes} episodes and is {'held' if outcome.held else 'over'}: {outcome.ended}.",
    ]
    return "\n".join(lines)
