"""Methods that others proposed, behind the same protocols as the policies: each its own file, after its paper."""

from lifesafe.baselines.bc import BCConfig
from lifesafe.baselines.bcq_lag import BCQLagConfig
from lifesafe.baselines.bear_lag import BEARLagConfig
from lifesafe.baselines.ccac import CCACConfig
from lifesafe.baselines.coptidice import COptiDICEConfig
from lifesafe.baselines.cpq import CPQConfig

__all__ = ["BCConfig", "BCQLagConfig", "BEARLagConfig", "CCACConfig", "COptiDICEConfig", "CPQConfig"]
