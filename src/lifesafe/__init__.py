"""Provably lifetime safe reinforcement learning."""

from lifesafe import errors
from lifesafe.data import Dataset, Episode, read_dsrl, read_minari
from lifesafe.environments import Task, evaluate, register, task, tasks
from lifesafe.optimizer import Problem, SafeOptimizer, Schedule, Stage, Trial
from lifesafe.returns import Returns

__all__ = [
    "Dataset",
    "Episode",
    "Problem",
    "Returns",
    "SafeOptimizer",
    "Schedule",
    "Stage",
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
