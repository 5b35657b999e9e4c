"""The methods of `--method`, and their settings from the words of the shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from lifesafe.console.settings import with_settings
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress, Report
from lifesafe.lab.methods import CONDITIONED, METHODS, method_config
from lifesafe.systems import Task

if TYPE_CHECKING:
    from lifesafe.policies import LearnerConfig

    AnyMethod: TypeAlias = str
    Conditioned: TypeAlias = str
else:
    AnyMethod, Conditioned = Literal[tuple(METHODS)], Literal[CONDITIONED]


def configured(method: str, task: Task, settings: Sequence[str]) -> LearnerConfig:
    """Return the settings of a method for a task and its limits, some of them changed."""
    if any(word.partition("=")[0].strip() == "limits" for word in settings):
        raise ConfigError("limits are no setting of a method here; give them by --limit.")
    config = method_config(method, limits=task.limits, task=task.name)
    return with_settings(config, [word for word in settings if word != "help"])


def given_threads() -> int | None:
    """Return the number of threads that the environment gives to a training; none if it leaves the choice."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else None


def on_training(report: Report, of: str = "") -> Report:
    """Return a report for a training that hands on what is worth showing of it."""

    def told(state: Progress) -> None:
        losses = {name: state.figures[name] for name in ("loss", "held_out_nll") if name in state.figures}
        report(replace(state, doing=f"{of}{state.doing}", figures=losses))

    return told
