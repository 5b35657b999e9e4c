"""Priors: their scales, their mixtures and what they refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe.errors import ConfigError
from lifesafe.optimizer import Prior, Priors, Problem, SafeOptimizer, Schedule, paper_priors
from lifesafe.optimizer.priors import from_scale, scale_slope, to_scale
from lifesafe.returns import Returns

scales = st.sampled_from(["linear", "log"])
costs = st.floats(0, 1e6)
limits = st.floats(1e-2, 1e4)


def prior(**changes: Any) -> Prior:
    return Prior(**{"mean": "limit", "kernel": "matern52", "lengthscales": (0.5,), "sd": 1.0, **changes})


@given(scale=scales, cost=costs, limit=limits)
def test_the_scales_invert(scale: Any, cost: float, limit: float) -> None:
    y = to_scale(scale, np.array([cost]), limit)
    np.testing.assert_allclose(from_scale(scale, y, limit), [cost], rtol=1e-9, atol=1e-9 * limit)


@given(scale=scales, limit=limits)
def test_the_scales_map_zero_to_zero_and_the_limit_to_one(scale: Any, limit: float) -> None:
    np.testing.assert_allclose(to_scale(scale, np.array([0.0, limit]), limit), [0.0, 1.0], atol=1e-15)


@given(scale=scales, low=costs, more=st.floats(1e-3, 1e6), limit=limits)
def test_the_scales_rise(scale: Any, low: float, more: float, limit: float) -> None:
    y = to_scale(scale, np.array([low, low + more * (1 + low)]), limit)
    assert y[1] > y[0]


@given(scale=scales, share=st.floats(0, 50), limit=limits)
def test_the_slope_is_the_derivative_of_the_scale(scale: Any, share: float, limit: float) -> None:
    cost, step = share * limit, 1e-5 * limit
    y = to_scale(scale, np.array([cost, cost + step]), limit)
    assert scale_slope(scale, cost + step / 2, limit) == pytest.approx((y[1] - y[0]) / step, rel=1e-4)


def test_a_cost_beyond_all_numbers_is_infinite_and_no_warning() -> None:
    assert from_scale("log", np.array([1e6]), 20.0)[0] == np.inf


def test_negative_costs_count_as_none_on_the_logarithmic_scale() -> None:
    assert to_scale("log", np.array([-3.0]), 20.0)[0] == 0.0
    assert scale_slope("log", -3.0, 20.0) == scale_slope("log", 0.0, 20.0)


@pytest.mark.parametrize("mixture", [1, 3, 9])
def test_a_mixture_has_as_many_processes_as_it_says_and_weights_that_add_up(mixture: int) -> None:
    components = prior(mixture=mixture).components
    assert len(set(components)) == mixture
    assert sum(weight for _, _, weight in components) == pytest.approx(1.0)
    lengths, sds, weights = (np.array(column) for column in zip(*components, strict=True))
    assert (1.0, 1.0) in zip(lengths, sds, strict=True)
    # Rough maps weigh more than smooth ones, and wide ones more than narrow ones.
    assert weights @ np.log(lengths) <= 0 <= weights @ np.log(sds)


def test_one_lengthscale_stands_for_all_axes() -> None:
    assert prior(lengthscales=(0.3,)).lengths(3) == (0.3, 0.3, 0.3)
    assert prior(lengthscales=(0.3, 0.4)).lengths(2) == (0.3, 0.4)
    with pytest.raises(ConfigError, match="Got 2 length-scales for 3 axes; give one, or one per axis"):
        prior(lengthscales=(0.3, 0.4)).lengths(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "cubic"}, "Unknown kernel 'cubic'; choose one of rbf, matern32, matern52"),
        ({"mean": "zero"}, "Unknown prior mean 'zero'; choose one of target, limit, larger"),
        ({"scale": "square"}, "Unknown scale 'square'; choose linear or log"),
        ({"mixture": 2}, "Got a mixture of 2; choose 1, 3 or 9"),
        ({"lengthscales": ()}, "Length-scales must be positive numbers; got \\(\\)"),
        ({"lengthscales": (0.1, 0.0)}, "Length-scales must be positive numbers; got \\(0.1, 0.0\\)"),
        ({"lengthscales": (float("nan"),)}, "Length-scales must be positive"),
        ({"sd": 0.0}, "standard deviation must be positive; got 0.0"),
        ({"sd": float("inf")}, "standard deviation must be positive; got inf"),
    ],
    ids=str,
)
def test_impossible_priors_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prior(**change)


@pytest.mark.parametrize("change", [{"mean": "limit"}, {"scale": "log"}, {"mixture": 3}], ids=str)
def test_the_reward_is_one_process_around_its_target(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="one process on the linear scale around its target"):
        Priors(reward=prior(**{"mean": "target", **change}))


@pytest.mark.parametrize("velocity", [False, True])
def test_the_papers_priors_run_under_the_papers_schedule(velocity: bool) -> None:
    axes = [np.linspace(0, 500, 11), np.linspace(0, 60, 9)]
    priors = paper_priors((500.0, 60.0), velocity=velocity)
    assert priors.cost.lengths(2) == pytest.approx(((100 if velocity else 50) / 500, 5 / 60))
    problem = Problem.on_grid(axes, seeds=[Returns(250, 0)], limits=20.0, priors=priors)
    optimizer = SafeOptimizer(problem, Schedule(risk="paper"))
    for _ in range(3):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, [Returns(200.0, 1.0)] * 20)
    assert optimizer.best is not None
    assert optimizer.best.index == problem.seeds[0]
