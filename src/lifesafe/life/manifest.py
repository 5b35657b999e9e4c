"""run.toml: what a run was begun with, written once; going on with anything else is refused.

TOML has no null: what is None is left out, and what is missing is the default.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lifesafe._config import read_toml, toml_text
from lifesafe._files import write_atomic
from lifesafe.errors import ConfigError

NAME = "run.toml"
_NEEDED = {
    "run": ("task", "limits", "horizon", "largest_costs", "level", "seed"),
    "search": ("delta", "promise", "episodes", "start"),
    "data": ("fingerprint",),
    "policy": ("kind", "config"),
}
_FREE = {"versions", "data.file"}  # may differ when a run goes on: another machine, a file moved


def read_run_toml(directory: Path) -> dict[str, Any] | None:
    """Return what the run in a directory was begun with; none if there is no run.

    Raises:
        ConfigError: If the file is damaged, lacks something, or is of version 0.1.
    """
    path = directory / NAME
    if not path.exists():
        return None
    recorded = read_toml(path)
    if "schedule" in recorded or "monitor" in recorded:
        raise ConfigError(f"{directory} was begun by lifesafe 0.1, which was never released; begin a new run.")
    missing = [
        f"{part}.{key}" for part, keys in _NEEDED.items() for key in keys if key not in (recorded.get(part) or {})
    ]
    if missing:
        raise ConfigError(
            f"{path} lacks {', '.join(missing)}: it does not say what the run was begun with. Restore it"
            " from a copy, or begin in another directory."
        )
    return recorded


def begin(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Write down what a run is begun with, or check that the one in the directory was begun with the same.

    Raises:
        ConfigError: If it was not, naming what differs.
        OSError: If it cannot be written.
    """
    recorded = read_run_toml(directory)
    if recorded is None:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomic(directory / NAME, toml_text({**manifest, "versions": versions()}))
        return
    differing = list(differences(recorded, manifest))
    if differing:
        more = " ..." if len(differing) > 3 else ""
        other = f" To search that run under other limits: `lifesafe optimize {directory} --limit NUMBER`."
        raise ConfigError(
            f"{directory} holds a run that was begun otherwise: {'; '.join(differing[:3])}{more}. Give another"
            f" directory, or the settings of that run.{other if _limits_differ(differing) else ''}"
        )


def _limits_differ(differing: Sequence[str]) -> bool:
    return any(each.startswith("run.limits ") for each in differing)


def differences(recorded: Mapping[str, Any], given: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return where two manifests differ, in words; what is none in one may be missing in the other."""
    found: list[str] = []
    for key in dict.fromkeys((*given, *recorded)):
        name = f"{prefix}{key}"
        if name in _FREE:
            continue
        there, here = recorded.get(key), given.get(key)
        if isinstance(there, Mapping) or isinstance(here, Mapping):
            found += differences(there or {}, here or {}, f"{name}.")
        elif there != here:
            found.append(f"{name} is {there!r} there, {here!r} here")
    return found


def versions() -> dict[str, str]:
    """Return the versions of what decides results."""
    packages = ("lifesafe", "torch", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
