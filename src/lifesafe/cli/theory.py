"""What the theory promises: Theorem 1 checked, the budget of Theorem 3, and simulated deployments, one or many."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lifesafe._files import write_atomic
from lifesafe.cli.console import FOUND, OK, bar, patience, print_json, progress_lines, say
from lifesafe.coverage import SUITES, simulate, summarize, table
from lifesafe.errors import ConfigError
from lifesafe.optimizer import SafeOptimizer
from lifesafe.report.deployment import conclude, deploy, find_directory
from lifesafe.report.history import History
from lifesafe.report.simulation import Simulation
from lifesafe.theory.budget import LedgerBudget, ledger_budget, trial_budget
from lifesafe.theory.kernels import Kernel
from lifesafe.theory.laboratory import CASES, Settings, make_case, study
from lifesafe.theory.laboratory.table import markdown

_MOST_CANDIDATES = 10_000  # of `theory budget`; the information gain looks at all pairs

_WORST_CASE = """\
This is a worst case over all maps that the prior allows, not what a run needs: a run is over after 30 trials
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
    share: float = 0.25,
    visits: int = 15,
    literal: bool = False,
    json: bool = False,
) -> int:
    """Tell how many trials Theorem 3 asks for, and how the ledger spends its risk.

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
        share: Ledger: part of the risk left that one new target may take.
        visits: Ledger: new targets to show.
        literal: Use the formulas of the paper as printed; not a guarantee.
        json: Print the numbers as JSON.
    """
    with patience("counting"):
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
            reward_kernel=kernel,
            cost_kernel=kernel,
            episodes_per_trial=episodes,
            literal=literal,
        )
    ledger = ledger_budget(delta, visits, share=share)
    if json:
        numbers = asdict(theorem) | {"trials": theorem.trials, "episodes": theorem.episodes}
        print_json({"theorem_3": numbers, "ledger": _ledger_plain(ledger)})
        return OK
    print(f"{theorem}\n\n{_WORST_CASE}\n")
    print(f"Ledger: of delta = {delta:g}, each new target may take {share:.0%} of what is left. At worst, by visit")
    print("(alpha: standard deviations that must lie between the predicted cost of a target and the limit):")
    print(ledger)
    return OK


def theory_theorem1(
    *,
    case: Literal["all", "exact", "soft", "stochastic", "noisy", "unrealizable", "rare"] = "all",
    datasets: int = 400,
    episodes: tuple[int, ...] = (500, 2_000, 8_000, 32_000),
    coverage: float = 0.01,
    seed: int = 0,
    out: Path = Path("runs/theorem1"),
    json: bool = False,
) -> int:
    """Check Theorem 1 on problems so small that all it speaks of is exact.

    The theorem says that a policy fitted to n episodes and asked for z returns z + H² / sqrt(n) F(z), where F is drawn
    from a Gaussian process with a stated covariance k, up to a bias. Here k and the bias are computed exactly, many
    datasets are drawn, a policy is fitted to each, and its exact returns are compared with that law: covariance,
    normality, 1/sqrt(n), correlation of reward and cost, and the bias with its bound.

    Cases: `exact` and `soft` keep all assumptions (in `exact` nothing varies: k = 0); `stochastic` has chance in the
    transitions, `noisy` in the rewards, `unrealizable` too small a class of policies; `rare` is a counterexample to the
    printed bound on the bias of the likelihood. docs/theorem1.md says what came out.

    Examples:
        lifesafe theory theorem1
        lifesafe theory theorem1 --case soft --datasets 2000
        lifesafe theory theorem1 --case stochastic --episodes 250 1000 4000 --json

    Exit codes: 0 done, 2 an error, 130 interrupted.

    Args:
        case: Which problem.
        datasets: Datasets of each size.
        episodes: Episodes of a dataset; one or more sizes.
        coverage: Look at the targets that at least this share of episodes returns.
        seed: Seed of all draws; the same seed gives the same tables.
        out: Directory of the table, the numbers and the picture.
        json: Print the numbers as JSON.
    """
    # As in theory coverage: matplotlib is loaded only to draw.
    from lifesafe.report.figures import save
    from lifesafe.report.theorem1_figure import theorem1_figure

    settings = Settings(datasets=datasets, episodes=episodes, coverage=coverage, seed=seed)
    names = list(CASES) if case == "all" else [case]
    studies = []
    for number, name in enumerate(names, start=1):
        with bar(f"{number}/{len(names)} {name}", datasets * len(episodes)) as advance:
            studies.append(study(make_case(name), settings, advance=advance))
    numbers = [found.to_plain() for found in studies]
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / f"{case}.md", markdown(studies))
    write_atomic(out / f"{case}.json", dumps(numbers, indent=1) + "\n")
    with patience("drawing"):
        save(theorem1_figure(studies), out / f"{case}.png")
    if json:
        print_json(numbers)
    else:
        print(f"{markdown(studies)}\nTable, numbers and picture: {out / case}.md, .json, .png")
    return OK


