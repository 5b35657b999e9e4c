"""Pure functions of constants: what the guarantee says, asks for and costs; each cites its theorem."""

from lifesafe.theory.betting import (
    BettingTest,
    DriftDetector,
    alarm_test,
    detector_path,
    drift_detector,
    safety_test,
    wealth_path,
)
from lifesafe.theory.bounds import (
    GainBound,
    GreedyGain,
    greedy_information_gain,
    greedy_information_gain_on,
    information_gain,
    ledger_multiplier,
    paper_multiplier,
    residual_variances,
)
from lifesafe.theory.budget import (
    Budget,
    LedgerBudget,
    exploration_trials,
    gain_constant,
    ledger_budget,
    maximization_trials,
    trial_budget,
    trials_to_width,
)
from lifesafe.theory.kernels import Kernel, correlation, correlation_matrix

__all__ = [
    "BettingTest",
    "Budget",
    "DriftDetector",
    "GainBound",
    "GreedyGain",
    "Kernel",
    "LedgerBudget",
    "alarm_test",
    "correlation",
    "correlation_matrix",
    "detector_path",
    "drift_detector",
    "exploration_trials",
    "gain_constant",
    "greedy_information_gain",
    "greedy_information_gain_on",
    "information_gain",
    "ledger_budget",
    "ledger_multiplier",
    "maximization_trials",
    "paper_multiplier",
    "residual_variances",
    "safety_test",
    "trial_budget",
    "trials_to_width",
    "wealth_path",
]
