"""Take a policy out of lifesafe, to where there is no PyTorch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lifesafe.cli.console import OK, Directory, Run, patience, print_json
from lifesafe.errors import NoSafeTargetError

if TYPE_CHECKING:
    from lifesafe.policies.export import ServedTarget


def export(run: Run, *, out: Directory = None, json: bool = False) -> int:
    """Turn a trained policy into files that a robot can run, without lifesafe and without PyTorch.

    The directory that is written holds policy.onnx (one step of the policy, for any number of episodes at once),
    stepper.py (what keeps account between the steps; needs NumPy and ONNX Runtime, and no more) and policy.json (sizes,
    versions, fingerprints; from a life, the target that it serves). Before it is reported as written, it is held
    against the policy itself over whole made-up episodes: if an action differs by more than 1e-4, nothing is written.

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
    directory = out or beside(run)
    with patience("exporting"):
        # Learning and its tools are loaded only now, and that takes a while: --help must not wait for it.
        from lifesafe.policies import load
        from lifesafe.policies.export import TOLERANCE
        from lifesafe.policies.export import export as write

        target = _served_target(run)
        exported = write(load(run), directory, target)
    comparison = exported.comparison
    if json:
        asked = None if target is None else asdict(target)
        print_json({"directory": str(directory), "bytes": exported.size, "target": asked, **comparison._asdict()})
        return OK
    begin = "(reward, cost)" if target is None else "stepper.target()"
    print(
        f"Export: {directory} ({exported.size / 1e6:.2f} MB)\n"
        f"Largest difference from the policy: {comparison.largest_difference:.1g} in {comparison.steps} steps of"
        f" {comparison.episodes} episodes ({TOLERANCE:g} would be too much)\n{_words(target)}\n\n"
        "To run it: pip install numpy onnxruntime, put stepper.py beside your program, and there\n\n"
        "    from stepper import Stepper\n"
        f'    stepper = Stepper("{directory.name}"); stepper.reset({begin})  # begin an episode\n'
        "    action = stepper.act(observation); ...; stepper.observe(reward, cost)  # at every step"
    )
    return OK


def _served_target(run: Path) -> ServedTarget | None:
    """Return the target that a life operates, or will; none if it has none, or if there is no life in the directory."""
    from lifesafe.operation import Operation
    from lifesafe.optimizer import SafeOptimizer
    from lifesafe.optimizer.dither import scatter
    from lifesafe.optimizer.journal import JOURNAL, read_events
    from lifesafe.policies.export import ServedTarget

    if not (run / JOURNAL).exists() or not (events := read_events(run / JOURNAL)):
        return None
    optimizer = SafeOptimizer.replay(events, str(run))  # in memory: nothing is written, and the life may be running
    try:
        target = Operation(optimizer).begin()
    except NoSafeTargetError:
        return None
    if target is None:  # halted
        return None
    spread = scatter(optimizer.problem)
    return ServedTarget(tuple(target), optimizer.problem.limits, *(tuple(each.tolist()) for each in spread))


def _words(target: ServedTarget | None) -> str:
    if target is None:
        return "Target: none; this is no life, or it serves no target. Ask only for what was tried on your system."
    returns = ", ".join(f"{value:.5g}" for value in target.returns)
    limits = ", ".join(f"{limit:g}" for limit in target.limits)
    said = f"Target: ({returns}), found to keep the limit {limits}"
    if any(target.deviations):
        spread = ", ".join(f"{value:.3g}" for value in target.deviations)
        said += f"; drawn anew for every episode, with deviations ({spread})"
    return said


def beside(run: Path) -> Path:
    """Return where to write unless told."""
    return run / "export" if (run / "policy").is_dir() else run.with_name(f"{run.name}-export")
