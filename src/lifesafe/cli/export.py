"""Take a policy out of lifesafe, to where there is no PyTorch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lifesafe.console.arguments import Directory, Run
from lifesafe.console.progress import progress
from lifesafe.console.prompts import OK, numbers
from lifesafe.console.tables import print_json
from lifesafe.errors import ConfigError, NoSafeTargetError
from lifesafe.journal.store import JOURNAL, read_records
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer

RUN_FILE = "run.toml"

if TYPE_CHECKING:
    from lifesafe.policies.export import ServedTarget


def export(run: Run, *, out: Directory = None, json: bool = False) -> int:
    """Write a policy as files that run without PyTorch.

    A robot can run them without lifesafe. The directory that is written holds policy.onnx (one step of the policy,
    for any number of episodes at once), stepper.py (what keeps account between the steps; needs NumPy and ONNX
    Runtime, and no more) and policy.json (sizes, versions, fingerprints; from a life, the target that it serves,
    its limits, and the stop). Before it is reported as written, it is held against the policy itself over whole
    made-up episodes: if an action differs by more than 1e-4, nothing is written.

    Examples:
        lifesafe export runs/train-PointCircle-cdt-0
        lifesafe export runs/car/policy --out robot
        lifesafe export runs/car --out robot --json | jq .largest_difference

    Exit codes: 0 written, 2 an error.

    Args:
        run: Directory of a run, with its policy/ inside, or of a saved policy.
        out: Directory to write; unless given, RUN/export, or POLICY-export beside a policy.
        json: Print the outcome as JSON.
    """
    if (run / JOURNAL).exists() and not (run / RUN_FILE).exists() and not (run / "policy").is_dir():
        raise ConfigError(
            f"The run in {run} was begun by `lifesafe ask` or SafeOptimizer: your system has the policy, and there is"
            " none here to export."
        )
    directory = out or beside(run)
    with progress("exporting"):
        from lifesafe.policies import load
        from lifesafe.policies.export import TOLERANCE
        from lifesafe.policies.export import export as write

        found = _served_target(run)
        promise, target = (None, None) if found is None else found
        exported = write(load(run), directory, target)
    comparison = exported.comparison
    if json:
        asked = None if target is None else asdict(target) | {"promise": promise}
        print_json({"directory": str(directory), "bytes": exported.size, "target": asked, **comparison._asdict()})
        return OK
    begin = "(reward, cost)" if target is None else "stepper.target()"
    has_stop = target is not None and target.stop_at is not None
    stop = "\n    if stepper.must_stop(): break  # ends the episode, after every observe" if has_stop else ""
    print(
        f"Export: {directory} ({exported.size / 1e6:.2f} MB)\n"
        f"Largest difference from the policy: {comparison.largest_difference:.1g} in {comparison.steps} steps of"
        f" {comparison.episodes} episodes ({TOLERANCE:g} would be too much)\n{_words(target, promise)}\n\n"
        "To run it: pip install numpy onnxruntime, put stepper.py beside your program, and there\n\n"
        "    from stepper import Stepper\n"
        f'    stepper = Stepper("{directory.name}"); stepper.reset({begin})  # begin an episode\n'
        "    action = stepper.act(observation); ...; stepper.observe(reward, cost)  # at every step"
        f"{stop}"
    )
    return OK


def _served_target(run: Path) -> tuple[str, ServedTarget] | None:
    """Return the promise of a life and the target that it operates, or will; none if there is no such target."""
    from lifesafe.policies.export import ServedTarget

    if not (run / JOURNAL).exists() or not (records := read_records(run / JOURNAL)):
        return None
    optimizer = SafeOptimizer.replay(records)  # in memory: nothing is written, and the life may be running
    try:
        target = Operation(optimizer).begin()
    except NoSafeTargetError:
        return None
    if not isinstance(target, Returns):  # halted
        return None
    problem = optimizer.problem
    return problem.promise, ServedTarget(tuple(target), problem.limits, problem.stop_at)


def _words(target: ServedTarget | None, promise: str | None) -> str:
    if target is None:
        return "Target: none; this is no life, or it serves no target. Ask only for what was tried on your system."
    returns = ", ".join(f"{value:.5g}" for value in target.returns)
    said = f"Target: ({returns}), found to keep the limit {numbers(target.limits)} under the promise {promise}"
    if target.stop_at is None:
        return f"{said}."
    return (
        f"{said}, with the stop {numbers(target.stop_at)}:\nan episode must end as soon as its cost reaches that; the"
        " loop below sees to it."
    )


def beside(run: Path) -> Path:
    """Return where to write unless told."""
    return run / "export" if (run / "policy").is_dir() else run.with_name(f"{run.name}-export")
