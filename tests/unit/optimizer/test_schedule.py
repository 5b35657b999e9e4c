"""Schedules: what they refuse and what they warn of."""

import math
from typing import Any

import pytest

from lifesafe.errors import ConfigError, GuaranteeWarning
from lifesafe.optimizer import Schedule, Stage


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"risk": "Ledger"}, "Unknown risk 'Ledger'; choose one of ledger, paper, fixed"),
        ({"certification": "none"}, "Unknown certification 'none'; choose one of score, betting, asserted"),
        ({"on_violation": "halt"}, "Unknown on_violation 'halt'; choose one of continue, hold, stop"),
        ({"trials": 0}, "trials must be at least 1; got 0"),
        ({"seed_trials": 0}, "seed_trials must be at least 1; got 0"),
        ({"episodes": -1}, "episodes must be at least 1; got -1"),
        ({"surprises": 0}, "surprises must be at least 1; got 0"),
        ({"exploration": -1}, "exploration must not be negative; got -1"),
        ({"share": 0.0}, "share must lie between 0 and 1, or be none; got 0.0"),
        ({"share": 1.0}, "share must lie between 0 and 1, or be none; got 1.0"),
        ({"share": math.nan}, "share must lie between 0 and 1, or be none; got nan"),
        ({"reach": 0.0}, "reach must be positive; got 0.0"),
        ({"reach": math.nan}, "reach must be positive; got nan"),
        ({"multiplier": -1.0}, "multiplier must be positive; got -1.0"),
        ({"tolerance": -0.1}, "tolerance must not be negative; got -0.1"),
        ({"accuracy": math.nan}, "accuracy must not be negative; got nan"),
    ],
    ids=str,
)
def test_impossible_schedules_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Schedule(**change)


def test_the_fixed_schedule_warns_that_it_guarantees_nothing() -> None:
    with pytest.warns(GuaranteeWarning, match="3 standard deviations whatever delta is.*Use the ledger"):
        Schedule(risk="fixed", multiplier=3.0)


def test_stages_are_words() -> None:
    assert [stage.value for stage in Stage] == ["seed", "explore", "maximize", "done"]


def test_a_seed_may_be_given_more_episodes_than_other_trials() -> None:
    schedule = Schedule(episodes=20, seed_episodes=60)
    assert [schedule.episodes_of(stage) for stage in (Stage.SEED, Stage.EXPLORE, Stage.MAXIMIZE)] == [60, 20, 20]
    assert Schedule(episodes=20).episodes_of(Stage.SEED) == 20
    with pytest.raises(ConfigError, match="seed_episodes must be at least 1; got 0"):
        Schedule(seed_episodes=0)
