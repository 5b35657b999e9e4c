"""How a trial runs on a simulator: which episodes, which seeds, and when it ends early."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lifesafe.errors import ConfigError
from lifesafe.life.trials import run_trial
from lifesafe.returns import Returns
from lifesafe.safety import Problem, SafeOptimizer, Trial
from properties.runs import until

START = Returns(200.0, 0.0)


class Machine:
    """Stands for an evaluator: every episode costs the same, and it keeps what it was asked for."""

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.ran: list[tuple[Returns, int]] = []
        self.batches: list[int] = []

    def run(self, targets: Sequence[Returns], seeds: Sequence[int]) -> SimpleNamespace:
        self.ran += zip(targets, seeds, strict=True)
        self.batches.append(len(targets))
        return SimpleNamespace(returns=[Returns(each.reward, self.cost) for each in targets])


def search(**settings: Any) -> SafeOptimizer:
    axes = {"reward": (0.0, 500.0), "cost": (0.0, 60.0)}
    return SafeOptimizer(Problem(axes=axes, starts=[START], limits=20.0, **settings))


def searching(**settings: Any) -> tuple[SafeOptimizer, Trial]:
    """Return a search and a trial of it that has a scout, or with the promise "total" is of a newcomer."""
    optimizer = search(**settings)
    until(optimizer, "search" if optimizer.problem.promise == "trial" else "newcomer")
    while (trial := optimizer.ask()) is not None and optimizer.problem.promise == "trial":
        if len(set(trial.targets)) > 1:
            break
        optimizer.tell(trial, [Returns(200.0, 1.0)] * trial.episodes)
    assert trial is not None
    return optimizer, trial


def run(optimizer: SafeOptimizer, trial: Trial, cost: float, seed: int = 0) -> tuple[Machine, list[Returns]]:
    machine = Machine(cost)
    return machine, run_trial(machine, optimizer, trial, seed)  # type: ignore[arg-type]


def test_every_episode_is_run_at_its_own_target_in_order() -> None:
    optimizer, trial = searching()
    machine, returned = run(optimizer, trial, 1.0)
    assert [target for target, _ in machine.ran] == list(trial.targets)
    assert len(set(trial.targets)) == 2
    assert [each.reward for each in returned] == [target.reward for target in trial.targets]  # type: ignore[union-attr]


def test_the_same_trial_has_the_same_seeds_and_every_other_has_others() -> None:
    optimizer, trial = searching()
    once, again, other = (run(optimizer, trial, 1.0, seed)[0].ran for seed in (0, 0, 1))
    assert once == again
    optimizer.tell(trial, [Returns(250.0, 1.0)] * trial.episodes)
    following = optimizer.ask()
    assert following is not None
    later = run(optimizer, following, 1.0)[0].ran
    seeds = [seed for ran in (once, other, later) for _, seed in ran]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(("cost", "batches"), [(0.0, [10, 10, 10]), (40.0, [10])])
def test_a_start_is_looked_at_after_every_ten_episodes_and_given_up_if_too_costly(
    cost: float, batches: list[int]
) -> None:
    optimizer = search(stop_at=40.0)
    trial = optimizer.ask()
    assert trial is not None
    assert trial.episodes == 30
    machine, returned = run(optimizer, trial, cost)
    assert machine.batches == batches
    optimizer.tell(trial, returned)
    assert optimizer.history.searched == sum(batches)


@pytest.mark.parametrize(("cost", "batches"), [(0.0, [5, 5]), (15.0, [5, 5]), (1e5, [5])])
def test_a_trial_ends_early_only_if_it_is_clearly_too_costly(cost: float, batches: list[int]) -> None:
    optimizer, trial = searching()
    assert run(optimizer, trial, cost)[0].batches == batches
    paid, newcomer = searching(promise="total", stop_at=40.0, episodes=300)
    assert run(paid, newcomer, 40.0)[0].batches == [newcomer.episodes], "the account has paid for all of it"


def test_an_early_end_does_not_change_the_episodes_before_it() -> None:
    """A run that was killed within a trial runs it again, and must tell the same."""
    optimizer, trial = searching()
    whole, cut = run(optimizer, trial, 0.0)[0].ran, run(optimizer, trial, 1e5)[0].ran
    assert cut == whole[: len(cut)]
    assert len(cut) < len(whole)


def test_a_trial_of_knobs_runs_no_episode() -> None:
    problem = Problem(axes={"speed": (0, 2)}, starts=[{"speed": 0.5}], limits=20.0, rewards=(0, 900))
    optimizer, machine = SafeOptimizer(problem), Machine(np.nan)
    trial = optimizer.ask()
    assert trial is not None
    with pytest.raises(ConfigError, match="use ask and tell"):
        run_trial(machine, optimizer, trial, 0)  # type: ignore[arg-type]
    assert machine.ran == []
