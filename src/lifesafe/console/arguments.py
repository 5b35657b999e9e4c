"""Kinds of arguments that several commands take, and how the help shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional


def option(metavar: str, name: str | None = None) -> Any:
    """Return how the help shows an option: its text says what holds unless it is given, where no value does."""
    return tyro.conf.arg(
        name=name,
        metavar=metavar,
        help_behavior_hint=lambda default: "" if default in ("", "None") else f"(default: {default})",
    )


Run = Annotated[Path, Positional, tyro.conf.arg(metavar="RUN")]
OutFile = Annotated[Path | None, option("FILE")]
Directory = Annotated[Path | None, option("DIRECTORY")]
Limits = Annotated[tuple[float, ...], option("NUMBER", "limit")]
Word = Annotated[str | None, option("TEXT")]
Number = Annotated[float | None, option("NUMBER")]
Count = Annotated[int | None, option("INT")]
