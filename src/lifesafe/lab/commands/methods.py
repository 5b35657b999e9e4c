"""The methods of `--method`, and their settings from the words of the shell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from lifesafe.console.settings import with_settings
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress, Report
from lifesafe.systems import Task

if TYPE_CHECKING:
    from lifesafe.policies import LearnerConfig
    from lifesafe.policies import Progress as Training

# As lifesafe.lab.baselines.catalogue has them, which --help must not wait for.
Conditioned = Literal["cdt", "cdt-osrl", "dt-cost", "rvs"]
Baseline = Literal[
    "ccac",
    "ccac-osrl",
    "bc-all",
    "bc-frontier",
    "bc-safe",
    "bcq-lag",
    "bcq-lag-osrl",
    "bear-lag",
    "bear-lag-osrl",
    "cpq",
    "cpq-osrl",
    "coptidice",
    "coptidice-osrl",
]


def configured(method: str, task: Task, settings: Sequence[str]) -> LearnerConfig:
    """Return the settings of a method for a task and its limits, some of them changed."""
    from lifesafe.lab.baselines.catalogue import method_config

    if any(word.partition("=")[0].strip() == "limits" for word in settings):
        raise ConfigError("limits are no setting of a method here; give them by --limit.")
    config = method_config(method, limits=task.limits, task=task.name)
    return with_settings(config, [word for word in settings if word != "help"])


def on_training(report: Report, of: str = "") -> Callable[[Training], None]:
    """Return what hands the progress of a training on."""

    def told(state: Training) -> None:
        losses = {name: state.metrics[name] for name in ("loss", "held_out_nll") if name in state.metrics}
        report(Progress(f"{of}training", state.step, state.steps, figures=losses))

    return told
