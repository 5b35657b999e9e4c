"""Serving the target that a search has found, under a watch, with a ladder to fall back on."""

from lifesafe.operation.operation import LEVEL, Operation, Verdict, replay, use
from lifesafe.operation.watch import Excess, Watch

__all__ = ["LEVEL", "Excess", "Operation", "Verdict", "Watch", "replay", "use"]
