"""The command line: parse, call, print. One function per command; its docstring is its help.

A command returns its exit code. Results go to standard output, everything else (progress, warnings, errors)
to standard error, so that `--json` can be piped into another program.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import numpy as np
import tyro
from tyro.conf import Positional

from lifesafe._config import nearest
from lifesafe._files import write_atomic
from lifesafe.coverage import SUITES, simulate, summarize, table
from lifesafe.errors import ConfigError, GuaranteeWarning, LifesafeError
from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import export_lines, read_events
from lifesafe.report.demo import conclude, deploy, find_directory
from lifesafe.report.history import History, journal_path
from lifesafe.report.simulation import Simulation
from lifesafe.theory.budget import LedgerBudget, ledger_budget, trial_budget
from lifesafe.theory.kernels import Kernel

OK, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 2, 130, 141

_HELP = ("-h", "--help")
_MOST_CANDIDATES = 10_000  # of `theory budget`; the information gain looks at all pairs

_WORST_CASE = """\
This is a worst case over all maps that the prior allows, not what a run needs: a run is over after 30 trials
unless told otherwise. `lifesafe theory coverage` simulates what to expect."""

Run = Annotated[Path, Positional, tyro.conf.arg(metavar="RUN")]
OutFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


def demo(
    *,
    out: Path = Path("runs/demo"),
    family: Literal["conservative", "overshoot", "cliff", "rare", "gp_target", "gp_flat"] = "conservative",
    seed: int = 0,
    limit: float = 20.0,
    delta: float = 0.1,
    json: bool = False,
) -> int:
    """Find the best safe target of a simulated system, and draw how it went.

    A policy is asked for a target (R, G) and earns something else. The optimizer tries targets, only ones that
    it knows to be safe, and ends with one to operate; the journal and the picture of the run stay in a
    directory. The target that users of such policies ask for without it, (R_max, limit), is judged beside. All
    numbers come from the simulated map; other families and seeds give other ones, not all of them as pleasant.

    An unfinished run in the directory is resumed. If a finished one is there, or one with other settings, the
    next free name is taken: runs/demo-2, runs/demo-3, ...

    Examples:
        lifesafe demo
        lifesafe demo --family cliff --seed 3
        lifesafe demo --json | jq .recommended

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
    # Drawing loads matplotlib, which takes longer than all else; only the commands that draw pay for it.
    from lifesafe.report.figures import compose, save

    simulation = Simulation(family=family, seed=seed, limit=limit)
    problem = simulation.problem(delta)
    run, exists = find_directory(out, simulation, problem)
    _say(f"{'Resuming the unfinished' if exists else 'Beginning a'} run in {run}")
    simulation.write(run)
    with SafeOptimizer.open(run, problem) as optimizer:
        with _progress("trials", optimizer.schedule.trials) as advance:
            deploy(simulation, optimizer, advance)
        outcome = conclude(simulation, optimizer)
    picture = run / "report.png"
    with _patience("drawing"):
        save(compose(History.read(run), truth=simulation.map, title=str(run)), picture)
    if json:
        _print_json(outcome.to_plain() | {"run": str(run), "report": str(picture)})
    else:
        print(f"\n{outcome}\n\nPicture: {picture}\nJournal: lifesafe journal verify {shlex.quote(str(run))}")
    return OK if outcome.recommended is not None else 1


def report(run: Run, *, out: OutFile = None) -> int:
    """Draw the picture of a run: costs against limits, safe set, reward, risk ledger, calibration.

    Prints how well each trial was predicted from the others. Reads the journal of the run and changes nothing in
    it; the run may still be going on. Where the system was simulated, the truth is drawn too.

    Examples:
        lifesafe report runs/demo
        lifesafe report runs/demo --out figure3.pdf

    Exit codes: 0 drawn, 2 an error.

    Args:
        run: Directory of the run.
        out: Picture to write: .png, .pdf or .svg; report.png in the run unless told.
    """
    history, simulation = History.read(run), Simulation.read(run)
    # As in demo: matplotlib is loaded only to draw.
    from lifesafe.report.figures import compose, save

    target = out or run / "report.png"
    with _patience("drawing"):
        save(compose(history, truth=simulation.map if simulation else None, title=str(run)), target)
    print(f"{history.calibration}\n\nPicture: {target}")
    return OK


