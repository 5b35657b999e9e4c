"""Runs an exported policy: needs this file, policy.onnx, policy.json, NumPy and ONNX Runtime, and nothing else.

    from stepper import Stepper

    stepper = Stepper("exported")
    stepper.reset(stepper.target())            # begin an episode; or with a target of yours: reward, then every cost
    while ...:
        action = stepper.act(observation)      # within [-1, 1], as the actions in the data that it learned from
        ...                                    # the robot moves
        stepper.observe(reward, cost)          # what that step earned and cost
        if stepper.must_stop(): break          # the target keeps its limits only if episodes are ended there

Several episodes at once: give `reset` one target per row, `act` one observation per row, and so on. Rows may be named,
`act(observations, rows=[0, 2])`; the others stand still.

Written by `lifesafe export`, and part of lifesafe (Apache-2.0).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FORMAT = 2
ABOUT, MODEL = "policy.json", "policy.onnx"


class Stepper:
    """Acts step by step, keeping account of what is still to come and of what the policy remembers.

    Attributes:
        about: What policy.json says: sizes, state, how the export was verified, versions.
        returns: Reward and costs still to come, a row per episode.
        times: Steps done in each episode.
        spent: Costs so far of each episode.

    Raises:
        FileNotFoundError: If a file of the export is missing.
        ValueError: If a file is damaged. All methods raise it for what they cannot take, and then change nothing.
    """

    def __init__(self, directory: str | Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]  # here, so that this file can be imported without it

        about, model = _read(Path(directory))
        self.about = about
        self._sizes: dict[str, int] = about["sizes"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # a step is too little work to be shared
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._outputs = ["action", *(f"new_{name}" for name in about["state"])]
        self._single = False
        self._begin(0)

    def reset(self, target: ArrayLike, rows: Sequence[int] | None = None) -> None:
        """Begin an episode, or several if there is one target per row; if rows are named, only in these."""
        columns = 1 + self._sizes["costs"]
        if rows is None:
            single = np.ndim(target) == 1
            count = 1 if single else len(np.atleast_1d(target))
            wanted = _rows("target", target, count, columns, single)
            self._single = single
            self._begin(count)
        else:
            wanted = _rows("target", target, self._count(rows), columns, self._single)
        chosen = self._chosen(rows)
        self.returns[chosen] = wanted
        self.times[chosen] = 0
        self.spent[chosen] = 0.0
        self._acted[chosen] = False
        for kept in (self._actions, *self._state.values()):
            kept[chosen] = 0.0

    def target(self) -> NDArray[np.float64]:
        """Return what to ask for in an episode: the target that the life had found."""
        returns: NDArray[np.float64] = np.array(self._served()["returns"], dtype=np.float64)
        return returns

    def must_stop(self) -> bool | NDArray[np.bool_]:
        """Return whether an episode must be ended now, for every row if there are several.

        A life that searched with a stop found what its target costs with that stop. Without it the target may cost more
        than its limits.
        """
        stop_at = self._served().get("stop_at")
        reached = self.spent >= (np.inf if stop_at is None else np.array(stop_at))
        over: NDArray[np.bool_] = np.asarray(reached.any(axis=1))
        return bool(over[0]) if self._single else over

    def _served(self) -> dict[str, Any]:
        served: dict[str, Any] | None = self.about.get("target")
        if served is None:
            raise ValueError(
                "This export names no target, as it was not made from a life that had found one. Give reset a target"
                " that was tried on this system, or export the life."
            )
        return served

    def act(self, observation: ArrayLike, rows: Sequence[int] | None = None) -> NDArray[np.float32]:
        """Return the next action of every row, or of those named, given what it sees now."""
        chosen = self._chosen(rows)
        if self._acted[chosen].any():
            raise ValueError("act was called twice: first call observe with what the last action earned and cost.")
        seen = _rows("observation", observation, self._count(rows), self._sizes["observations"], self._single)
        past: dict[str, NDArray[Any]] = {"returns": self.returns, "times": self.times, "actions": self._actions}
        inputs = {"observations": seen} | {name: array[chosen] for name, array in (past | self._state).items()}
        action, *state = self._session.run(self._outputs, inputs)
        if not np.isfinite(action).all():
            raise ValueError(f"The policy has no finite action for observation {seen.tolist()}: stop the episode.")
        for name, new in zip(self._state, state, strict=True):
            if rows is None:
                self._state[name] = new
            else:
                self._state[name][chosen] = new
        self._actions[chosen] = action
        self._acted[chosen] = True
        result: NDArray[np.float32] = action[0] if self._single else action
        return result

    def observe(self, reward: ArrayLike, costs: ArrayLike, rows: Sequence[int] | None = None) -> None:
        """Take what the last action of every row, or of those named, earned and cost off what is still to come."""
        chosen = self._chosen(rows)
        if not self._acted[chosen].all():
            raise ValueError("observe was called before act: call it once after every action, with what that brought.")
        earned = _rows("reward", reward, self._count(rows), 1, self._single)
        paid = _rows("costs", costs, self._count(rows), self._sizes["costs"], self._single)
        coming = self.returns[chosen] - np.concatenate([earned, paid], axis=1)
        if self.about["clamped"]:  # a spent budget means "no more cost": the data know none below
            coming[:, 1:] = np.maximum(coming[:, 1:], 0.0)
        self.returns[chosen] = coming
        self.times[chosen] += 1
        self.spent[chosen] += paid
        self._acted[chosen] = False

    def _begin(self, rows: int) -> None:
        self.returns = np.zeros((rows, 1 + self._sizes["costs"]))
        self.times = np.zeros(rows, dtype=np.int64)
        self.spent = np.zeros((rows, self._sizes["costs"]))
        self._acted = np.zeros(rows, dtype=bool)
        self._actions = np.zeros((rows, self._sizes["actions"]), dtype=np.float32)
        state = self.about["state"].items()
        self._state = {name: np.zeros((rows, *about["shape"]), dtype=about["dtype"]) for name, about in state}

    def _chosen(self, rows: Sequence[int] | None) -> slice | NDArray[np.int64]:
        if not len(self.times):
            raise ValueError("No episode has begun: call reset with a target first.")
        if rows is None:
            return slice(None)
        chosen = np.asarray(rows)
        if chosen.ndim != 1 or len(set(chosen.tolist()) & set(range(len(self.times)))) != len(chosen):
            raise ValueError(f"rows must be different numbers from 0 to {len(self.times) - 1}; got {rows}.")
        return chosen.astype(np.int64)

    def _count(self, rows: Sequence[int] | None) -> int:
        return len(self.times) if rows is None else len(rows)


def _rows(name: str, value: ArrayLike, rows: int, columns: int, single: bool) -> NDArray[np.float64]:
    """Return a value with a row per episode; a last axis of one entry may be left out."""
    array = np.asarray(value, dtype=np.float64)
    shapes: list[tuple[int, ...]] = [(columns,) if single else (rows, columns)]
    if columns == 1:
        shapes.append(shapes[0][:-1])
    if array.shape not in shapes:
        accepted = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {accepted}, as in the data; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; got {array.tolist()}. Mend where it comes from, or stop the episode.")
    return array.reshape(rows, columns)


def _read(directory: Path) -> tuple[dict[str, Any], bytes]:
    """Return what policy.json says, and the content of policy.onnx."""
    way_out = "Copy the whole directory again, or export the policy again."
    files = {}
    for name in (ABOUT, MODEL):
        try:
            files[name] = (directory / name).read_bytes()
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{directory / name} is missing. {way_out}") from error
    try:
        about = json.loads(files[ABOUT])
        if about["format"] != FORMAT:
            raise ValueError(f"it has format {about['format']!r}, and this file reads {FORMAT}")
        if absent := {"files", "sizes", "state", "clamped"} - set(about):
            raise ValueError(f"it lacks {', '.join(sorted(absent))}")
        if hashlib.sha256(files[MODEL]).hexdigest() != about["files"][MODEL]:
            raise ValueError(f"{MODEL} is another file than the one it describes")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{directory / ABOUT} is damaged, or not of this export: {error}. {way_out}") from error
    return about, files[MODEL]
