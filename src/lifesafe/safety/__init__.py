"""The proof-carrying part: which targets to try so that a promise on costs holds, and which one to operate."""

from lifesafe.safety.problem import Axis, Problem
from lifesafe.safety.recommendation import Recommendation
from lifesafe.safety.search import SafeOptimizer, Trial

__all__ = ["Axis", "Problem", "Recommendation", "SafeOptimizer", "Trial"]
