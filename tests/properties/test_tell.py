"""What is asked twice is the same, and what cannot be told changes nothing."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import TrialError
from lifesafe.optimizer import SafeOptimizer
from lifesafe.returns import Returns
from properties.runs import advance, lively, quick, snapshot

# The priors are confident on purpose, so that something happens; now and then a trial goes wrong.
pytestmark = pytest.mark.filterwarnings("ignore::lifesafe.errors.GuaranteeWarning")

prefixes = st.integers(0, 6)
seeds = st.integers(0, 1000)


def started(seed: int, prefix: int) -> SafeOptimizer:
    rng = np.random.default_rng(seed)
    system = lively(rng, size=6)
    optimizer = SafeOptimizer(system.problem, quick())
    advance(optimizer, system, rng, prefix)
    return optimizer


@settings(max_examples=10)
@given(seed=seeds, prefix=prefixes, again=st.integers(1, 4))
def test_asking_again_gives_the_same_trial_and_charges_nothing(seed: int, prefix: int, again: int) -> None:
    optimizer = started(seed, prefix)
    trial = optimizer.ask()
    before = snapshot(optimizer)
    for _ in range(again):
        assert optimizer.ask() is trial
    assert optimizer.ask_many(1) == (trial,)
    assert snapshot(optimizer) == before


def bad_episodes() -> dict[str, Any]:
    return {
        "none at all": [],
        "too many costs": [Returns(1.0, (2.0, 3.0))],
        "not all alike": [Returns(1.0, 2.0), Returns(1.0, (2.0, 3.0))],
        "so large that squares overflow": [Returns(1.0, 1e200)],
        "so small that squares overflow": [Returns(-1e200, 1.0)],
    }


@settings(max_examples=5)
@given(seed=seeds, prefix=prefixes)
@pytest.mark.parametrize("kind", bad_episodes())
def test_episodes_that_do_not_fit_change_nothing(kind: str, seed: int, prefix: int) -> None:
    optimizer = started(seed, prefix)
    trial = optimizer.ask()
    assert trial is not None
    before = snapshot(optimizer)
    with pytest.raises(TrialError):
        optimizer.tell(trial, bad_episodes()[kind])
    assert snapshot(optimizer) == before
    optimizer.tell(trial, [Returns(100.0, 1.0)] * 3)  # and the trial is still open
    assert optimizer.trials[-1].trial == trial


@settings(max_examples=10)
@given(seed=seeds, prefix=prefixes, bad=st.sampled_from([math.nan, math.inf, -math.inf]), cost=st.booleans())
def test_returns_that_are_not_finite_change_nothing(seed: int, prefix: int, bad: float, cost: bool) -> None:
    optimizer = started(seed, prefix)
    trial = optimizer.ask()
    assert trial is not None
    before = snapshot(optimizer)
    with pytest.raises(TrialError, match="finite"):
        optimizer.tell(trial, [Returns(1.0, 1.0), Returns(1.0, bad) if cost else Returns(bad, 1.0)])
    assert snapshot(optimizer) == before


@settings(max_examples=10)
@given(seed=seeds, prefix=st.integers(1, 6))
def test_unknown_closed_and_foreign_trials_change_nothing(seed: int, prefix: int) -> None:
    optimizer, other = started(seed, prefix), started(seed + 1, prefix)
    told, trial, theirs = optimizer.trials[0].trial, optimizer.ask(), other.ask()
    assert trial is not None
    assert theirs is not None
    before = snapshot(optimizer)
    never = dataclasses.replace(trial, number=trial.number + 1)
    moved = dataclasses.replace(trial, index=trial.index + 1)
    elsewhere = dataclasses.replace(theirs, index=trial.index + 2)
    for wrong, message in ((told, "told already"), (never, "not open"), (moved, "not open"), (elsewhere, "not open")):
        with pytest.raises(TrialError, match=f"Trial {wrong.number} .*{message}"):
            optimizer.tell(wrong, [Returns(1.0, 1.0)])
        assert snapshot(optimizer) == before


def test_a_trial_of_another_problem_is_foreign() -> None:
    optimizer, other = (SafeOptimizer(lively(np.random.default_rng(0), size=n).problem, quick()) for n in (6, 7))
    trial, theirs = optimizer.ask(), other.ask()
    assert trial is not None
    assert theirs is not None
    assert trial.number == theirs.number
    with pytest.raises(TrialError, match="not open here"):
        optimizer.tell(theirs, [Returns(1.0, 1.0)])
    assert optimizer.open_trials == (trial,)


@settings(max_examples=8)
@given(seed=seeds, order=st.permutations(range(4)))
def test_parallel_trials_may_be_told_in_any_order(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    system = lively(rng, size=6)
    one, other = (SafeOptimizer(system.problem, quick(surprises=99)) for _ in range(2))
    episodes = {}
    for optimizer in (one, other):
        advance(optimizer, system, np.random.default_rng(seed), 4)
        trials = optimizer.ask_many(4)
        episodes = episodes or {t.number: system.episodes(t.index, t.episodes, rng) for t in trials}
        for i in range(4) if optimizer is one else order:
            optimizer.tell(trials[i], episodes[trials[i].number])
    assert one.open_trials == other.open_trials == ()
    # The order decides when the pooled dispersion moves; apart from that the posterior does not depend on it.
    np.testing.assert_allclose(one.bands.lower[0], other.bands.lower[0], rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(one.bands.upper[1], other.bands.upper[1], rtol=0.3)
    assert one.spent == other.spent
