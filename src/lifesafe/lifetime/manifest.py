"""run.toml: what a run was begun with, written once; going on with anything else is refused."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lifesafe._config import read_toml, toml_text
from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError

NAME = "run.toml"
_NEEDED = {"run": ("task", "limits", "seed", "delta", "start"), "data": ("fingerprint",), "policy": ("kind", "config")}
_LATER = {"run": {"dither": 0.0}}  # what runs had that were begun before these could be set
_FREE = {"versions", "data.file"}  # may differ when a run goes on: another machine, a file moved
_UNTOLD = {"run.horizon", "run.largest_costs"}  # by runs that were begun before these were written down


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """Return what the run in a directory was begun with; none if there is no run.

    Raises:
        ConfigError: If the file is damaged.
    """
    path = directory / NAME
    if not path.exists():
        return None
    recorded = read_toml(path)
    for part, defaults in _LATER.items():
        if isinstance(recorded.get(part), Mapping):
            recorded[part] = defaults | recorded[part]
    return recorded


def check_whole(recorded: Mapping[str, Any], directory: Path) -> None:
    """Refuse a manifest that does not say what a run was begun with.

    Raises:
        ConfigError: If so, naming what is missing.
    """
    missing = [
        f"{part}.{key}" for part, keys in _NEEDED.items() for key in keys if key not in (recorded.get(part) or {})
    ]
    if missing:
        raise ConfigError(
            f"{directory / NAME} lacks {', '.join(missing)}: it does not say what the run was begun with. Restore it"
            " from a copy, or begin in another directory."
        )


def begin(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Write down what a run is begun with, or check that the one in the directory was begun with the same.

    Raises:
        ConfigError: If it was not, naming what differs.
        OSError: If it cannot be written.
    """
    recorded = read_manifest(directory)
    if recorded is None:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomic(directory / NAME, toml_text({**manifest, "versions": versions()}))
        return
    differing = list(differences(recorded, manifest))
    if differing:
        raise ConfigError(
            f"{directory} holds a run that was begun otherwise: {'; '.join(differing[:3])}"
            f"{' ...' if len(differing) > 3 else ''}. Give another directory, or the settings of that run."
        )


def differences(recorded: Mapping[str, Any], given: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return where two manifests differ, in words; what was not given does not count."""
    found: list[str] = []
    for key, value in given.items():
        name = f"{prefix}{key}"
        if name in _FREE or (name in _UNTOLD and key not in recorded):
            continue
        there = recorded.get(key)
        if isinstance(value, Mapping):
            found += differences(there if isinstance(there, Mapping) else {}, value, f"{name}.")
        elif _plain(there) != _plain(value):
            found.append(f"{name} is {there!r} there, {value!r} here")
    return found


def versions() -> dict[str, str]:
    """Return the versions of what decides results."""
    packages = ("lifesafe", "torch", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _plain(value: Any) -> Any:
    return "none" if value is None else value  # TOML has no null
