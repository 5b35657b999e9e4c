from typing import Any

import pytest

from lifesafe._config import read_toml
from lifesafe.errors import ConfigError
from lifesafe.lab.collection import CollectionConfig, preset
from lifesafe.lab.collection.config import PRESETS
from lifesafe.systems import tasks


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("exhibits", -1),
        ("knots", 1),
        ("discount", 1.1),
        ("trace", -0.1),
        ("noise", 0.0),
        ("learning_rate", float("nan")),
        ("tightest", 0.0),
        ("loosest", 0.5),
        ("narrowed", 0.0),
        ("narrowed", 0.01),
        ("stop", 4_000_001),
    ],
)
def test_impossible_settings_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        CollectionConfig(**{name: value})


def test_every_preset_belongs_to_a_task_and_sweeps_what_the_published_tables_look_at() -> None:
    known = read_toml(PRESETS).keys()
    assert known <= {task.name for task in tasks()}
    for name in known & {"HopperVelocity", "HalfCheetahVelocity", "Walker2dVelocity", "CarCircle", "DroneCircle"}:
        assert preset(name).tightest <= 10
        assert preset(name).loosest > 80
    assert preset("Mine") == CollectionConfig()
