"""Kinds of saved policies: where to find the classes behind a name in a file, without loading them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from lifesafe.errors import ConfigError


@dataclass(frozen=True)
class Kind:
    """Where the classes of a kind of policy stand."""

    module: str
    policy: str
    config: str

    def classes(self) -> tuple[Any, Any]:
        """Return the class of the policies and that of their settings."""
        module = importlib.import_module(self.module)
        return getattr(module, self.policy), getattr(module, self.config)


# The names are part of the format of saved policies: classes may move, names stay.
KINDS: dict[str, Kind] = {"CDT": Kind("lifesafe.policies.cdt.learner", "CDT", "CDTConfig")}


def register_kind(name: str, kind: Kind) -> None:
    """Let policies be loaded and saved under a name.

    Raises:
        ConfigError: If the name stands for another class already.
    """
    if KINDS.setdefault(name, kind) != kind:
        raise ConfigError(f"{name!r} already stands for {KINDS[name].policy}; register under another name.")
