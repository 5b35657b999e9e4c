"""Acting: tasks, their environments, and episodes run in them."""

from lifesafe.environments import bullet, point_circle, velocity
from lifesafe.environments.any_environment import check_costs, from_recipe, recipe, task_from_id
from lifesafe.environments.backend import open_vector
from lifesafe.environments.evaluation import Evaluator, evaluate
from lifesafe.environments.registry import register, task, tasks
from lifesafe.environments.rollout import Outcome, Rollout, rollout
from lifesafe.environments.stop import stop_at_cost
from lifesafe.environments.task import Box, Task
from lifesafe.environments.vector import Step, Vector

for _task in (point_circle.TASK, *bullet.TASKS, *velocity.TASKS):
    register(_task)

__all__ = [
    "Box",
    "Evaluator",
    "Outcome",
    "Rollout",
    "Step",
    "Task",
    "Vector",
    "check_costs",
    "evaluate",
    "from_recipe",
    "open_vector",
    "recipe",
    "register",
    "rollout",
    "stop_at_cost",
    "task",
    "task_from_id",
    "tasks",
]
