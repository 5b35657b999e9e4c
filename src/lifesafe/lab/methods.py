"""The list of methods: what each is called, where it stands, and how it is drawn.

A new method is its own file and a row here. Nothing is loaded before it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lifesafe._config import nearest
from lifesafe._kinds import Kind, register_kind
from lifesafe.errors import ConfigError

if TYPE_CHECKING:
    from lifesafe.policies import LearnerConfig

PLS = "pls"
"""The method of this package: a safe search with the policy of "cdt"; no training of its own, so no row."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way of training a policy."""

    title: str
    """Its name in tables and figures."""
    module: str
    """Where its classes stand."""
    policy: str
    """Class of its policies, and their name in files; the class of its settings has "Config" behind that."""
    preset: str = ""
    """Function of that class that makes the settings, where the class itself does not."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from those."""
    one_limit: bool = False
    """Whether it is trained for one limit, rather than for all at once."""
    by_task: bool = False
    """Whether the settings depend on the task."""
    asked: Literal["returns", "cost", "nothing"] = "nothing"
    """What its policies can be asked for: reward and costs, costs alone, or nothing."""
    mark: tuple[str, str] = ("#999999", ".")
    """Color and marker in figures."""

    @property
    def config(self) -> str:
        """Class of its settings."""
        return f"{self.policy}Config"


_LAB = "lifesafe.lab.baselines"
_CDT: dict[str, Any] = {"module": "lifesafe.policies.cdt.learner", "policy": "CDT", "asked": "returns"}
_BC: dict[str, Any] = {"module": f"{_LAB}.bc", "policy": "BC"}
_CCAC: dict[str, Any] = {"module": f"{_LAB}.ccac", "policy": "CCAC", "asked": "cost"}


def _for_one_limit(name: str, title: str, module: str, policy: str, mark: tuple[str, str]) -> dict[str, Method]:
    """Return a method that is trained for one limit, as it should be and as OSRL computes it."""
    common: dict[str, Any] = {"module": f"{_LAB}.{module}", "policy": policy, "one_limit": True}
    return {
        name: Method(title=title, mark=mark, **common),
        f"{name}-osrl": Method(title=f"{title} (OSRL)", preset="osrl", **common),
    }


# In the order of columns of tables. Colors are those of Okabe and Ito, with shapes that say the same in print.
METHODS: dict[str, Method] = {
    "cdt": Method(title="CDT", mark=("#0072B2", "o"), **_CDT),
    "cdt-osrl": Method(
        title="CDT (OSRL)",
        module="lifesafe.lab.osrl",
        policy="OSRLCDT",
        preset="of_task",
        by_task=True,
        asked="returns",
    ),
    "dt-cost": Method(title="DT-Cost", preset="dt_cost", mark=("#0072B2", "."), **_CDT),
    "rvs": Method(title="RvS", module=f"{_LAB}.rvs", policy="RvS", asked="returns", mark=("#0072B2", "2")),
    "bc-all": Method(title="BC-All", mark=("#999999", "x"), **_BC),
    "bc-safe": Method(title="BC-Safe", settings={"episodes": "safe"}, one_limit=True, mark=("#666666", "+"), **_BC),
    "bc-frontier": Method(title="BC-Frontier", settings={"episodes": "frontier"}, mark=("#666666", "1"), **_BC),
    **_for_one_limit("bcq-lag", "BCQ-Lag", "bcq_lag", "BCQLag", ("#D55E00", "^")),
    **_for_one_limit("bear-lag", "BEAR-Lag", "bear_lag", "BEARLag", ("#E69F00", "v")),
    **_for_one_limit("cpq", "CPQ", "cpq", "CPQ", ("#CC79A7", "D")),
    **_for_one_limit("coptidice", "COptiDICE", "coptidice", "COptiDICE", ("#56B4E9", "P")),
    "ccac": Method(title="CCAC", mark=("#009E73", "s"), **_CCAC),
    "ccac-osrl": Method(title="CCAC (authors)", preset="osrl", **_CCAC),
}
CONDITIONED = tuple(name for name, method in METHODS.items() if method.asked == "returns")
"""Methods whose policies can be asked for returns: those that a life can search with."""

for _method in METHODS.values():
    register_kind(_method.policy, Kind(_method.module, _method.policy, _method.config))


def method_config(name: str, *, limits: Sequence[float], task: str | None = None) -> LearnerConfig:
    """Return the default settings of a method.

    Args:
        name: One of `METHODS`; those that end in "-osrl" compute what the incumbents' code does.
        limits: Largest costs of an episode, for methods that are trained for one limit.
        task: For settings that OSRL has for each task.

    Raises:
        ConfigError: If there is no such method.
    """
    if name not in METHODS:
        raise ConfigError(f"There is no method {name!r}.{nearest(name, METHODS)} They are: {', '.join(METHODS)}.")
    method = METHODS[name]
    importlib.import_module("lifesafe.policies")  # first: it names the extra where PyTorch is missing
    make = getattr(importlib.import_module(method.module), method.config)
    make = getattr(make, method.preset) if method.preset else make
    own = {"limits": tuple(map(float, limits))} if method.one_limit else {}
    config: LearnerConfig = make(**({"task": task} if method.by_task else {}), **method.settings, **own)
    return config


def can_be_asked(config: object) -> bool:
    """Return whether policies that are trained with such settings can be asked for returns."""
    return any(METHODS[name].config == type(config).__name__ for name in CONDITIONED)


def title(name: str) -> str:
    """Return the name of a method in tables and figures; its own where it is not in the list."""
    return "PLS" if name == PLS else METHODS[name].title if name in METHODS else name


def mark(name: str) -> tuple[str, str]:
    """Return color and marker of a method in figures; ours is large and filled."""
    return ("#000000", "*") if name == PLS else METHODS[name].mark if name in METHODS else Method.mark