def theory_coverage(
    *,
    suite: Literal["default", "variants", "dither", "held-back"] = "default",
    family: str | None = None,
    deployments: int = 1000,
    workers: int = 2,
    out: Path = Path("runs/coverage"),
    json: bool = False,
) -> int:
    """Simulate deployments on known maps, and count how often a limit was exceeded.

    Each line of the table is a family of maps and a setting of the optimizer; a deployment draws a new map and
    searches it for 30 trials. Told are the share of deployments with any trial above the limit (with its 95 %
    interval, to be compared with delta), with an unsafe target in operation, and with a target within 5 % of the
    best reachable reward; the median trials until then; how much of the possible gain was made, and how much of the
    reachable safe set was found.

    Suites: `default` is what lifesafe ships, with right and wrong models; `variants` are other schedules, prior
    means, mixtures, the paper's rule as printed and the plain choice; `held-back` are families of maps that nobody
    has tuned on. Finished lines are kept in the directory and not simulated again; table and picture lie beside.

    Examples:
        lifesafe theory coverage --deployments 100
        lifesafe theory coverage --suite variants --family cliff --deployments 300
        lifesafe theory coverage --suite held-back --json

    Exit codes: 0 done, 2 an error, 130 interrupted (run it again to resume).

    Args:
        suite: Which lines.
        family: Only the lines on maps of this family.
        deployments: Deployments a line.
        workers: Processes.
        out: Directory of the results.
        json: Print the results as JSON.
    """
    # Drawing loads matplotlib, which takes longer than all else; only the commands that draw pay for it.
    from lifesafe.report.coverage import coverage_figure
    from lifesafe.report.figures import save

    rows = [row for row in SUITES[suite] if family in (None, row.family)]
    if not rows:
        known = sorted({row.family for row in SUITES[suite]})
        raise ConfigError(f"The suite {suite} has no family {family!r}; it has {', '.join(known)}.")
    path = out / f"{suite}.json"
    done = table.load(path)
    for number, row in enumerate(rows, start=1):
        if all((s.row, s.deployments) != (row, deployments) for s in done):
            with bar(f"{number}/{len(rows)} {row.family}: {row.name}", deployments) as advance:
                outcomes = simulate(row, deployments, workers=workers, advance=advance)
            done.append(summarize(row, outcomes))
            out.mkdir(parents=True, exist_ok=True)
            table.save(path, done)
    shown = [s for row in rows for s in done if (s.row, s.deployments) == (row, deployments)]
    write_atomic(out / f"{suite}.md", table.markdown(shown))
    with patience("drawing"):
        save(coverage_figure(shown), out / f"{suite}.png")
    if json:
        print_json([s.to_plain() for s in shown])
    else:
        print(f"{table.markdown(shown)}\nTable, numbers and picture: {out / suite}.md, .json, .png")
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


def _ledger_plain(ledger: LedgerBudget) -> list[dict[str, float]]:
    columns = (ledger.visits, ledger.allowances, ledger.remaining, ledger.multipliers)
    names = ("visit", "allowance", "remaining", "alpha")
    return [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def theory_simulate(
    *,
    out: Path = Path("runs/simulated"),
    family: Literal["conservative", "overshoot", "cliff", "rare", "gp_target", "gp_flat"] = "conservative",
    seed: int = 0,
    limit: float = 20.0,
    delta: float = 0.1,
    json: bool = False,
) -> int:
    """Run the optimizer on a simulated map from targets to returns, and draw how it went.

    A policy is asked for a target (R, G) and earns something else. The optimizer tries targets, only ones that
    it knows to be safe, and ends with one to operate; the journal and the picture of the run stay in a
    directory. The target that users of such policies ask for without it, (R_max, limit), is judged beside. All
    numbers come from the simulated map; other families and seeds give other ones, not all of them as pleasant.

    An unfinished run in the directory is resumed. If a finished one is there, or one with other settings, the
    next free name is taken: runs/simulated-2, runs/simulated-3, ...

    Examples:
        lifesafe theory simulate
        lifesafe theory simulate --family cliff --seed 3
        lifesafe theory simulate --json | jq .recommended

    Exit codes: 0 a target was found, 1 none is fit to be operated, 2 an error, 130 interrupted (run it again
    to resume).

    Args:
        out: Directory of the run.
        family: How the simulated policy misses its targets; `lifesafe.theory.simulators` says what each does.
        seed: Seed of the map and of all episodes.
        limit: Largest mean cost that is allowed; the cost axis of the map runs from 0 to 60.
        delta: Probability with which any trial at all may exceed the limit.
        json: Print the outcome as JSON.
    """
    # As in theory coverage: matplotlib is loaded only to draw.
    from lifesafe.report.figures import compose, save

    simulation = Simulation(family=family, seed=seed, limit=limit)
    problem = simulation.problem(delta)
    run, exists = find_directory(out, simulation, problem)
    say(f"{'Resuming the unfinished' if exists else 'Beginning a'} run in {run}")
    simulation.write(run)
    with SafeOptimizer.open(run, problem) as optimizer:
        with progress_lines("trials", optimizer.schedule.trials) as advance:
            deploy(simulation, optimizer, advance)
        outcome = conclude(simulation, optimizer)
    picture = run / "report.png"
    with patience("drawing"):
        save(compose(History.read(run), truth=simulation.map, title=f"Simulated map: {family}, seed {seed}"), picture)
    if json:
        print_json(outcome.to_plain() | {"run": str(run), "report": str(picture)})
    else:
        print(f"\n{outcome}\n\nPicture: {picture}\nJournal: lifesafe journal verify {shlex.quote(str(run))}")
    return OK if outcome.recommended is not None else FOUND
