import pytest

from lifesafe._config import read_toml
from lifesafe.lab.collection.config import CollectionConfig
from lifesafe.lab.collection.presets import _FILE, preset
from lifesafe.systems import tasks


def test_every_preset_belongs_to_a_task_and_can_be_read() -> None:
    names = {task.name for task in tasks()}
    for name in read_toml(_FILE):
        assert name in names
        assert preset(name) != CollectionConfig()


@pytest.mark.parametrize(
    "name", ["HopperVelocity", "HalfCheetahVelocity", "Walker2dVelocity", "CarCircle", "DroneCircle"]
)
def test_limits_are_swept_over_what_the_published_tables_look_at(name: str) -> None:
    assert preset(name).tightest <= 10
    assert preset(name).loosest > 80


def test_an_unknown_task_gets_the_defaults() -> None:
    assert preset("Mine") == CollectionConfig()
