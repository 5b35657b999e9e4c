"""Whether a prior from simulation helps: python benchmarks/sim_to_real.py RUN... [--synthetic].

RUN is a finished run of PointCircle or HopperVelocity (`lifesafe demo`, `lifesafe run`). Its task is the simulator; the
real system is the same with changed physics. Episodes of the real system are recorded once, at the nodes of a coarse
grid, and kept beside the runs. A search draws from them: an episode at a candidate is a recorded one at a corner of its
cell, the nearer the likelier, so the true mean is the bilinear one, known exactly. With `--synthetic`, maps of
`lifesafe.theory.simulators` are the simulators and distorted ones the real systems.

The same searches are done under every prior:

    default         the default prior: the simulator is not used
    reward          mean of the reward from simulation, costs as by default
    mean            means of reward and cost from simulation, and the residual
    trusting        the same with a residual that deviates by 1 instead of 1.5
    members         mean, and the covariance of members of the Laplace approximation
    wide members    the same with members as if every logged episode were a single observation; with `--synthetic`, maps
                    whose costs differ by smooth random factors
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from changed import MILD, changes
from lifesafe._files import write_atomic
from lifesafe._random import generator
from lifesafe.data import read_dsrl
from lifesafe.environments import Evaluator, Task, task
from lifesafe.errors import GuaranteeWarning, NoSafeTargetError
from lifesafe.lifetime import default_schedule
from lifesafe.lifetime.manifest import read_manifest
from lifesafe.lifetime.simulation import simulate
from lifesafe.optimizer import Priors, Problem, SafeOptimizer, Schedule, Simulated, residual_priors
from lifesafe.optimizer.journal import read_events
from lifesafe.policies import load
from lifesafe.policies.laplace import laplace_members
from lifesafe.returns import Returns, returns_array
from lifesafe.theory.simulators import FAMILIES, LIMIT, SimulatedMap

RESULTS = Path(__file__).resolve().parent / "results"
CACHE = Path("runs/sim-to-real")
NEAR = 0.05
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, eq=False)
class World:
    """A real system: its true mean returns at every candidate, and episodes to be drawn."""

    truth: np.ndarray
    """(n, r)"""
    draw: Callable[[int, int, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Search:
    """What became of one search."""

    violations: int
    violated: bool
    found: float
    """Trials until a safe target within 5 % of the best safe one is recommended; infinite if never."""
    share: float
    """True reward of the target recommended at the end, as a share of that of the best safe one; 0 if there is none."""
    gain: float
    """Its way from the reward of the first seed (0) to that of the best safe target (1)."""
    unsafe: bool
    """Whether the target recommended at the end is unsafe."""
    nothing: bool
    """Whether nothing is recommended."""
    frozen: bool


def main() -> None:
    options = arguments()
    rows = []
    for run in options.runs:
        rows += list(physical(run, options))
    if options.synthetic:
        rows += list(synthetic(options))
    if options.record:
        return
    path = RESULTS / "sim_to_real.json"
    done = {(row["system"], row["change"]) for row in rows}
    kept = [row for row in _known(path) if (row["system"], row["change"]) not in done]
    table = sorted(kept + rows, key=lambda row: ORDER.index(row["system"].split(":")[0]))
    write_atomic(path, json.dumps(table, indent=2) + "\n")
    write_atomic(RESULTS / "sim_to_real.md", page(table))
    print(page(table))


ORDER = ["PointCircle", "HopperVelocity", "synthetic"]


def physical(run: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Give the rows of one run: the system as it is, and after every change."""
    recorded = read_manifest(run)
    if recorded is None:
        raise SystemExit(f"{run} holds no run; `lifesafe demo` makes one.")
    known = task(recorded["run"]["task"], limits=tuple(recorded["run"]["limits"]))
    problem = Problem.from_plain(read_events(run / "journal.sqlite")[0].body["problem"])
    arms = simulated_arms(run, known, problem, options)
    for name, changed in [("none", known), *changes(known, MILD)]:
        if options.only and options.only not in name:
            continue
        world = recorded_world(run, name, changed, problem, options)
        if not options.record:
            yield from compare(known.name, name, lambda _, world=world: (world, arms), default_schedule(known), options)


