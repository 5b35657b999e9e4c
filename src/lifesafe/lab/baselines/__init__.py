"""Methods that others proposed, behind the same protocols as the policies: each its own file, after its paper."""

import lifesafe.policies._torch  # noqa: F401  # first: it names the extra where PyTorch is missing
from lifesafe.lab.baselines.bc import BC, BCConfig
from lifesafe.lab.baselines.bcq_lag import BCQLag, BCQLagConfig
from lifesafe.lab.baselines.bear_lag import BEARLag, BEARLagConfig
from lifesafe.lab.baselines.ccac import CCAC, CCACConfig
from lifesafe.lab.baselines.coptidice import COptiDICE, COptiDICEConfig
from lifesafe.lab.baselines.cpq import CPQ, CPQConfig
from lifesafe.lab.baselines.rvs import RvS, RvSConfig
from lifesafe.policies import register

# The names are part of the format of saved policies: classes may move, names stay.
register("BC", BC, BCConfig)
register("BCQLag", BCQLag, BCQLagConfig)
register("BEARLag", BEARLag, BEARLagConfig)
register("CPQ", CPQ, CPQConfig)
register("COptiDICE", COptiDICE, COptiDICEConfig)
register("CCAC", CCAC, CCACConfig)
register("RvS", RvS, RvSConfig)

__all__ = ["BCConfig", "BCQLagConfig", "BEARLagConfig", "CCACConfig", "COptiDICEConfig", "CPQConfig", "RvSConfig"]
