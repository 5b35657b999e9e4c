"""Replaying the recorded events gives the live optimizer, bit for bit."""

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifesafe.errors import GuaranteeWarning, JournalError
from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import Event, read_events
from properties.runs import Plant, lively, quick, snapshot

actions = st.lists(st.sampled_from(["ask", "ask 3", "tell", "tell", "tell", "limits"]), max_size=14)


def act(optimizer: SafeOptimizer, system: Plant, rng: np.random.Generator, action: str) -> None:
    """Do one thing that a user may do, if it can be done now."""
    if action == "ask":
        optimizer.ask()
    elif action == "ask 3":
        optimizer.ask_many(3)
    elif action == "tell":
        trial = optimizer.ask()
        if trial is not None:
            optimizer.tell(trial, system.episodes(trial.index, int(rng.integers(1, 40)), rng))
    elif not optimizer.open_trials:
        limit = float(rng.uniform(15, 40))
        optimizer.change_limits([limit] * len(system.problem.limits), seeds=system.problem.seeds)
    if optimizer.frozen:
        optimizer.confirm()


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), actions=actions, costs=st.sampled_from([1, 2]))
def test_replaying_the_journal_gives_the_live_optimizer_bit_for_bit(seed: int, actions: list[str], costs: int) -> None:
    rng = np.random.default_rng(seed)
    system = lively(rng, size=(0, 7, 5)[costs], costs=costs, mixture=(1, 3)[seed % 2])
    if seed % 3 == 0:  # a cliff that the model knows nothing of, so that trials go wrong
        system.means[system.means[:, 0] > 200, 1] += 80.0
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        with SafeOptimizer.open(place, system.problem, quick(surprises=1, trials=40)) as live:
            for action in actions:
                act(live, system, rng, action)
            seen = snapshot(live)
            upcoming = live.ask()
            now = snapshot(live)
        events = read_events(Path(place) / "journal.sqlite")
        without_last = events[:-1] if len(now[4]) > len(seen[4]) else events
        assert snapshot(SafeOptimizer.replay(events)) == now
        twin = SafeOptimizer.replay(without_last)
        assert snapshot(twin) == seen
        assert twin.ask() == upcoming
        with SafeOptimizer.open(place) as again:
            assert snapshot(again) == now


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), field=st.sampled_from(["index", "stage", "risk", "upper", "lower", "trial"]))
def test_a_recorded_decision_that_is_not_ours_is_refused(seed: int, field: str) -> None:
    rng = np.random.default_rng(seed)
    system = lively(rng, size=6)
    with tempfile.TemporaryDirectory() as place:
        with SafeOptimizer.open(place, system.problem, quick()) as live:
            for _ in range(3):
                act(live, system, rng, "tell")
        events = list(read_events(Path(place) / "journal.sqlite"))
    number = [e.number for e in events if e.kind == "asked"][-1]
    body = json.loads(json.dumps(events[number - 1].body))
    change = {"index": 0, "stage": "done", "risk": 0.123, "upper": [1.0, 2.0], "lower": [0.0, 0.0], "trial": 9}
    body[field] = change[field] if body[field] != change[field] else 1
    events[number - 1] = Event(number, "asked", body, "", "")
    with pytest.raises(JournalError, match=f"event {number} records trial"):
        SafeOptimizer.replay(events)


def test_events_that_are_no_record_of_an_optimizer_are_refused() -> None:
    with pytest.raises(JournalError, match="does not begin with an opened run"):
        SafeOptimizer.replay([])
    system = lively(np.random.default_rng(0), size=5)
    with tempfile.TemporaryDirectory() as place:
        SafeOptimizer.open(place, system.problem, quick()).close()
        (opened,) = read_events(Path(place) / "journal.sqlite")
    with pytest.raises(JournalError, match="unknown kind 'sung'"):
        SafeOptimizer.replay([opened, Event(2, "sung", {}, "", "")])
