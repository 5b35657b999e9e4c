"""The tasks that lifesafe knows."""

from __future__ import annotations

import importlib.util
from typing import Any

from lifesafe.console.prompts import OK
from lifesafe.console.tables import Table, print_json
from lifesafe.systems import Task
from lifesafe.systems import tasks as known_tasks

# By the module that makes the environment: what people call the simulator, what must be importable, how to get it.
_SIMULATORS = {
    "lifesafe.systems.simulators.bullet": (
        "Bullet-Safety-Gym",
        ("pybullet", "bullet_safety_gym"),
        'pip install "lifesafe[bullet]", then pip install --no-deps bullet-safety-gym==1.4.0',
    ),
    "lifesafe.systems.simulators.velocity": ("MuJoCo", ("mujoco", "gymnasium"), 'pip install "lifesafe[mujoco]"'),
}
_TOLD = (
    "name", "observations", "actions", "horizon", "limits", "largest_costs", "reference", "dataset_file", "cost",
    "summary",
)  # fmt: skip


def tasks(*, json: bool = False) -> int:
    """List the tasks, their sizes, limits and data.

    A task is an environment with a cost, a limit on the mean cost of an episode, and where public data of it are.
    Data can be used without the simulator that a task needs to run; `lifesafe data fetch TASK` gets them. PointCircle
    needs nothing installed. A task of your own is registered in Python: `lifesafe.systems.register(Task(...))`.

    Examples:
        lifesafe tasks
        lifesafe tasks --json | jq '.[] | select(.installed) | .name'

    Exit codes: 0 listed.

    Args:
        json: Print everything known of the tasks as JSON.
    """
    known = known_tasks()
    if json:
        print_json([_plain(task) for task in known])
        return OK
    heading = ("task", "observations", "actions", "steps", "limit", "needs", "public data")
    print(Table(heading, [_row(task) for task in known]).text())
    print("\nlimit: largest mean cost of an episode, unless you give another one. What costs:")
    width = max(len(task.name) for task in known)
    for task in known:
        print(f"  {task.name.ljust(width)}  {task.cost}")
    for name, modules, install in _SIMULATORS.values():
        if not _installed(modules):
            print(f"\n{name} is not installed: {install}")
    return OK


def _row(task: Task) -> tuple[str, ...]:
    name, modules, _ = _simulator(task)
    needs = name if _installed(modules) else f"{name} (missing)"
    limits = ", ".join(f"{limit:g}" for limit in task.limits)
    sizes = (task.observations, task.actions, task.horizon)
    return (task.name, *map(str, sizes), limits, needs, task.dataset_file or "none")


def _plain(task: Task) -> dict[str, Any]:
    name, modules, install = _simulator(task)
    return {each: getattr(task, each) for each in _TOLD} | {
        "needs": name,
        "install": install,
        "installed": _installed(modules),
    }


def _simulator(task: Task) -> tuple[str, tuple[str, ...], str]:
    maker = task.make.partition(":")[0] if isinstance(task.make, str) else type(task.make).__module__
    return _SIMULATORS.get(maker, ("nothing", (), ""))


def _installed(modules: tuple[str, ...]) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
