"""A whole life: train a policy from logs, find the best safe target, operate it under a watch."""

from lifesafe.life.life import Lifetime, Phase, ServedEpisode
from lifesafe.life.plan import Plan, Search, Start

__all__ = ["Lifetime", "Phase", "Plan", "Search", "ServedEpisode", "Start"]
