"""Provably lifetime safe reinforcement learning."""

from lifesafe import errors
from lifesafe.data import Dataset, Episode, read_dsrl, read_minari
from lifesafe.returns import Returns
from lifesafe.safety import Axis, Problem, SafeOptimizer, Trial
from lifesafe.systems import Task, evaluate, register, task, tasks

__all__ = [
    "Axis",
    "Dataset",
    "Episode",
    "Problem",
    "Returns",
    "SafeOptimizer",
    "Task",
    "Trial",
    "errors",
    "evaluate",
    "read_dsrl",
    "read_minari",
    "register",
    "task",
    "tasks",
]
