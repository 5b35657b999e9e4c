"""All methods by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lifesafe._config import nearest
from lifesafe.errors import ConfigError
from lifesafe.lab.baselines.bc import BCConfig
from lifesafe.lab.baselines.bcq_lag import BCQLagConfig
from lifesafe.lab.baselines.bear_lag import BEARLagConfig
from lifesafe.lab.baselines.ccac import CCACConfig
from lifesafe.lab.baselines.coptidice import COptiDICEConfig
from lifesafe.lab.baselines.cpq import CPQConfig
from lifesafe.lab.baselines.rvs import RvSConfig
from lifesafe.policies import CDTConfig, LearnerConfig

Limits = tuple[float, ...]

_FOR_ALL_LIMITS: dict[str, Callable[[str | None], LearnerConfig]] = {
    "cdt": lambda task: CDTConfig(),
    "cdt-osrl": CDTConfig.osrl,
    "dt-cost": lambda task: CDTConfig.dt_cost(),
    "rvs": lambda task: RvSConfig(),
    "ccac": lambda task: CCACConfig(),
    "ccac-osrl": lambda task: CCACConfig.osrl(),
    "bc-all": lambda task: BCConfig(episodes="all"),
    "bc-frontier": lambda task: BCConfig(episodes="frontier"),
}
_FOR_ONE_LIMIT: dict[str, Callable[[Limits], LearnerConfig]] = {
    "bc-safe": lambda limits: BCConfig(episodes="safe", limits=limits),
    "bcq-lag": lambda limits: BCQLagConfig(limits=limits),
    "bcq-lag-osrl": lambda limits: BCQLagConfig.osrl(limits=limits),
    "bear-lag": lambda limits: BEARLagConfig(limits=limits),
    "bear-lag-osrl": lambda limits: BEARLagConfig.osrl(limits=limits),
    "cpq": lambda limits: CPQConfig(limits=limits),
    "cpq-osrl": lambda limits: CPQConfig.osrl(limits=limits),
    "coptidice": lambda limits: COptiDICEConfig(limits=limits),
    "coptidice-osrl": lambda limits: COptiDICEConfig.osrl(limits=limits),
}
METHODS = (*_FOR_ALL_LIMITS, *_FOR_ONE_LIMIT)


def method_config(name: str, *, limits: Sequence[float], task: str | None = None) -> LearnerConfig:
    """Return the default settings of a method.

    Args:
        name: One of `METHODS`; those that end in "-osrl" compute what the incumbents' code does.
        limits: What an episode may cost, for methods that are trained for one limit.
        task: For settings that OSRL has for each task.

    Raises:
        ConfigError: If there is no such method.
    """
    if name in _FOR_ALL_LIMITS:
        return _FOR_ALL_LIMITS[name](task)
    if name in _FOR_ONE_LIMIT:
        return _FOR_ONE_LIMIT[name](tuple(float(limit) for limit in limits))
    raise ConfigError(f"There is no method {name!r}.{nearest(name, METHODS)} They are: {', '.join(METHODS)}.")


def needs_limit(name: str) -> bool:
    """Return whether a method is trained for one limit, rather than for all at once."""
    return name in _FOR_ONE_LIMIT
