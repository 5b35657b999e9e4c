"""Problems so small that every part of Theorem 1 is a finite sum, to check it by computer."""

from lifesafe.theory.laboratory.behavior import LoggedEpisodes, log_episodes, return_law
from lifesafe.theory.laboratory.cases import CASES, Case, make_case
from lifesafe.theory.laboratory.contexts import ContextGraph, context_graph
from lifesafe.theory.laboratory.covariance import Limit, limit
from lifesafe.theory.laboratory.experiment import Settings, Study, study, target_biases
from lifesafe.theory.laboratory.mdp import LatticeMDP
from lifesafe.theory.laboratory.rcsl import SoftmaxClass, blind, paced, tabular

__all__ = [
    "CASES",
    "Case",
    "ContextGraph",
    "LatticeMDP",
    "Limit",
    "LoggedEpisodes",
    "Settings",
    "SoftmaxClass",
    "Study",
    "blind",
    "context_graph",
    "limit",
    "log_episodes",
    "make_case",
    "paced",
    "return_law",
    "study",
    "tabular",
    "target_biases",
]
