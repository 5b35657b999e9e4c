"""The proof-carrying part: which target to try next, so that none exceeds its limits."""

from lifesafe.optimizer.confidence import Bands
from lifesafe.optimizer.optimizer import SafeOptimizer
from lifesafe.optimizer.posterior import Observation
from lifesafe.optimizer.priors import Prior, Priors, paper_priors, residual_priors
from lifesafe.optimizer.problem import Problem
from lifesafe.optimizer.recommendation import Recommendation
from lifesafe.optimizer.schedule import Schedule, Stage
from lifesafe.optimizer.simulated import Simulated
from lifesafe.optimizer.state import Result, Trial

__all__ = [
    "Bands",
    "Observation",
    "Prior",
    "Priors",
    "Problem",
    "Recommendation",
    "Result",
    "SafeOptimizer",
    "Schedule",
    "Simulated",
    "Stage",
    "Trial",
    "paper_priors",
    "residual_priors",
]
