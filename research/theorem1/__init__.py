"""Problems so small that every part of Theorem 1 is a finite sum, to check it by computer."""

from theorem1.behavior import LoggedEpisodes, log_episodes, return_law
from theorem1.cases import CASES, Case, make_case
from theorem1.contexts import ContextGraph, context_graph
from theorem1.covariance import Limit, limit
from theorem1.experiment import Settings, Study, study, target_biases
from theorem1.mdp import LatticeMDP
from theorem1.rcsl import SoftmaxClass, blind, paced, tabular

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
