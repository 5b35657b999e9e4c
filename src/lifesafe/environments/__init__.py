"""Acting: tasks, their environments, and episodes run in them."""

from lifesafe.environments.registry import register, task, tasks
from lifesafe.environments.task import Box, Task

__all__ = ["Box", "Task", "register", "task", "tasks"]
