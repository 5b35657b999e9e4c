"""Data made in simulation: a learner swept over cost limits, its whole training logged."""

from lifesafe.lab.collection.collect import Progress, collect
from lifesafe.lab.collection.config import CollectionConfig
from lifesafe.lab.collection.presets import preset

__all__ = ["CollectionConfig", "Progress", "collect", "preset"]
