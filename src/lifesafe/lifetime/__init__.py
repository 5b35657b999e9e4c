"""A whole life: train a policy from logs, find the best safe target, operate it under a monitor."""

from lifesafe.lifetime.lifetime import Lifetime, Phase, Served, Start
from lifesafe.lifetime.simulation import simulate
from lifesafe.lifetime.trials import DITHER, default_schedule

__all__ = ["DITHER", "Lifetime", "Phase", "Served", "Start", "default_schedule", "simulate"]
