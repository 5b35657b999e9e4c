"""Acting: tasks, their environments, and episodes run in them."""

from lifesafe.systems.any_environment import check_costs, from_recipe, recipe, task_from_id
from lifesafe.systems.evaluation import Evaluator, evaluate, evaluate_many
from lifesafe.systems.rollout import Outcome, Rollout, rollout
from lifesafe.systems.simulators import bullet, point_circle, velocity
from lifesafe.systems.task import Box, Task, register, task, tasks
from lifesafe.systems.vector import Step, Vector, open_vector

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
    "evaluate_many",
    "from_recipe",
    "open_vector",
    "recipe",
    "register",
    "rollout",
    "task",
    "task_from_id",
    "tasks",
]
