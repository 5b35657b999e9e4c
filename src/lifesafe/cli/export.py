"""Take a policy out of lifesafe, to where there is no PyTorch."""

from __future__ import annotations

from pathlib import Path

from lifesafe.cli.console import OK, Directory, Run, patience, print_json


def export(run: Run, *, out: Directory = None, json: bool = False) -> int:
    """Turn a trained policy into files that a robot can run, without lifesafe and without PyTorch.

    The directory that is written holds policy.onnx (one step of the policy, for any number of episodes at once),
    stepper.py (what keeps account between the steps; needs NumPy and ONNX Runtime, and no more) and policy.json (sizes,
    versions, fingerprints). Before it is reported as written, it is held against the policy itself over whole
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
    directory = out or beside(run)
    with patience("exporting"):
        # Learning and its tools are loaded only now, and that takes a while: --help must not wait for it.
        from lifesafe.policies import load
        from lifesafe.policies.export import TOLERANCE
        from lifesafe.policies.export import export as write

        exported = write(load(run), directory)
    comparison = exported.comparison
    if json:
        print_json({"directory": str(directory), "bytes": exported.size, **comparison._asdict()})
        return OK
    print(
        f"Export: {directory} ({exported.size / 1e6:.2f} MB)\n"
        f"Largest difference from the policy: {comparison.largest_difference:.1g} in {comparison.steps} steps of"
        f" {comparison.episodes} episodes ({TOLERANCE:g} would be too much)\n\n"
        "To run it: pip install numpy onnxruntime, put stepper.py beside your program, and there\n\n"
        "    from stepper import Stepper\n"
        f'    stepper = Stepper("{directory.name}"); stepper.reset((reward, cost))  # the target of an episode\n'
        "    action = stepper.act(observation); ...; stepper.observe(reward, cost)  # at every step"
    )
    return OK


def beside(run: Path) -> Path:
    """Return where to write unless told."""
    return run / "export" if (run / "policy").is_dir() else run.with_name(f"{run.name}-export")