def journal_verify(run: Run, *, chain_only: bool = False, json: bool = False) -> int:
    """Check that the record of a run is whole, and that its decisions follow from it.

    Every event carries the fingerprint of the one before, so an edited, missing or moved event is found. Then
    all decisions are made again from the recorded returns and compared with the recorded ones. Nothing is
    written; the run may still be going on.

    Examples:
        lifesafe journal verify runs/demo
        lifesafe journal verify runs/demo --json

    Exit codes: 0 sound, 2 not sound, or no journal.

    Args:
        run: Directory of the run.
        chain_only: Check the fingerprints only; do not make the decisions again.
        json: Print the finding as JSON.
    """
    path = journal_path(run)
    with _patience("verifying"):
        events = read_events(path)
        optimizer = None if chain_only else SafeOptimizer.replay(events, str(path))
    head = events[-1].hash if events else None
    if json:
        found: dict[str, Any] = {"journal": str(path), "sound": True, "events": len(events), "head": head}
        if optimizer is not None:
            found |= {"replayed": True, "stage": optimizer.stage.value, "trials": len(optimizer.trials)}
        _print_json(found)
        return OK
    print(f"{path} is sound: {len(events)} events, the last with fingerprint {str(head)[:12]}.")
    if optimizer is not None:
        print(f"Replayed to the same decisions: {len(optimizer.trials)} trials, stage {optimizer.stage.value}.")
    return OK


def journal_export(run: Run, *, out: OutFile = None) -> int:
    """Write the events of a run as JSON lines, verified on the way.

    Examples:
        lifesafe journal export runs/demo | jq 'select(.kind == "told") | .body.trial'
        lifesafe journal export runs/demo --out demo.jsonl

    Exit codes: 0 written, 2 an error.

    Args:
        run: Directory of the run.
        out: File to write; standard output unless told.
    """
    lines = "".join(f"{line}\n" for line in export_lines(journal_path(run)))
    if out is None:
        sys.stdout.write(lines)
    else:
        write_atomic(out, lines)
        _say(f"Wrote {lines.count(chr(10))} events to {out}")
    return OK


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
    with _patience("counting"):
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
        _print_json({"theorem_3": numbers, "ledger": _ledger_plain(ledger)})
        return OK
    print(f"{theorem}\n\n{_WORST_CASE}\n")
    print(f"Ledger: of delta = {delta:g}, each new target may take {share:.0%} of what is left. At worst, by visit")
    print("(alpha: standard deviations that must lie between the predicted cost of a target and the limit):")
    print(ledger)
    return OK


