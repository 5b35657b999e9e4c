"""A whole life: train a policy from logs, find the best safe target, operate it under a watch."""

from lifesafe.lifetime.lifetime import Lifetime, Phase, Served
from lifesafe.lifetime.search import Search, Start

__all__ = ["Lifetime", "Phase", "Search", "Served", "Start"]
