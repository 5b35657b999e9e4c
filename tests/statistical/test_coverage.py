"""The promise, simulated: slow, with fixed seeds and binomial tolerance."""

import pytest

from lifesafe.coverage import Row, simulate, summarize

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
