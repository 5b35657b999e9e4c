"""Provably lifetime safe reinforcement learning."""

from lifesafe import errors
from lifesafe.data import Dataset, Episode, read_dsrl, read_minari, write_dsrl
from lifesafe.preparation.planning import effort
from lifesafe.returns import Returns, mean_returns, returns_array
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
    "effort",
    "errors",
    "evaluate",
    "mean_returns",
    "read_dsrl",
    "read_minari",
    "register",
    "returns_array",
    "task",
    "tasks",
    "write_dsrl",
]
