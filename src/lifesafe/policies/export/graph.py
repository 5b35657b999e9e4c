"""From one step of a policy in PyTorch to an ONNX graph."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from lifesafe._optional import require
from lifesafe.errors import CheckpointError
from lifesafe.policies.export.steps import Exportable

OPSET = 20  # the first with GELU
INPUTS = {"observations": "float64", "returns": "float64", "actions": "float32", "times": "int64"}
PACKAGES = {"onnx": "ONNX", "onnxscript": "ONNX Script", "onnxruntime": "ONNX Runtime"}


def onnx_bytes(exportable: Exportable) -> bytes:
    """Return the step as the content of an ONNX file; any number of rows may be given to it.

    Raises:
        CheckpointError: If the step uses what cannot be expressed in ONNX.
        DependencyError: If a package is missing.
    """
    checker = require_onnx("onnx").checker
    arguments = _beginning(exportable, rows=2)
    with torch.inference_mode():
        exportable.step(*arguments)
    rows = {0: torch.export.Dim("rows")}
    state = tuple(rows for _ in exportable.state)  # one parameter of the step
    try:
        with _quiet():
            program = torch.onnx.export(
                exportable.step,
                arguments,
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[*INPUTS, *exportable.state],
                output_names=["action", *(f"new_{name}" for name in exportable.state)],
                dynamic_shapes=(*(rows for _ in INPUTS), *((state,) if state else ())),
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise CheckpointError(f"{type(exportable.step).__name__} cannot be expressed in ONNX: {reason}") from error
    assert program is not None
    model = program.model_proto
    _forget_origin(model)
    checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def require_onnx(package: str) -> Any:
    """Return a package of the extra `export`."""
    return require(package, name=PACKAGES[package], extra="export", user="Exporting a policy")


def _beginning(exportable: Exportable, rows: int) -> tuple[torch.Tensor, ...]:
    """Return arguments of the step at the start of an episode."""
    scaling = exportable.scaling
    return (
        scaling.mean.repeat(rows, 1),
        scaling.center.repeat(rows, 1),
        torch.zeros(rows, exportable.actions),
        torch.zeros(rows, dtype=torch.int64),
        *(torch.zeros(rows, *shape) for shape in exportable.state.values()),
    )


def _forget_origin(model: Any) -> None:
    """Remove where in whose files each node came from: it is half of a small export, and nobody's business."""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from warning of its own innards: what it makes is compared with the policy anyway."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
