"""Replaying a record gives the live search again, decision for decision, and so does opening it from disk."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import JournalError
from lifesafe.journal import JOURNAL, Record, read_records
from lifesafe.journal.events import Asked, Snapshot
from lifesafe.safety import SafeOptimizer
from lifesafe.safety.beliefs import believed
from properties.runs import ACTIONS, System, act, advance, system, visible

actions = st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=16)
systems = st.builds(
    lambda seed, costs, promised: system(seed, costs=costs, **promised),
    seed=st.integers(0, 10_000),
    costs=st.sampled_from([1, 1, 2]),
    promised=st.sampled_from([
        {}, {"stop_at": 40.0}, {"promise": "total", "stop_at": 40.0, "episodes": 300},
        {"promise": "total", "stop_at": 11.0},
    ]),
)  # fmt: skip


@settings(max_examples=12)
@given(plant=systems, actions=actions, seed=st.integers(0, 1000))
def test_replay_and_disk_give_the_live_search_after_any_events(plant: System, actions: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as place:
        with SafeOptimizer.open(place, plant.problem) as live:
            for action in actions:
                act(live, plant, rng, action)
            act(live, plant, rng, "ask")
            seen = visible(live)
        records = read_records(Path(place) / JOURNAL)
        assert visible(SafeOptimizer.replay(records)) == seen
        assert believed(records).admitted == live.beliefs.admitted
        with SafeOptimizer.open(place) as again:  # reads no episode that a snapshot sums up
            assert visible(again) == seen


@settings(max_examples=5)
@given(plant=systems, actions=actions, seed=st.integers(0, 1000), reopen=st.sets(st.integers(0, 15)))
def test_a_search_that_is_closed_and_opened_again_goes_on_as_if_it_never_was(
    plant: System, actions: list[str], seed: int, reopen: set[int]
) -> None:
    whole, rng, same = SafeOptimizer(plant.problem), np.random.default_rng(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as place:
        cut = SafeOptimizer.open(place, plant.problem)
        for i, action in enumerate(actions):
            act(whole, plant, rng, action)
            act(cut, plant, same, action)
            if i in reopen:
                cut.close()
                cut = SafeOptimizer.open(place)
        assert visible(cut) == visible(whole)
        cut.close()


@settings(max_examples=10)
@given(plant=systems, actions=actions, seed=st.integers(0, 1000))
def test_asking_again_gives_the_same_trial_and_charges_nothing(plant: System, actions: list[str], seed: int) -> None:
    optimizer, rng = SafeOptimizer(plant.problem), np.random.default_rng(seed)
    for action in (*actions, "ask"):
        act(optimizer, plant, rng, action)
    before = visible(optimizer)
    act(optimizer, plant, rng, "ask")
    assert visible(optimizer) == before


def test_a_decision_that_does_not_follow_is_found() -> None:
    plant = system(3)
    with tempfile.TemporaryDirectory() as place:
        with SafeOptimizer.open(place, plant.problem) as optimizer:
            advance(optimizer, plant, np.random.default_rng(0), 6)
        records = read_records(Path(place) / JOURNAL)
    paying = next(i for i, record in enumerate(records) if isinstance(record.event, Asked) and record.event.paid)
    for changes in ({"charge": 0.0}, {"paid": ()}, {"tickets": (0,)}):
        forged = Record(records[paying].number, _changed(records[paying].event, changes), "", "")
        with pytest.raises(JournalError, match="does not follow from what was recorded before"):
            SafeOptimizer.replay([*records[:paying], forged, *records[paying + 1 :]])


@pytest.mark.parametrize("promised", [{}, {"promise": "total", "stop_at": 40.0}], ids=["trial", "total"])
def test_a_snapshot_that_sums_up_something_else_is_found(promised: dict[str, Any]) -> None:
    plant, rng = system(3, **promised), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        with SafeOptimizer.open(place, plant.problem) as optimizer:
            advance(optimizer, plant, rng, 6)
            act(optimizer, plant, rng, "operate long")
        records = read_records(Path(place) / JOURNAL)
    last = records[-1].event
    assert isinstance(last, Snapshot)
    SafeOptimizer.replay(records)
    changes = [{"services": (_changed(last.services[0], {"above": last.services[0].above + 1}),)}]
    changes += [{"account": (last.account[0] + 1.0,)}] if promised else []
    for each in changes:
        forged = Record(records[-1].number, _changed(last, each), "", "")
        with pytest.raises(JournalError, match="does not sum up what was recorded before"):
            SafeOptimizer.replay([*records[:-1], forged])


def _changed(struct: Any, changes: dict[str, Any]) -> Any:
    return msgspec.structs.replace(struct, **changes)
