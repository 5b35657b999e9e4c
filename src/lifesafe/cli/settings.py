"""Settings as words, `--set KEY=VALUE`: read, put into a config, and explained."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import tyro
from tyro.conf import UseAppendAction

from lifesafe.console import option
from lifesafe.errors import ConfigError
from lifesafe.returns import return_names

T = TypeVar("T")
Settings = Annotated[tuple[str, ...], UseAppendAction, tyro.conf.arg(name="set", metavar="KEY=VALUE")]
Numbers = Annotated[tuple[float, ...], option("NUMBER")]
Incident = Annotated[tuple[str, ...], option("NUMBER|horizon")]

_OPTIONS = "stop_at|largest_step|largest|incident|promise|delta|episodes|seed|level|rewards|horizon|start"
_NUMBER = r"-?\d(?:[\d.e+-]*\d)?"
_VALUE = r"(?:-?[\d.e+-]+|nan|-?inf)"
_PYTHON: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # What messages of the package say in Python's words, and how the shell says it.
    (re.compile(r"Returns\(reward=([^,()]+), costs=\(([^()]*?),?\)\)"), lambda found: _shell_returns(*found.groups())),
    (re.compile(rf"\{{('[^'{{}}]+': {_VALUE}(?:, '[^'{{}}]+': {_VALUE})*)\}}"), lambda found: _shell_target(found[1])),
    (re.compile(rf"\(({_VALUE}(?:, {_VALUE})*),?\)"), lambda found: _shell_numbers(found[1])),
    (re.compile(r"(?<=can be: )\[(\d+(?:, \d+)*)\]"), r"\1"),
    (re.compile(r"rewards = \(low, high\)"), "--rewards LOW HIGH"),
    (re.compile(rf"(?<![\w.-])({_OPTIONS}) = ['\"](\w+)['\"]"), r"--\1 \2"),
    (
        re.compile(rf"(?<![\w.-])({_OPTIONS}) = ({_NUMBER}(?:, {_NUMBER})*)"),
        lambda found: f"--{found[1]} {found[2].replace(',', '')}",
    ),
    (re.compile(r"(?<![\w.-])(stop_at|largest_step)\b"), r"--\1"),
    (re.compile(rf"(?<![\w.-])({_OPTIONS})(?= (?:must|are given) )"), r"--\1"),
    (re.compile(r"(?<= or )incident(?=, not both)"), "--incident"),
    (re.compile(r"(needs |\()(largest)(?=[:)])"), r"\1--\2"),
)


def with_settings(config: T, settings: Sequence[str]) -> T:
    """Return a config changed by "key=value" words; a dotted key reaches into a setting that has settings of its own.

    Raises:
        ConfigError: If a word is no setting, or its value does not fit.
    """
    from lifesafe._config import from_plain, to_plain

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


def incident_of(words: Sequence[str]) -> tuple[float, ...] | Literal["horizon"] | None:
    """Return the words of --incident as numbers, or as "horizon"; none if there are none.

    Raises:
        ConfigError: If they are something else.
    """
    if not words:
        return None
    if tuple(words) == ("horizon",):
        return "horizon"
    try:
        return tuple(float(word) for word in words)
    except ValueError as error:
        raise ConfigError(f'--incident is a number, one per cost, or "horizon"; got {" ".join(words)}.') from error


def shell_words(text: str) -> str:
    """Return a message with the settings named in Python named as options: `stop_at = 40` becomes `--stop-at 40`."""
    for pattern, words in _PYTHON:
        text = pattern.sub(words, text)
    return re.sub(r"--\w+", lambda match: match.group().replace("_", "-"), text)


def _shell_target(text: str) -> str:
    """Return a setting of knobs in Python as `--begin-at` takes it: `'speed': 0.5` becomes `speed=0.5`."""
    pairs = (part.rpartition("': ") for part in text.split(", "))
    return ",".join(f"{name.lstrip(chr(39))}={float(value):g}" for name, _, value in pairs)


def _shell_returns(reward: str, costs: str) -> str:
    """Return a target of returns in Python as `--begin-at` takes it."""
    values = [reward, *costs.split(", ")]
    names = return_names(len(values) - 1)
    return ",".join(f"{name}={float(value):g}" for name, value in zip(names, values, strict=True))


def _shell_numbers(text: str) -> str:
    """Return the numbers of a tuple of Python as the shell takes them: `1.0, 2.5` becomes `1 2.5`."""
    try:
        return " ".join(f"{float(word):g}" for word in text.split(","))
    except ValueError:
        return f"({text})"
