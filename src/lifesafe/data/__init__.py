"""Logged data: episodes in memory, and the files they come from."""

from lifesafe.data.dataset import Dataset
from lifesafe.data.dsrl import read_dsrl, read_source, write_dsrl
from lifesafe.data.episode import Episode
from lifesafe.data.minari import read_minari, write_minari
from lifesafe.data.summary import Summary

__all__ = [
    "Dataset",
    "Episode",
    "Summary",
    "read_dsrl",
    "read_minari",
    "read_source",
    "write_dsrl",
    "write_minari",
]
