from typing import Any

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.collection import CollectionConfig


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
    ],
)
def test_impossible_settings_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        CollectionConfig(**{name: value})