def simulated_arms(run: Path, known: Task, problem: Problem, options: argparse.Namespace) -> dict[str, Problem]:
    """Return the problem under every prior; simulations are kept in a file."""
    path = CACHE / f"{known.name}-simulated.npz"
    if not path.exists():
        policy = load(run)
        data = read_dsrl(options.data) if known.name == "HopperVelocity" else known.dataset()
        temperatures = (1.0, float(data.lengths.mean()))
        members = [
            member
            for temperature in temperatures
            for member in laplace_members(policy, data, members=options.members, temperature=temperature)
        ]
        made = simulate(
            policy, known, problem, members=members, design=options.design, episodes=options.simulated, seed=1
        )
        narrow, wide = made.members[: options.members], made.members[options.members :]
        found = {"means": made.means, "members": narrow, "wide members": wide}
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found)
    with np.load(path) as kept:
        return arms_of(problem, kept["means"], {name: kept[name] for name in ("members", "wide members")})


def arms_of(problem: Problem, means: np.ndarray, members: dict[str, np.ndarray]) -> dict[str, Problem]:
    alone, wary = Simulated(means=means), residual_priors()
    made = {
        "default": problem,
        "reward": problem.with_simulated(alone, Priors(reward=wary.reward)),
        "mean": problem.with_simulated(alone),
        "trusting": problem.with_simulated(alone, replace(wary, cost=replace(wary.cost, sd=1.0))),
    }
    return made | {name: problem.with_simulated(Simulated(means=means, members=each)) for name, each in members.items()}


def recorded_world(run: Path, name: str, changed: Task, problem: Problem, options: argparse.Namespace) -> World:
    """Return the real system from its recorded episodes, recording them first if they are not there."""
    nodes, weights = corners(problem.candidates, options.side)
    path = CACHE / f"{changed.name}-{name.replace(' ', '-').replace('/', '-')}.npz"
    if not path.exists():
        targets = [Returns(float(reward), float(cost)) for reward, cost in nodes]
        with Evaluator(load(run), changed, rows=128) as evaluator:
            returned = evaluator.evaluate(targets, options.episodes, seed=2)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, nodes=nodes, episodes=np.stack([returns_array(each) for each in returned]))
        CONSOLE.print(f"Recorded {path}")
    with np.load(path) as found:
        if not np.array_equal(found["nodes"], nodes):
            raise SystemExit(f"{path} was recorded at other targets; remove it to record anew.")
        episodes = found["episodes"]

    def draw(index: int, count: int, rng: np.random.Generator) -> np.ndarray:
        at = rng.choice(len(nodes), count, p=weights[index])
        return episodes[at, rng.integers(episodes.shape[1], size=count)]

    return World(weights @ episodes.mean(axis=1), draw)


