"""How often the promise holds: deployments simulated on known maps, with the right and with wrong models."""

from lifesafe.coverage import table
from lifesafe.coverage.deployment import Outcome, Row, deploy
from lifesafe.coverage.simulation import Summary, simulate, summarize
from lifesafe.coverage.suite import SUITES

__all__ = ["SUITES", "Outcome", "Row", "Summary", "deploy", "simulate", "summarize", "table"]
