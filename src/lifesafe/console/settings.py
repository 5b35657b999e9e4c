"""Settings as words, `--set KEY=VALUE`: read, put into a config, and explained; and where data are."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import os
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from tyro.conf import UseAppendAction

from lifesafe._config import from_plain, to_plain
from lifesafe.data import Dataset, read_dsrl
from lifesafe.data.fetch import default_directory
from lifesafe.errors import ConfigError
from lifesafe.systems import Task

T = TypeVar("T")
Settings = Annotated[tuple[str, ...], UseAppendAction, tyro.conf.arg(name="set", metavar="KEY=VALUE")]


def with_settings(config: T, settings: Sequence[str]) -> T:
    """Return a config changed by "key=value" words; a dotted key reaches into a setting that has settings of its own.

    Raises:
        ConfigError: If a word is no setting, or its value does not fit.
    """
    plain = to_plain(config)
    for key, value in parse_settings(settings).items():
        *path, last = key.split(".")
        inner = plain
        for name in path:
            inner = inner.get(name) if isinstance(inner, dict) else None  # type: ignore[assignment]
        if not isinstance(inner, dict):
            raise ConfigError(f"--set: there is no setting {key}, since {'.'.join(path)} has no settings of its own.")
        inner[last] = value
    return from_plain(type(config), plain, source="--set")


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return "key=value" words as plain values, read as TOML reads them; what is no TOML value is a string.

    Raises:
        ConfigError: If a word has no key.
    """
    plain: dict[str, Any] = {}
    for word in settings:
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"A setting is given as KEY=VALUE, steps=2000, say; got {word!r}.")
        try:
            plain[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            plain[key.strip()] = text.strip()
    return plain


def settings_help(config: Any) -> str:
    """Return the settings of a config with their values, and the texts under its fields."""
    texts: dict[str, str] = {}
    for cls in reversed(type(config).__mro__[:-1]):
        texts |= _field_texts(cls)
    lines = []
    for field in dataclasses.fields(config):
        lines.append(f"{field.name} = {getattr(config, field.name)}")
        lines.append(textwrap.fill(texts.get(field.name, ""), 100, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(line for line in lines if line)


def _field_texts(cls: type) -> dict[str, str]:
    """Return the text that stands under each field of a class, which Python itself does not keep."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def data_directory(given: Path | None = None) -> Path:
    """Return where data are kept: the given place, else $LIFESAFE_DATA, else a place in the user's cache."""
    if given is not None:
        return given.expanduser()
    if chosen := os.environ.get("LIFESAFE_DATA"):
        return Path(chosen).expanduser()
    return default_directory(os.environ.get("XDG_CACHE_HOME"))


def logged_data(task: Task, data: Path | None) -> Dataset:
    """Return the data given, else those of the task.

    Raises:
        DatasetError: If there are none, or they do not fit the task.
    """
    dataset = task.dataset(data_directory()) if data is None else read_dsrl(data.expanduser())
    task.check(dataset)
    return dataset