def corners(candidates: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of a coarse grid around the candidates, and the bilinear weights of each candidate."""
    low, extent = candidates.min(axis=0), np.ptp(candidates, axis=0)
    place = (candidates - low) / extent * (side - 1)
    cell = np.minimum(place.astype(int), side - 2)
    inside = place - cell
    weights = np.zeros((len(candidates), side * side))
    for right in (0, 1):
        for up in (0, 1):
            node = (cell[:, 0] + right) * side + cell[:, 1] + up
            parts = np.where([right, up], inside, 1 - inside)
            weights[np.arange(len(candidates)), node] += parts.prod(axis=1)
    used = weights.any(axis=0)
    axes = [np.linspace(low[k], low[k] + extent[k], side) for k in (0, 1)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    return nodes[used], weights[:, used] / weights[:, used].sum(axis=1, keepdims=True)


def compare(
    system: str,
    change: str,
    make: Callable[[int], tuple[World, dict[str, Problem]]],
    schedule: Schedule,
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """Give one row: the searches under every prior."""
    outcomes: dict[str, list[Search]] = {}
    for seed in track(range(options.seeds), f"{system}, {change}", console=CONSOLE, transient=True):
        world, arms = make(seed)
        for name, problem in arms.items():
            if not options.arms or name in options.arms:
                outcomes.setdefault(name, []).append(search(problem, schedule, world, generator(seed, "searching")))
    row = {
        "system": system,
        "change": change,
        "seeds": options.seeds,
        "trials": schedule.trials,
        "arms": {name: summary(found) for name, found in outcomes.items()},
    }
    CONSOLE.print(f"{system}, {change}")
    for name, numbers in row["arms"].items():
        CONSOLE.print(f"    {name:14}" + "  ".join(f"{key} {value}" for key, value in numbers.items()))
    yield row


def search(problem: Problem, schedule: Schedule, world: World, rng: np.random.Generator) -> Search:
    """Search once, judged by the truth."""
    optimizer = SafeOptimizer(problem, schedule)
    reward, safe = world.truth[:, 0], (world.truth[:, 1:] <= problem.limits).all(axis=1)
    best = reward[safe].max() if safe.any() else None
    enough = np.inf if best is None else best - NEAR * (best - reward.min())
    violations, found, recommended = 0, np.inf, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)  # counting them is the purpose
        try:
            while trial := optimizer.ask():
                violations += trial.index not in problem.seeds and not safe[trial.index]
                optimizer.tell(trial, [Returns(*row) for row in world.draw(trial.index, trial.episodes, rng)])
                recommended = optimizer.best.index if optimizer.best else None
                if found == np.inf and recommended is not None and safe[recommended] and reward[recommended] >= enough:
                    found = len(optimizer.trials)
        except NoSafeTargetError:
            pass  # no seed could be certified
    start = reward[problem.seeds[0]]
    way = 0.0 if best is None else best - start
    return Search(
        violations=int(violations),
        violated=violations > 0,
        found=float(found),
        share=0.0 if recommended is None or best is None else float(reward[recommended] / best),
        gain=float((reward[recommended] - start) / way) if recommended is not None and way > 0 else 0.0,
        unsafe=recommended is not None and not safe[recommended],
        nothing=recommended is None,
        frozen=optimizer.frozen,
    )


def summary(found: list[Search]) -> dict[str, float | None]:
    trials = float(np.median([each.found for each in found]))
    ended = [each.share for each in found if not each.nothing]
    gains = [each.gain for each in found if not each.nothing]
    return {
        "violations": round(float(np.mean([each.violations for each in found])), 3),
        "violated": round(float(np.mean([each.violated for each in found])), 3),
        "found": round(float(np.mean([each.found < np.inf for each in found])), 3),
        "median_trials": trials if trials < np.inf else None,
        "share": round(float(np.mean(ended)), 3) if ended else None,
        "gain": round(float(np.mean(gains)), 3) if gains else None,
        "unsafe": round(float(np.mean([each.unsafe for each in found])), 3),
        "nothing": round(float(np.mean([each.nothing for each in found])), 3),
        "frozen": round(float(np.mean([each.frozen for each in found])), 3),
    }


def synthetic(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Give the rows of distorted maps."""
    for family in ("overshoot", "conservative", "cliff"):
        for name in DISTORTIONS:
            if (name == "hidden cliff") <= (family == "cliff") and (not options.only or options.only in name):
                yield from compare(
                    f"synthetic: {family}",
                    name,
                    lambda seed, family=family, name=name: distorted(family, name, seed),
                    Schedule(),
                    options,
                )


DISTORTIONS = {
    "none": lambda x, rng: (x, np.ones_like(x[0])),
    "costs double": lambda x, rng: (x, 2 * np.ones_like(x[0])),
    "rises earlier": lambda x, rng: ((np.minimum(1.2 * x[0], 1.0), np.minimum(1.2 * x[1], 1.0)), np.ones_like(x[0])),
    "uneven": lambda x, rng: (x, np.exp(0.5 * _wave(x, rng))),
    "hidden cliff": lambda x, rng: (x, np.ones_like(x[0])),
}
"""Where in the simulator the real system is at a scaled target, and the factor on its cost."""


def distorted(family: str, name: str, seed: int) -> tuple[World, dict[str, Problem]]:
    """Return a real system, and the problems of a simulator that differs from it."""
    simulator = FAMILIES[family](generator(seed, "map", family))
    rng = generator(seed, "distortion", name)
    x = np.meshgrid(*(np.linspace(0, 1, n) for n in simulator.cost.shape), indexing="ij")
    (a, b), factor = DISTORTIONS[name](x, rng)
    rows, columns = (np.rint(each * (n - 1)).astype(int) for each, n in zip((a, b), simulator.cost.shape, strict=True))
    real = replace(simulator, cost=simulator.cost[rows, columns] * factor)
    if name == "hidden cliff":
        simulator = replace(simulator, cost=np.minimum(simulator.cost, simulator.cost[:1]))
    if real.cost.flat[real.seed] > 0.75 * LIMIT:  # a seed must be safe on the real system
        modest = np.where(real.reward <= 0.5 * real.reward.max(), real.cost, np.inf)
        real = replace(real, seed=int(modest.argmin()))
    problem = Problem(candidates=real.candidates, seeds=(real.seed,), limits=(real.limit,))
    means = _returns(simulator)
    members = np.stack([means * [[1.0], [1.0]] for _ in range(8)])
    for member in members:
        member[1] *= np.exp(0.5 * _wave(x, rng)).reshape(-1)
    return World(_returns(real).T, real.draw), arms_of(problem, means, {"wide members": members})


def _returns(world: SimulatedMap) -> np.ndarray:
    return np.stack([world.reward.reshape(-1), world.cost.reshape(-1)])


def _wave(x: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a smooth random function of unit size."""
    total = np.zeros_like(x[0])
    for _ in range(6):
        along, phase = rng.normal(0, 2.0, 2), rng.uniform(0, 2 * np.pi)
        total += np.sqrt(2 / 6) * np.cos(along[0] * x[0] + along[1] * x[1] + phase)
    return total


LEGEND = """
*Violated*: searches that tried a target whose true mean cost is above the limit; *violations*: such trials per search.
*Found*: a safe target within 5 % (of the range of rewards) of the best safe one is recommended. *Reward*: of the target
recommended at the end, as a share of that of the best safe one. *Gain*: its way from the reward of the first seed (0)
to that one (1); added for the Hopper, whose seed counts as found. *Nothing*: no target is recommended. *Frozen*:
surprises stopped the search. All searches of a physical system share one recording of it.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """Return the results in Markdown."""
    lines = ["# Sim-to-real: searches with a prior from simulation", ""]
    lines += ["Made by `python benchmarks/sim_to_real.py RUN... --synthetic`.", ""]
    lines += (__doc__ or "").split("\n\n", 1)[1].strip().splitlines()
    headings = ["system", "change", "prior", "violated", "violations", "found", "median trials", "reward", "gain"]
    headings += ["unsafe at the end", "nothing", "frozen"]
    lines += ["", f"| {' | '.join(headings)} |", "|---|---|---" + "|---:" * 9 + "|"]
    for row in rows:
        for name, arm in row["arms"].items():
            trials = "-" if arm["median_trials"] is None else f"{arm['median_trials']:.0f}"
            share, gain = ("-" if arm.get(key) is None else f"{arm[key]:.2f}" for key in ("share", "gain"))
            lines.append(
                f"| {row['system']} | {row['change']} | {name} | {arm['violated']:.0%} | {arm['violations']:.2f} |"
                f" {arm['found']:.0%} | {trials} | {share} | {gain} | {arm['unsafe']:.0%} | {arm['nothing']:.0%} |"
                f" {arm['frozen']:.0%} |"
            )
    counts = {system: sorted({row["seeds"] for row in rows if row["system"].startswith(system)}) for system in ORDER}
    told = "; ".join(f"{system} {', '.join(map(str, seeds))}" for system, seeds in counts.items() if seeds)
    lines += ["", f"Searches a row: {told}.", *LEGEND.strip().splitlines()]
    return "\n".join(lines) + "\n"


def _known(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--synthetic", action="store_true", help="distorted maps, too")
    parser.add_argument("--seeds", type=int, default=50, help="searches of each row")
    parser.add_argument("--side", type=int, default=10, help="nodes along an axis of the recorded grid")
    parser.add_argument("--episodes", type=int, default=30, help="episodes recorded at each")
    parser.add_argument("--design", type=int, default=40, help="targets simulated")
    parser.add_argument("--simulated", type=int, default=10, help="episodes at each")
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--data", type=Path, default=Path("data/HopperVelocity.hdf5"), help="logs of the Hopper")
    parser.add_argument("--only", help="only changes with this word in their name")
    parser.add_argument("--arms", nargs="*", help="only these priors")
    parser.add_argument("--record", action="store_true", help="record and simulate, but do not search")
    return parser.parse_args()


if __name__ == "__main__":
    main()
