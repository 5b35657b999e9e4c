"""Export: a trained policy as an ONNX file and a small stepper, for machines that have neither PyTorch nor lifesafe."""

from lifesafe.policies.export.steps import Exportable, exportable
from lifesafe.policies.export.writing import TOLERANCE, Comparison, Exported, ServedTarget, export

__all__ = ["TOLERANCE", "Comparison", "Exportable", "Exported", "ServedTarget", "export", "exportable"]
