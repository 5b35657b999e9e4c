"""The Constrained Decision Transformer: config and learner, network, actor, batches."""

from lifesafe.policies.cdt.learner import CDT, CDTConfig

__all__ = ["CDT", "CDTConfig"]
