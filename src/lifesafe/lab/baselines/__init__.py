"""Methods that others proposed, behind the same protocols as the policies: each its own file, after its paper."""

import lifesafe.policies._torch  # noqa: F401  # first: it names the extra where PyTorch is missing
from lifesafe.lab.baselines.bc import BCConfig
from lifesafe.lab.baselines.bcq_lag import BCQLagConfig
from lifesafe.lab.baselines.bear_lag import BEARLagConfig
from lifesafe.lab.baselines.ccac import CCACConfig
from lifesafe.lab.baselines.coptidice import COptiDICEConfig
from lifesafe.lab.baselines.cpq import CPQConfig
from lifesafe.lab.baselines.rvs import RvSConfig

__all__ = ["BCConfig", "BCQLagConfig", "BEARLagConfig", "CCACConfig", "COptiDICEConfig", "CPQConfig", "RvSConfig"]
