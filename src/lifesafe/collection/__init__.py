"""Data made in simulation: a learner swept over cost limits, its whole training logged."""

from lifesafe.collection.collect import Progress, collect
from lifesafe.collection.config import CollectionConfig
from lifesafe.collection.presets import preset

__all__ = ["CollectionConfig", "Progress", "collect", "preset"]
