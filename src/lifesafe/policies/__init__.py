"""Learning from logs: policies that are told which returns to earn."""

import lifesafe.policies._torch  # noqa: F401  # first: it names the extra where PyTorch is missing
from lifesafe.policies.cdt.learner import CDTConfig
from lifesafe.policies.checkpoint import load, register_policy, save
from lifesafe.policies.learner import Learner, LearnerConfig, StoredPolicy
from lifesafe.policies.training import train

__all__ = ["CDTConfig", "Learner", "LearnerConfig", "StoredPolicy", "load", "register_policy", "save", "train"]
