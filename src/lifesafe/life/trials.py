"""Running a trial on a simulator: which episodes, and when one ends early."""

from __future__ import annotations

import math

from lifesafe._random import integer
from lifesafe.errors import ConfigError
from lifesafe.interfaces import Progress, Report
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer, Trial
from lifesafe.safety.ledger import TRIAL_EPISODES
from lifesafe.safety.problem import Target
from lifesafe.systems import Evaluator


def run_trial(
    evaluator: Evaluator,
    optimizer: SafeOptimizer,
    trial: Trial,
    seed: int,
    progress: Report | None = None,
) -> list[Returns]:
    """Return what the episodes of a trial returned; the same ones whenever it is run again.

    After some episodes the optimizer may say that the target is too costly to go on with; then those are all.

    Args:
        evaluator: The policy at work.
        optimizer: What asked for the trial.
        trial: What to try.
        seed: Seed of the run.
        progress: Called with the episodes that were searched in all.
    """
    targets = [asked(target) for target in trial.targets]
    seeds = [integer(seed, "trial", trial.number, episode) for episode in range(trial.episodes)]
    chunk, returns = _chunk(optimizer, trial), list[Returns]()
    while len(returns) < trial.episodes and not (returns and optimizer.ends_early(trial, returns)):
        now = slice(len(returns), len(returns) + chunk)
        returns += evaluator.run(targets[now], seeds[now]).returns
        if progress is not None:
            progress(searched(optimizer, len(returns)))
    return returns


def searched(optimizer: SafeOptimizer, more: int = 0) -> Progress:
    """Return how far a search has come, so many episodes into its next trial."""
    figures = {"trials": float(len(optimizer.trials))}
    return Progress("episodes", optimizer.history.searched + more, optimizer.problem.episodes, figures=figures)


def asked(target: Target) -> Returns:
    """Return a target as what a policy is asked to return.

    Raises:
        ConfigError: If it is a setting of knobs, which only you can make.
    """
    if not isinstance(target, Returns):
        raise ConfigError(f"A policy is asked for returns, and {target} is a setting of knobs; use ask and tell.")
    return target


def _chunk(optimizer: SafeOptimizer, trial: Trial) -> int:
    """Return how many episodes run before the next look."""
    if trial.stage == "start":
        return TRIAL_EPISODES
    return trial.episodes if optimizer.problem.promise == "total" else math.ceil(trial.episodes / 2)
