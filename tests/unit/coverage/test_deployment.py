import warnings
from dataclasses import replace

import numpy as np
import pytest

from lifesafe.coverage import Row, deploy
from lifesafe.coverage.deployment import draw_map, problem_for, schedule_for
from lifesafe.coverage.literal import LiteralRule
from lifesafe.errors import ConfigError, GuaranteeWarning
from lifesafe.optimizer import Schedule
from lifesafe.theory.simulators import FAMILIES

QUICK = Row(family="conservative", trials=6)


def test_a_deployment_is_the_same_for_the_same_number():
    assert deploy(QUICK, 3) == deploy(QUICK, 3)


def test_rows_of_one_family_are_judged_on_the_same_maps():
    rows = (QUICK, replace(QUICK, rule="paper"), replace(QUICK, delta=0.05))
    maps = [draw_map(row, np.random.default_rng(1)) for row in rows]
    assert all(np.array_equal(maps[0].cost, other.cost) for other in maps[1:])


def test_dither_is_judged_by_its_own_costs_and_by_the_rewards_without_it():
    row = Row(family="edge", trials=12)
    exact, wide = ([deploy(each, number) for number in range(8)] for each in (row, replace(row, dither=0.07)))
    assert sum(outcome.violations > 0 for outcome in exact) >= 6
    assert sum(outcome.violations > 0 for outcome in wide) <= 3
    assert np.mean([outcome.gain for outcome in wide]) < np.mean([outcome.gain for outcome in exact])


def test_the_plain_choice_is_judged_by_the_truth():
    row = Row(family="overshoot", rule="plain")
    world = draw_map(row, np.random.default_rng(0))
    assert world.cost[-1, np.abs(world.cost_axis - world.limit).argmin()] > world.limit
    outcome = deploy(row, 0)
    assert outcome.violations == 1
    assert outcome.operates_unsafe
    assert not outcome.found


def test_the_right_model_exists_only_for_gaussian_maps():
    with pytest.raises(ConfigError, match="not drawn from a Gaussian process"):
        deploy(Row(family="cliff", model="right"), 0)


def test_an_unknown_family_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="overshoot"):
        deploy(Row(family="undershoot"), 0)


def test_the_right_model_is_the_law_the_map_is_drawn_from():
    row = Row(family="gp_target", model="right", error=2.0, mixture=9)
    prior = problem_for(row, FAMILIES["gp_target"](np.random.default_rng(0))).priors.cost
    assert (prior.kernel, prior.lengthscales, prior.sd, prior.mean) == ("matern32", (0.6,), 0.4, "target")
    assert prior.mixture == 9


def test_the_reach_of_a_row_is_that_of_its_schedule():
    assert schedule_for(QUICK).reach == Schedule().reach
    assert schedule_for(replace(QUICK, reach=1.0)).reach == 1.0
    assert schedule_for(Row(family="gp_flat", model="right")).reach == 0.2


def test_the_linear_model_is_the_specifications():
    prior = problem_for(replace(QUICK, model="linear"), FAMILIES["cliff"](np.random.default_rng(0))).priors.cost
    assert (prior.kernel, prior.lengthscales, prior.sd) == ("matern32", (0.3,), 1.0)
    assert (prior.mean, prior.scale) == ("larger", "linear")


def test_every_rule_of_the_optimizer_has_its_schedule():
    assert schedule_for(replace(QUICK, rule="even")).share is None
    assert schedule_for(replace(QUICK, rule="paper")).risk == "paper"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        assert schedule_for(replace(QUICK, rule="fixed")).risk == "fixed"


def test_the_literal_rule_warns_and_calls_everything_safe_after_one_step():
    row = Row(family="gp_target", model="right", rule="literal")
    world = draw_map(row, np.random.default_rng(2))
    with pytest.warns(GuaranteeWarning, match="counter-example"):
        rule = LiteralRule(problem_for(row, world))
    tried = []
    for _ in range(4):
        tried.append(rule.ask())
        rule.tell(tried[-1], world.draw(tried[-1], 20, np.random.default_rng(0)))
    assert rule._safe.all()
    # With everything safe, what is tried is the largest optimistic reward, far from the seed.
    assert abs(world.candidates[tried[0], 0] - world.candidates[world.seed, 0]) > 100
