"""Write a policy as a directory that runs without PyTorch and without lifesafe.

It holds `policy.onnx` (one step of any number of episodes, see steps.py), `stepper.py` (stepper.py, as it is) and
`policy.json`, which says what the two need to know of each other, what to ask the policy for, how the export was
verified, and where it came from.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from lifesafe._files import sha256, write_atomic
from lifesafe.errors import CheckpointError
from lifesafe.policies.checkpoint import check_free, json_bytes, kind_of, tensor_bytes, writing_whole
from lifesafe.policies.export.comparison import Comparison, compare
from lifesafe.policies.export.graph import INPUTS, OPSET, PACKAGES, onnx_bytes, require_onnx
from lifesafe.policies.export.stepper import ABOUT, FORMAT, MODEL, Stepper
from lifesafe.policies.export.steps import Exportable, exportable
from lifesafe.policies.learner import StoredPolicy

TOLERANCE = 1e-4
STEPPER = "stepper.py"


@dataclass(frozen=True)
class ServedTarget:
    """The target that a life operates, or is about to.

    Attributes:
        returns: Reward, then every cost, to ask for.
        limits: What it was found to keep.
        stop_at: Costs at which an episode must be ended, one per cost: it was found to keep the limits with that stop.
            None if episodes run to their end.
    """

    returns: tuple[float, ...]
    limits: tuple[float, ...]
    stop_at: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Exported:
    """An exported policy.

    Attributes:
        directory: Where it is.
        size: Of all its files, in bytes.
        comparison: How far it is from the policy it came from.
    """

    directory: Path
    size: int
    comparison: Comparison


def export(policy: StoredPolicy, directory: str | Path, target: ServedTarget | None = None) -> Exported:
    """Write a policy so that it runs with NumPy and ONNX Runtime alone, having checked that it acts the same.

    Args:
        policy: Any that `train` or `load` returned.
        directory: Where to; it must not exist yet, or be empty. It is there whole or not at all.
        target: What the stepper asks for unless told otherwise.

    Raises:
        CheckpointError: If there is something in the directory, it cannot be written, policies of this class cannot
            be exported, or the export acts differently from the policy.
        DependencyError: If ONNX or ONNX Runtime is missing.
    """
    for package in PACKAGES:
        require_onnx(package)
    directory = Path(directory)
    check_free(directory)
    if not all(tensor.isfinite().all() for tensor in policy.tensors().values()):
        raise CheckpointError("Weights of the policy are not finite, so its actions would not be: train it again.")
    found = exportable(policy)
    content = {MODEL: onnx_bytes(found), STEPPER: files(__package__).joinpath(STEPPER).read_bytes()}
    about = _about(policy, found, content) | ({} if target is None else {"target": asdict(target)})
    with writing_whole(directory) as unfinished:
        for name, data in content.items():
            write_atomic(unfinished / name, data)
        write_atomic(unfinished / ABOUT, json_bytes(about))
        comparison = compare(Stepper(unfinished), policy, found.scaling, found.horizon)
        if not comparison.largest_difference <= TOLERANCE:
            raise CheckpointError(
                f"The exported policy acts differently from the policy itself: by {comparison.largest_difference:.2g}"
                f" in an action within {comparison.steps} steps, more than {TOLERANCE:g}. Nothing was written."
                " Do torch, onnx and onnxruntime fit together? The versions in constraints.txt do."
            )
        about["verified"] = {"tolerance": TOLERANCE, **comparison._asdict()}
        write_atomic(unfinished / ABOUT, json_bytes(about))
    size = sum(path.stat().st_size for path in directory.iterdir())
    return Exported(directory, size, comparison)


def _about(policy: StoredPolicy, found: Exportable, content: dict[str, bytes]) -> dict[str, Any]:
    observations, returns, actions = len(found.scaling.mean), len(found.scaling.center), found.actions
    shapes = {"observations": [observations], "returns": [returns], "actions": [actions], "times": []}
    return {
        "format": FORMAT,
        "policy": kind_of(policy),
        "sizes": {"observations": observations, "actions": actions, "costs": returns - 1},
        "horizon": found.horizon,
        "clamped": found.clamped,
        # Of one row; the graph takes any number of rows.
        "inputs": {name: {"dtype": dtype, "shape": shapes[name]} for name, dtype in INPUTS.items()},
        "state": {name: {"dtype": "float32", "shape": list(shape)} for name, shape in found.state.items()},
        "files": {name: sha256(data) for name, data in content.items()},
        "weights": sha256(tensor_bytes(policy.tensors())),
        "opset": OPSET,
        "versions": {name: version(name) for name in ("lifesafe", "torch", *PACKAGES)},
    }
