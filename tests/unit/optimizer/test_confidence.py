"""Allowances, risks and bands."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from lifesafe.errors import GuaranteeWarning
from lifesafe.optimizer import Observation, Prior, Priors, Problem, Schedule
from lifesafe.optimizer.confidence import allowance, combined, confidence, modeled_limits, raw_bands
from lifesafe.optimizer.posterior import Posterior

GRID = np.stack(np.meshgrid(np.linspace(0, 500, 6), np.linspace(0, 60, 4), indexing="ij"), axis=-1).reshape(-1, 2)


def problem(**changes: Any) -> Problem:
    return Problem(**{"candidates": GRID, "seeds": (8,), "limits": (20.0,), "delta": 0.1, **changes})


def schedule(**changes: Any) -> Schedule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        return Schedule(**changes)


def test_the_ledger_offers_its_share_of_what_is_left() -> None:
    assert allowance(schedule(share=0.3), problem(), spent=0.04, trial=5) == pytest.approx(0.3 * 0.06)
    assert allowance(schedule(share=0.3), problem(), spent=0.1, trial=5) == 0


def test_without_a_share_the_ledger_divides_by_the_trials_left() -> None:
    even = schedule(share=None, trials=10)
    assert allowance(even, problem(), spent=0.0, trial=1) == pytest.approx(0.01)
    assert allowance(even, problem(), spent=0.04, trial=8) == pytest.approx(0.02)
    assert allowance(even, problem(), spent=0.04, trial=10) == pytest.approx(0.06)


def test_the_paper_offers_less_from_trial_to_trial() -> None:
    offered = [allowance(schedule(risk="paper"), problem(), 0.0, trial) for trial in (1, 2, 9)]
    alpha = math.sqrt(2 * math.log(24 * math.pi**2 / (6 * 0.1)))
    assert offered[0] == pytest.approx(norm.sf(alpha))
    assert offered[0] > offered[1] > offered[2] > 0


def test_the_fixed_schedule_offers_always_the_same() -> None:
    fixed = schedule(risk="fixed", multiplier=2.5)
    assert allowance(fixed, problem(), 0.0, 1) == allowance(fixed, problem(), 0.09, 7) == pytest.approx(norm.sf(2.5))


def test_risks_add_up_under_the_ledger_and_only_there() -> None:
    tails = np.array([[0.1, 0.7], [0.2, 0.6]])
    np.testing.assert_allclose(combined(schedule(), tails), [0.3, 1.0])
    np.testing.assert_allclose(combined(schedule(risk="paper"), tails), [0.2, 0.7])
    np.testing.assert_allclose(combined(schedule(), tails[:1]), tails[0])


def test_limits_are_one_on_the_modeled_scale_until_they_change() -> None:
    assert modeled_limits(problem()).tolist() == [1.0]
    linear = Priors(cost=Prior(mean="limit", kernel="rbf", lengthscales=(0.5,), sd=3.0))
    assert modeled_limits(problem(priors=linear).with_limits(30.0)).tolist() == [1.5]
    assert modeled_limits(problem().with_limits(30.0))[0] > 1


def test_a_target_is_safe_exactly_if_its_upper_band_keeps_the_limit() -> None:
    made, plan = problem(), schedule()
    posterior = Posterior(made)
    posterior.observe(Observation(8, np.tile([200.0, 1.0], (60, 1))))
    known = confidence(plan, made, posterior, allowance(plan, made, 0.0, 1))
    bands = raw_bands(made, known)
    np.testing.assert_array_equal(known.risk <= known.allowance, bands.upper[1] <= 20.0)
    assert (known.risk <= known.allowance).any()
    assert (known.risk > known.allowance).any()


def test_bands_are_in_raw_units_reward_first() -> None:
    made, plan = problem(), schedule()
    bands = raw_bands(made, confidence(plan, made, Posterior(made), 0.02))
    assert bands.lower.shape == bands.upper.shape == (2, 24)
    np.testing.assert_allclose((bands.lower + bands.upper)[0] / 2, GRID[:, 0], atol=1e-9)
    assert (bands.lower < bands.upper).all()
    assert ((bands.lower[1] < 20.0) & (bands.upper[1] > 20.0)).all()


def test_no_allowance_at_all_gives_wide_bands_not_an_error() -> None:
    made, plan = problem(), schedule()
    known = confidence(plan, made, Posterior(made), 0.0)
    assert np.isfinite(known.multiplier)
    assert not (known.risk <= known.allowance).any()
