"""Data made in simulation: a learner swept over cost limits, its whole training logged."""

import lifesafe.policies._torch  # noqa: F401  # first: it names the extra where PyTorch is missing
from lifesafe.lab.collection.collect import collect
from lifesafe.lab.collection.config import CollectionConfig, preset

__all__ = ["CollectionConfig", "collect", "preset"]
