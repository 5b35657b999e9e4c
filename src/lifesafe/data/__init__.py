"""Logged data: episodes in memory, and the files they come from."""

from lifesafe.data.dataset import Dataset
from lifesafe.data.episode import Episode

__all__ = ["Dataset", "Episode"]
