"""Provably lifetime safe reinforcement learning."""

from lifesafe import errors
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule, Stage, Trial
from lifesafe.returns import Returns

__all__ = ["Problem", "Returns", "SafeOptimizer", "Schedule", "Stage", "Trial", "errors"]
