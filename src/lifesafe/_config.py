"""Frozen dataclasses to plain values (what JSON and TOML can hold) and back, strictly.

A *plain* value is a dict with string keys, a list, a string, a bool, an int, a finite float or None. msgspec knows the
types; checked here are what it lets pass (unknown keys, infinite numbers) and that a message names the value and the
key. TOML has no null: None is left out there, so a setting may be None only if that is its default; a setting with
another default has a word for it, "free", say.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import tomli_w
from msgspec import inspect

from lifesafe.errors import ConfigError

T = TypeVar("T")

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def to_plain(config: Any) -> dict[str, Any]:
    """Return the plain values of a config, every number in the type its field declares.

    Equal configs give equal plain values, so `fingerprint(to_plain(config))` identifies the settings.

    Raises:
        ConfigError: If a field holds a value that `from_plain` would refuse.
    """
    # Not to_builtins(config): msgspec leaves out fields that it has itself filled with their default.
    given = msgspec.to_builtins(dataclasses.asdict(config), enc_hook=_plain)
    typed = _converted(type(config), given, type(config).__name__)
    plain: dict[str, Any] = _plain(msgspec.to_builtins(dataclasses.asdict(typed)))
    return plain


def from_plain(cls: type[T], plain: Mapping[str, Any], source: str = "config") -> T:
    """Return the config that the plain values describe; fields not given keep their defaults.

    Messages name the source of the values.

    Raises:
        ConfigError: If a key is unknown or missing, or a value has the wrong type or is impossible.
    """
    config: T = _converted(cls, plain, source)
    return config


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return what a TOML file holds.

    Raises:
        ConfigError: If the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{path} is not TOML: {error}.") from error


def toml_text(plain: Mapping[str, Any]) -> str:
    """Return plain values as the text of a TOML file; keys with None are left out.

    Raises:
        ConfigError: If a value is not plain, or a list holds None, which TOML cannot say.
    """
    try:
        return tomli_w.dumps(_without_none(_plain(plain)))
    except TypeError as error:
        raise ConfigError("A list with None cannot be written as TOML, which has no null.") from error


def canonical_json(plain: Any) -> str:
    """Return the one JSON text of a plain value: sorted keys, no spaces, ASCII.

    Raises:
        ConfigError: If the value is not plain; NaN and infinity are not.
    """
    return json.dumps(_plain(plain), sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(plain: Any, length: int = 64) -> str:
    """Return the first hexadecimal digits of the SHA-256 of the canonical JSON of a plain value."""
    return hashlib.sha256(canonical_json(plain).encode()).hexdigest()[:length]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the most similar of the names, or nothing if none is similar."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _converted(cls: Any, value: Any, source: str) -> Any:
    try:
        plain = _plain(value)
        _check(_kind(cls), plain, "")
        return msgspec.convert(plain, cls)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_words(error, plain)}") from (error.__cause__ or error)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


_kind = functools.cache(inspect.type_info)


def _check(kind: inspect.Type, plain: Any, place: str) -> None:
    """Refuse unknown, missing and unspeakable keys and unknown choices, which msgspec passes or names less well."""
    match kind, plain:
        case inspect.DataclassType(fields=fields), dict():
            _check_keys({field.encode_name: field for field in fields}, plain, f"{place}." if place else "")
        case inspect.VarTupleType(item_type=item), list():
            for index, each in enumerate(plain):
                _check(item, each, f"{place}[{index}]")
        case inspect.UnionType(types=members), dict() | str():
            for member in members:
                _check(member, plain, place)
        case inspect.LiteralType(values=choices), str() if plain not in choices:
            listed = ", ".join(map(repr, choices))
            raise ConfigError(f"{place} = {plain!r} is not one of {listed}.{nearest(plain, map(str, choices))}")


def _check_keys(fields: dict[str, inspect.Field], plain: dict[str, Any], prefix: str) -> None:
    for key, value in plain.items():
        if key not in fields:
            raise ConfigError(
                f"unknown key {prefix + key!r} = {value!r}.{nearest(key, fields)} Accepted: {', '.join(fields)}."
            )
        default = fields[key].default
        if value is None and default is not None and not fields[key].required:
            raise ConfigError(
                f"{prefix}{key} = None would be read back as its default, {default!r}, since TOML has no null; give"
                " the setting a word for none."
            )
        _check(fields[key].type, value, prefix + key)
    for key in fields.keys() - plain.keys():
        if fields[key].required:
            raise ConfigError(f"missing key {prefix + key!r}; give it a value.")


def _words(error: msgspec.ValidationError, plain: Any) -> str:
    """Return msgspec's message in words for people, with the key and the value that it is about."""
    text, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if error.__cause__ is not None:  # the config's own checks
        return f"{path}: {error.__cause__}" if path else str(error.__cause__)
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        plain = plain[int(index)] if index else plain[name]
    expected = re.match(r"Expected `(.*?)`( of length \d+)?", text)
    if expected is None:
        return f"{path} = {plain!r} is not accepted: {text}."
    accepted = " or ".join(_WORDS.get(word, word) for word in expected[1].split(" | ") if word != "null")
    return f"{path or 'the content'} = {plain!r} is not {accepted}{expected[2] or ''}."


def _plain(value: Any, key: str = "") -> Any:
    """Return a copy in lists, dicts and Python's own numbers, or refuse a value that has no such form."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ConfigError(f"Key {name!r} of {key or 'the table'} is not a string.")
        return {name: _plain(item, f"{key}.{name}" if key else name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{key or 'the value'} = {value!r} is not a finite number.")
        return value + 0.0  # turns -0.0 into 0.0, which is equal but prints otherwise
    if value is None or isinstance(value, bool | int | str):
        return value
    raise ConfigError(f"{key or 'the value'} = {value!r} cannot be stored: {type(value).__name__} has no plain form.")


def _without_none(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_none(value) for key, value in plain.items() if value is not None}
    return [_without_none(value) for value in plain] if isinstance(plain, list) else plain
