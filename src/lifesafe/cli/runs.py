"""Runs of the optimizer: the demonstration, the report, the journal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from lifesafe._files import write_atomic
from lifesafe.cli.console import FOUND, OK, OutFile, Run, patience, print_json, progress_lines, say
from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import export_lines, read_events
from lifesafe.report.demo import conclude, deploy, find_directory
from lifesafe.report.history import History, journal_path
from lifesafe.report.simulation import Simulation


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
    say(f"{'Resuming the unfinished' if exists else 'Beginning a'} run in {run}")
    simulation.write(run)
    with SafeOptimizer.open(run, problem) as optimizer:
        with progress_lines("trials", optimizer.schedule.trials) as advance:
            deploy(simulation, optimizer, advance)
        outcome = conclude(simulation, optimizer)
    picture = run / "report.png"
    with patience("drawing"):
        save(compose(History.read(run), truth=simulation.map, title=str(run)), picture)
    if json:
        print_json(outcome.to_plain() | {"run": str(run), "report": str(picture)})
    else:
        print(f"\n{outcome}\n\nPicture: {picture}\nJournal: lifesafe journal verify {shlex.quote(str(run))}")
    return OK if outcome.recommended is not None else FOUND


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
    with patience("drawing"):
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
    with patience("verifying"):
        events = read_events(path)
        optimizer = None if chain_only else SafeOptimizer.replay(events, str(path))
    head = events[-1].hash if events else None
    if json:
        found: dict[str, Any] = {"journal": str(path), "sound": True, "events": len(events), "head": head}
        if optimizer is not None:
            found |= {"replayed": True, "stage": optimizer.stage.value, "trials": len(optimizer.trials)}
        print_json(found)
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
        say(f"Wrote {lines.count(chr(10))} events to {out}")
    return OK
