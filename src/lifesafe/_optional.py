"""Import an optional dependency, or say how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

from lifesafe.errors import DependencyError


def require(module: str, *, name: str, extra: str, user: str) -> ModuleType:
    """Return an optional module that people know by a name, an extra of lifesafe installs, and a user needs.

    Raises:
        DependencyError: If it is not installed, or is and does not import.
    """
    install = f'pip install "lifesafe[{extra}]"'
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise DependencyError(f"{user} needs {name}: {install}.", name=module) from error
        raise DependencyError(f"{user} needs {name}, which misses {error.name!r}: {install}.", name=module) from error
    except ImportError as error:
        raise DependencyError(
            f"{user} needs {name}, which is installed but does not import ({error}): {install}.",
            name=module,
        ) from error