def theory_coverage(
    *,
    suite: Literal["default", "variants", "held-back"] = "default",
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
    # As in demo: matplotlib is loaded only to draw.
    from lifesafe.report.coverage import coverage_figure
    from lifesafe.report.figures import save

    rows = [row for row in SUITES[suite] if family in (None, row.family)]
    if not rows:
        known = sorted({row.family for row in SUITES[suite]})
        raise ConfigError(f"The suite {suite} has no family {family!r}; it has {', '.join(known)}.")
    path = out / f"{suite}.json"
    done = [s for s in table.load(path) if s.deployments == deployments]
    for number, row in enumerate(rows, start=1):
        if all(s.row != row for s in done):
            with _bar(f"{number}/{len(rows)} {row.family}: {row.name}", deployments) as advance:
                outcomes = simulate(row, deployments, workers=workers, advance=advance)
            done.append(summarize(row, outcomes))
            out.mkdir(parents=True, exist_ok=True)
            table.save(path, done)
    shown = [s for row in rows for s in done if s.row == row]
    write_atomic(out / f"{suite}.md", table.markdown(shown))
    with _patience("drawing"):
        save(coverage_figure(shown), out / f"{suite}.png")
    if json:
        _print_json([s.to_plain() for s in shown])
    else:
        print(f"{table.markdown(shown)}\nTable, numbers and picture: {out / suite}.md, .json, .png")
    return OK


# The commands by name, in the order of the help; a name of two words is a group and its command. A new command
# is one function above and one line here.
COMMANDS: dict[str, Callable[..., int]] = {
    "demo": demo,
    "report": report,
    "journal verify": journal_verify,
    "journal export": journal_export,
    "theory budget": theory_budget,
    "theory coverage": theory_coverage,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    words = [word for word in given if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("always", GuaranteeWarning)
            code = _dispatch(words)
            sys.stdout.flush()
            return code
    except SystemExit as stop:  # tyro has printed its help or its complaint
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        _say(f"\nInterrupted; what was told is kept. To go on: {shlex.join(['lifesafe', *given])}")
        return INTERRUPTED
    except (LifesafeError, OSError) as error:
        if debug:
            traceback.print_exc()
        else:
            _say(f"lifesafe: {error}")
        return FAILED


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"lifesafe {version('lifesafe')}")
        return OK
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in COMMANDS:
            return _call(name, words[length:])
    group = words[0] if words and _is_group(words[0]) else ""
    rest = words[1:] if group else words
    if not rest or rest[0] in _HELP:
        print(_overview(group), file=sys.stdout if rest else sys.stderr)
        return OK if rest else FAILED
    name = f"{group} {rest[0]}".strip()
    raise ConfigError(f"Unknown command {name!r}.{nearest(name, COMMANDS)} `lifesafe --help` lists all.")


def _call(name: str, words: list[str]) -> int:
    # The description is given, since tyro's own reading of docstrings leaves out the examples.
    return tyro.cli(
        COMMANDS[name],
        prog=f"lifesafe {name}",
        description=_help(name),
        args=words,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def _help(name: str) -> str:
    return (inspect.getdoc(COMMANDS[name]) or "").partition("\nArgs:")[0]


def _is_group(word: str) -> bool:
    return any(name.startswith(f"{word} ") for name in COMMANDS)


def _overview(group: str) -> str:
    """Return the commands with one line each: all, or those of a group."""
    shown = [name for name in COMMANDS if name.startswith(f"{group} " if group else "")]
    width = max(map(len, shown))
    lines = [f"  {name.ljust(width)}  {_help(name).splitlines()[0]}" for name in shown]
    return "\n".join(
        [
            "usage: lifesafe [--version] [--debug] COMMAND ...",
            "",
            "Provably lifetime safe reinforcement learning: ask a policy only for what is known to be safe.",
            "",
            "commands:",
            *lines,
            "",
            "`lifesafe COMMAND --help` explains a command. --debug shows where an error comes from.",
            "Exit codes: 0 done, 2 an error, 130 interrupted.",
        ]
    )


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


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _say(f"warning: {message}")


@contextlib.contextmanager
def _patience(doing: str) -> Iterator[None]:
    """Show that something is being done, on a terminal."""
    from rich.console import Console  # only when something takes time: --help must not wait for it

    with Console(stderr=True).status(f"{doing} ..."):
        yield


@contextlib.contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time left, on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda count: progress.advance(task, count)


@contextlib.contextmanager
def _progress(unit: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """Show a line per step, and below it, on a terminal, how many are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(unit, total=total)

        def advance(line: str, done: int) -> None:
            console.print(line, markup=False, soft_wrap=True)
            bar.update(task, completed=done)

        yield advance


if __name__ == "__main__":
    sys.exit(main())
