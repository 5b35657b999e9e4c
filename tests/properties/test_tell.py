"""What is asked twice is the same, and what cannot be told changes nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import TrialError
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from properties.runs import advance, system, visible

seeds, prefixes = st.integers(0, 1000), st.integers(0, 6)
promises = st.sampled_from([{}, {"stop_at": 40.0, "promise": "total"}])


def started(seed: int, prefix: int, promised: dict[str, Any]) -> SafeOptimizer:
    plant = system(seed, largest=400.0, **promised)
    optimizer = SafeOptimizer(plant.problem)
    advance(optimizer, plant, np.random.default_rng(seed), prefix)
    return optimizer


@settings(max_examples=10)
@given(seed=seeds, prefix=prefixes, promised=promises, again=st.integers(1, 4))
def test_asking_again_gives_the_same_trial_and_charges_nothing(
    seed: int, prefix: int, promised: dict[str, Any], again: int
) -> None:
    optimizer = started(seed, prefix, promised)
    trial = optimizer.ask()
    before = visible(optimizer)
    for _ in range(again):
        assert optimizer.ask() == trial
    assert visible(optimizer) == before


wrong = st.one_of(
    st.just([]), st.just("abc"), st.just(None), st.just([None]), st.just([(1.0, 2.0)]), st.just({"reward": 1.0}),
    st.just([Returns(1.0, (1.0, 1.0))]), st.just([Returns(1.0, 1.0), Returns(1.0, (1.0, 1.0))]),
    st.just([Returns(1.0, 1.0)] * 99), st.just([Returns(1.0, -1e-9)]), st.just([Returns(1.0, 401.0)]),
    st.just([Returns(1e101, 1.0)]), st.just([Returns(1.0, 1.0), Returns(-1e150, 1.0)]), st.just(np.ones((3, 2))),
)  # fmt: skip


@settings(max_examples=20)
@given(seed=seeds, prefix=prefixes, promised=promises, episodes=wrong)
def test_what_does_not_fit_is_refused_and_nothing_is_recorded(
    seed: int, prefix: int, promised: dict[str, Any], episodes: Any
) -> None:
    optimizer = started(seed, prefix, promised)
    trial = optimizer.ask()
    before, count = visible(optimizer), optimizer._count
    if trial is not None:
        with pytest.raises(TrialError):
            optimizer.tell(trial, episodes)
    if optimizer.best is not None:
        operation = Operation(optimizer)
        operation.begin()
        before, count = visible(optimizer), optimizer._count
        if not (isinstance(episodes, list) and len(episodes) == 99):  # operation takes any number
            with pytest.raises(TrialError):
                operation.tell(episodes)
    assert (visible(optimizer), optimizer._count) == (before, count)
