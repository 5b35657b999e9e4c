"""Settings that are known to serve a task."""

from __future__ import annotations

from pathlib import Path

from lifesafe._config import from_plain, read_toml
from lifesafe.lab.collection.config import CollectionConfig

_FILE = Path(__file__).with_name("presets.toml")


def preset(task: str) -> CollectionConfig:
    """Return the settings for a task of that name; the defaults where none are known.

    Examples:
        >>> preset("CarCircle").loosest
        300.0
    """
    tables = read_toml(_FILE)
    return from_plain(CollectionConfig, tables.get(task, {}), f"{_FILE.name}: {task}")
