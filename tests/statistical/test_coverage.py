"""The promise, simulated: slow, with fixed seeds and binomial tolerance."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from lifesafe._random import generator
from lifesafe.coverage import Row, simulate, summarize
from lifesafe.coverage.deployment import draw_map, problem_for, schedule_for
from lifesafe.errors import NoSafeTargetError
from lifesafe.optimizer import SafeOptimizer, Stage
from lifesafe.returns import Returns

pytestmark = pytest.mark.slow


def _summary(row: Row, deployments: int, first: int = 50_000):
    return summarize(row, simulate(row, deployments, first=first, workers=1))


@pytest.mark.parametrize("delta", [0.05, 0.1])
@pytest.mark.parametrize("family", ["overshoot", "conservative", "cliff", "rare"])
def test_the_default_violates_in_at_most_delta_of_deployments(family, delta):
    summary = _summary(Row(family=family, delta=delta), 300)
    assert summary.keeps_promise
    assert summary.unsafe_operation < 0.01


@pytest.mark.parametrize("error", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("family", ["gp_target", "gp_flat"])
def test_the_default_keeps_its_promise_on_gaussian_maps(family, error):
    summary = _summary(Row(family=family, delta=0.05, error=error), 200)
    assert summary.keeps_promise
    assert summary.unsafe_operation < 0.01


def test_the_ledger_with_the_right_model_violates_in_about_what_it_spends():
    summary = _summary(Row(family="gp_flat", delta=0.1, model="right"), 500)
    assert summary.keeps_promise
    assert summary.violated_interval[0] <= summary.spent


@pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")
def test_a_box_of_seeds_of_which_one_is_safe_violates_no_more_than_that_one():
    row, violated, charged = Row(family="gp_flat", delta=0.1, model="right"), 0, []
    for number in range(120):
        system, rng = draw_map(row, generator(number, "map", row.family)), generator(number, "episodes")
        problem = problem_for(row, system)
        near = np.flatnonzero(np.abs(problem.scaled - problem.scaled[:, [system.seed]]).max(axis=0) <= 0.25)
        seeds = (system.seed, *(int(i) for i in near if i != system.seed))
        assert len(seeds) > 50
        optimizer, tried = SafeOptimizer(replace(problem, seeds=seeds), schedule_for(row)), set()
        with suppress(NoSafeTargetError):
            while trial := optimizer.ask():
                tried |= {trial.index} if trial.stage is not Stage.SEED else set()
                drawn = system.draw(trial.index, trial.episodes, rng)
                optimizer.tell(trial, [Returns(reward, cost) for reward, cost in drawn])
        violated += not system.is_safe[sorted(tried - {system.seed})].all()
        charged.append(optimizer.spent)
    assert 0.06 < np.mean(charged) <= 0.1
    assert violated <= 16  # of 120 at 0.1: 12 and more than one deviation; 20 where seeds were not charged


def test_the_paper_schedule_hardly_ever_violates():
    assert _summary(Row(family="gp_target", model="right", rule="paper"), 200).violated <= 0.01


@pytest.mark.parametrize("family", ["gp_target", "gp_flat"])
def test_the_literal_rule_violates_in_nearly_all_deployments(family):
    assert _summary(Row(family=family, model="right", rule="literal"), 100).violated > 0.9


def test_a_mixture_repairs_a_length_scale_that_is_too_long():
    plain = _summary(Row(family="gp_flat", delta=0.05, model="right", error=2.0), 150)
    mixed = _summary(Row(family="gp_flat", delta=0.05, model="right", error=2.0, mixture=9), 150)
    assert mixed.violated < plain.violated / 2
    assert mixed.keeps_promise
