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
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lifesafe._files import sha256, write_atomic
from lifesafe._random import generator
from lifesafe.errors import CheckpointError
from lifesafe.interfaces import Policy
from lifesafe.policies.checkpoint import check_free, json_bytes, policy_kind, tensor_bytes, writing_whole
from lifesafe.policies.export.graph import INPUTS, OPSET, PACKAGES, onnx_bytes, require_onnx
from lifesafe.policies.export.stepper import ABOUT, FORMAT, MODEL, Stepper
from lifesafe.policies.export.steps import Exportable, exportable
from lifesafe.policies.learner import StoredPolicy
from lifesafe.policies.scaling import Scaling
from lifesafe.returns import Returns

TOLERANCE = 1e-4
STEPPER = "stepper.py"
_ROWS = 3  # episodes at once, when an export is compared with its policy


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


class Comparison(NamedTuple):
    """How far two policies were apart."""

    largest_difference: float
    """In any entry of any action."""
    steps: int
    """How many actions were compared."""
    episodes: int


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
        "policy": policy_kind(policy),
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


def compare(stepper: Stepper, policy: Policy, scaling: Scaling, horizon: int) -> Comparison:
    """Return how far a stepper is from the policy it was exported from.

    Both see the same made-up episodes, each with its own memory and its own actions before. The observations walk at
    random over what the scales call usual. Of three rows one lasts a tenth longer than any episode in the data, the
    others begin anew on the way; now and then a row stands still, so that rows are at different times and batches
    of different sizes.
    """
    random = generator(0, "export", "comparison")
    mean, deviation = scaling.mean.numpy(), scaling.deviation.numpy()
    targets = [_target(random, scaling) for _ in range(_ROWS)]
    actor = policy.actor(targets)
    stepper.reset([tuple(target) for target in targets])
    walk = random.normal(size=(_ROWS, len(scaling.mean)))
    largest, steps, episodes = 0.0, 0, _ROWS
    for step in range(horizon + max(horizon // 10, 2)):
        for row in range(1, _ROWS):
            if step == row * horizon // _ROWS:
                target = _target(random, scaling)
                actor.restart([target], np.array([row]))
                stepper.reset([tuple(target)], rows=[row])
                episodes += 1
        rows = None if step % 4 else np.array([row for row in range(_ROWS) if row == 0 or (step + row) % 3])
        moved = np.arange(_ROWS) if rows is None else rows
        walk[moved] = 0.95 * walk[moved] + 0.3 * random.normal(size=(len(moved), walk.shape[1]))
        observations = mean + deviation * walk[moved]
        named = None if rows is None else rows.tolist()
        difference = np.abs(stepper.act(observations, named) - actor.act(observations, rows)).max()
        largest = float(np.maximum(largest, difference))  # NaN stays
        steps += len(moved)
        rewards, costs = _earned(random, stepper.returns[moved], scaling, horizon)
        actor.observe(rewards, costs, rows)
        stepper.observe(rewards, costs, named)
    return Comparison(largest, steps, episodes)


def _target(random: np.random.Generator, scaling: Scaling) -> Returns:
    center, scale = scaling.center.numpy(), np.abs(scaling.scale.numpy())
    reward, *costs = center + scale * random.uniform(-1.0, 2.0, size=len(scale))
    return Returns(reward, np.abs(costs))


def _earned(
    random: np.random.Generator, coming: Float[np.ndarray, "m r"], scaling: Scaling, horizon: int
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m k"]]:
    """Return rewards and costs that use up a target within an episode, more or less: some budgets are overspent."""
    size = (np.abs(coming) + np.abs(scaling.scale.numpy())) / horizon
    rewards = random.normal(0.5, 2.0, size=len(coming)) * size[:, 0]
    return rewards, random.uniform(0.0, 3.0, size=(len(coming), coming.shape[1] - 1)) * size[:, 1:]
