"""What the parts of a job cost: processor seconds, measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lifesafe._config import from_plain, nearest, read_toml
from lifesafe.errors import ConfigError

_FILE = Path(__file__).with_name("costs.toml")


@dataclass(frozen=True, kw_only=True)
class GradientCost:
    """What a gradient step of a method costs with some settings."""

    method: str
    """The method."""
    batch: int
    """Transitions of a step, or segments."""
    width: int
    """Of hidden layers."""
    milliseconds: float
    """Processor time of a step."""


@dataclass(frozen=True)
class Costs:
    """What the parts of jobs cost, in processor seconds of one thread.

    Attributes:
        source: Where the numbers come from.
        machine: On which they were measured.
        start: What a job takes before its training: imports, reading data.
        trial: What a trial of a safe search takes besides its episodes.
        gradients: What gradient steps take.
        environment: What 1000 steps of a task's environment take, by task.
        acting: What the policy of a method takes for 1000 steps, by method.
    """

    source: str
    machine: str
    start: float
    trial: float
    gradients: tuple[GradientCost, ...]
    environment: Mapping[str, float] = field(default_factory=dict)
    acting: Mapping[str, float] = field(default_factory=dict)

    def gradient(self, method: str, batch: int, width: int) -> tuple[float, bool]:
        """Return the seconds of a gradient step, and whether just these settings were measured.

        Other settings are estimated from the most similar ones, in proportion to batch and width.

        Raises:
            ConfigError: If the method was not measured.
        """
        known = [each for each in self.gradients if each.method == method]
        if not known:
            raise ConfigError(_unknown("method", method, [each.method for each in self.gradients]))
        best = min(known, key=lambda each: (_apart(each.width, width), _apart(each.batch, batch)))
        scale = batch * width / (best.batch * best.width)
        return best.milliseconds / 1000 * scale, (best.batch, best.width) == (batch, width)

    def steps(self, task: str, method: str) -> float:
        """Return the seconds of 1000 steps of a policy in an environment.

        Raises:
            ConfigError: If the task or the method was not measured.
        """
        for kind, name, known in (("task", task, self.environment), ("method", method, self.acting)):
            if name not in known:
                raise ConfigError(_unknown(kind, name, list(known)))
        return self.environment[task] + self.acting[method]


def measured_costs(path: str | Path = _FILE) -> Costs:
    """Return the costs that come along, or those of a file that `benchmarks/scaling.py costs` wrote.

    Examples:
        >>> measured_costs().gradient("cpq", batch=512, width=256)[1]
        True
    """
    plain = read_toml(path)
    gradients = [from_plain(GradientCost, each, source=f"{path}, gradients") for each in plain.pop("gradients")]
    return Costs(**plain, gradients=tuple(gradients))


def _apart(one: int, other: int) -> float:
    return max(one, other) / min(one, other)


def _unknown(kind: str, name: str, known: list[str]) -> str:
    return (
        f"What {kind} {name!r} costs was not measured.{nearest(name, known)}"
        " Plan without it, or run it with one seed and plan with --measured."
    )
