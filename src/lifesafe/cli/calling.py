"""Call a command with the words of the shell; its docstring is its help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pkgutil import resolve_name

import tyro


def call(name: str, place: str, words: Sequence[str]) -> int:
    """Return the exit code of a command.

    Args:
        name: Of the command, "data check", say.
        place: Where its function is, "lifesafe.cli.data:check".
        words: Its arguments.
    """
    command: Callable[..., int] = resolve_name(place)
    # The description is given, since tyro's own reading of docstrings leaves out the examples.
    return tyro.cli(
        command,
        prog=f"lifesafe {name}",
        description=(inspect.getdoc(command) or "").partition("\nArgs:")[0],
        args=words,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
