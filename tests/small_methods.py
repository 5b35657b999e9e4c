"""Every way of learning, small enough for tests."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lifesafe.lab.baselines import (
    BCConfig,
    BCQLagConfig,
    BEARLagConfig,
    CCACConfig,
    COptiDICEConfig,
    CPQConfig,
    RvSConfig,
)
from lifesafe.lab.osrl import OSRLCDTConfig
from lifesafe.policies import CDTConfig

_SMALL: dict[str, Any] = {"limits": (3.0,), "steps": 40, "batch": 32, "width": 16}
_WITH_VAE: dict[str, Any] = {**_SMALL, "vae_width": 16}

METHODS = {
    "cdt": CDTConfig(steps=40, batch=8, width=16, layers=2, heads=2, context=4, segment=6, warmup=5, held_out=0.1),
    "cdt-osrl": OSRLCDTConfig(
        steps=40, batch=8, width=16, layers=2, heads=2, context=4, warmup=5, held_out=0.1, largest_reward=20.0
    ),
    "dt-cost": CDTConfig.dt_cost(steps=40, batch=8, width=16, layers=2, heads=2, context=4, segment=6, warmup=5),
    "rvs": RvSConfig(steps=40, batch=32, width=16, held_out=0.1),
    "rvs-timeless": RvSConfig(steps=40, batch=32, width=16, time=False, dropout=0.0, held_out=0.1),
    "bcq-lag": BCQLagConfig(**_WITH_VAE),
    "bcq-lag-osrl": BCQLagConfig.osrl(**_WITH_VAE),
    "bear-lag": BEARLagConfig(**_WITH_VAE),
    "bear-lag-osrl": BEARLagConfig.osrl(**_WITH_VAE),
    "cpq": CPQConfig(**_WITH_VAE),
    "cpq-osrl": CPQConfig.osrl(**_WITH_VAE),
    "coptidice": COptiDICEConfig(**_SMALL),
    "coptidice-osrl": COptiDICEConfig.osrl(**_SMALL),
    "ccac": CCACConfig(steps=40, batch=32, width=16, vae_width=16, latent=4, warmup=0.05),
    "ccac-osrl": CCACConfig.osrl(steps=40, batch=32, width=16, vae_width=16, latent=4, warmup=0.05),
    "bc": BCConfig(steps=40, batch=32, width=16, held_out=0.1),
    "bc-safe": BCConfig(episodes="safe", **_SMALL, held_out=0.1),
    "bc-frontier": BCConfig(episodes="frontier", steps=40, batch=32, width=16, held_out=0.1),
}
SUPERVISED = ("cdt", "cdt-osrl", "rvs", "rvs-timeless", "bc", "bc-safe", "bc-frontier")
"""Methods that fit a likelihood, and tell it for held-out episodes."""
CONDITIONED = ("cdt", "cdt-osrl", "dt-cost", "rvs", "rvs-timeless")
"""Methods whose policies do what they are asked for."""
ONE_COST = ("cdt-osrl", "ccac", "ccac-osrl")
"""Methods that know a single cost."""


def cases(methods: Iterable[str] = METHODS) -> list[tuple[str, int]]:
    """Return the methods with the numbers of costs that they know."""
    return [(method, costs) for method in methods for costs in (1, 2) if costs == 1 or method not in ONE_COST]


def case_name(case: tuple[str, int]) -> str:
    return f"{case[0]}, {case[1]} costs"


def for_costs(config: Any, costs: int) -> Any:
    """Return the method for data with so many costs."""
    return replace(config, limits=config.limits[:1] * costs) if getattr(config, "limits", ()) else config
