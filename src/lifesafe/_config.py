"""Frozen dataclasses to plain values (what JSON and TOML can hold) and back, strictly.

A *plain* value is a dict with string keys, a list, a string, a bool, an int, a finite float or None. A config
is a frozen dataclass whose fields are such values, tuples, enums, `Literal` choices, or configs again. TOML
has no null: a key with None is left out there, and a key that is missing stands for the default. So a field that may be
None has None as its default; where something else is the default, a word says what None would.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import hashlib
import json
import math
import numbers
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union

from lifesafe.errors import ConfigError

T = TypeVar("T")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_plain(config: Any) -> dict[str, Any]:
    """Return the plain values of a config, every number in the type its field declares.

    Equal configs give equal plain values, so `fingerprint(to_plain(config))` identifies the settings.

    Raises:
        ConfigError: If a field holds a value that `from_plain` would refuse.
    """
    where = _Place(type(config).__name__)
    return {
        name: _encode(_convert(hint, getattr(config, name), where.field(name)))
        for name, hint in _hints(type(config)).items()
    }


def from_plain(cls: type[T], plain: Mapping[str, Any], source: str = "config") -> T:
    """Return the config that the plain values describe; fields not given keep their defaults.

    Args:
        cls: A dataclass; its fields are the accepted keys.
        plain: The values.
        source: Where they come from, for messages: a file name, say.

    Raises:
        ConfigError: If a key is unknown or missing, or a value has the wrong type or is impossible.
    """
    return _build(cls, plain, _Place(source))


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
    """Return plain values as the text of a TOML file, tables after values; keys with None are left out.

    Raises:
        ConfigError: If a value is not plain, or a list holds None, which TOML cannot say.
    """
    _check_plain(plain)
    return "\n".join(_toml_lines(plain, ())).strip("\n") + "\n"


def canonical_json(plain: Any) -> str:
    """Return the one JSON text of a plain value: sorted keys, no spaces, ASCII.

    Raises:
        ConfigError: If the value is not plain; NaN and infinity are not.
    """
    _check_plain(plain)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(plain: Any, length: int = 64) -> str:
    """Return the first 8 to 64 hexadecimal digits of the SHA-256 of the canonical JSON of a plain value."""
    if not 8 <= length <= 64:
        raise ConfigError(f"A fingerprint has 8 to 64 digits; got length = {length}.")
    return hashlib.sha256(canonical_json(plain).encode()).hexdigest()[:length]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the most similar of the names, or nothing if none is similar."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class _Place:
    """A value's source and its key inside it, for messages."""

    source: str
    key: str = ""

    def field(self, name: str) -> _Place:
        return _Place(self.source, f"{self.key}.{name}" if self.key else name)

    def item(self, index: int) -> _Place:
        return _Place(self.source, f"{self.key}[{index}]")

    def refuse(self, value: object, accepted: str) -> NoReturn:
        raise ConfigError(f"{self.source}: {self.key or 'the content'} = {value!r} is not {accepted}.")


def _hints(cls: type) -> dict[str, Any]:
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is not a dataclass")
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _required(cls: Any) -> set[str]:
    return {
        field.name
        for field in dataclasses.fields(cls)
        if field.init and field.default is field.default_factory is dataclasses.MISSING
    }


def _build(cls: type[T], plain: Any, place: _Place) -> T:
    if not isinstance(plain, Mapping):
        place.refuse(plain, f"a table with the settings of {cls.__name__}")
    hints = _hints(cls)
    for key, value in plain.items():
        if key not in hints:
            full = place.field(str(key)).key
            raise ConfigError(
                f"{place.source}: unknown key {full!r} = {value!r}.{nearest(str(key), hints)}"
                f" Accepted: {', '.join(hints) or 'none'}."
            )
    for key in _required(cls) - plain.keys():
        full = place.field(key).key
        raise ConfigError(f"{place.source}: missing key {full!r}; give {_describe(hints[key])}.")
    values = {key: _convert(hints[key], value, place.field(key)) for key, value in plain.items()}
    try:
        return cls(**values)
    except ValueError as error:  # the config's own checks
        raise ConfigError(f"{place.source}: {place.key + ': ' if place.key else ''}{error}") from error


def _convert(hint: Any, value: Any, place: _Place) -> Any:
    """Return the value as an instance of the annotated type, or refuse it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _convert(arguments[0], value, place)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, place)
    if origin is Literal:
        return _convert_literal(arguments, value, place)
    if origin is tuple:
        return _convert_tuple(arguments, value, place)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else _build(hint, value, place)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value if isinstance(value, hint) else _convert_enum(hint, value, place)
    return _convert_scalar(hint, value, place)


def _convert_scalar(hint: Any, value: Any, place: _Place) -> bool | int | float | str:
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if hint is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
        return _convert_float(value, place)
    if hint is str and isinstance(value, str):
        return str(value)
    if hint not in (bool, int, float, str):
        raise TypeError(f"{place.key}: a config cannot hold {hint!r}")
    return place.refuse(value, _describe(hint))


def _convert_float(value: Any, place: _Place) -> float:
    try:
        number = float(value) + 0.0  # turns -0.0 into 0.0, which is equal but prints otherwise
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else place.refuse(value, "a finite number")


def _convert_union(members: tuple[Any, ...], value: Any, place: _Place) -> Any:
    if type(None) in members and value is None:
        return None
    members = tuple(member for member in members if member is not type(None))
    if len(members) == 1:
        return _convert(members[0], value, place)
    exact = [member for member in members if type(value) is member]  # 1 stays an int in int | float
    for member in (*exact, *members):
        try:
            return _convert(member, value, place)
        except ConfigError:
            continue
    return place.refuse(value, " or ".join(_describe(member) for member in members))


def _convert_literal(choices: tuple[Any, ...], value: Any, place: _Place) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    return _refuse_choice(choices, value, place)


def _convert_enum(cls: type[enum.Enum], value: Any, place: _Place) -> enum.Enum:
    for member in cls:
        if type(member.value) is type(value) and member.value == value:
            return member
    return _refuse_choice(tuple(member.value for member in cls), value, place)


def _refuse_choice(choices: tuple[Any, ...], value: Any, place: _Place) -> NoReturn:
    listed = ", ".join(repr(choice) for choice in choices)
    hint = nearest(value, [c for c in choices if isinstance(c, str)]) if isinstance(value, str) else ""
    raise ConfigError(f"{place.source}: {place.key} = {value!r} is not one of {listed}.{hint}")


def _convert_tuple(members: tuple[Any, ...], value: Any, place: _Place) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        place.refuse(value, "a list")
    if members[1:] == (Ellipsis,):
        members = members[:1] * len(value)
    if len(members) != len(value):
        place.refuse(value, f"a list of {len(members)}")
    return tuple(
        _convert(member, item, place.item(index))
        for index, (member, item) in enumerate(zip(members, value, strict=True))
    )


def _describe(hint: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names.get(hint) or getattr(hint, "__name__", None) or str(hint)


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_plain(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _check_plain(value: Any, key: str = "") -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise ConfigError(f"Key {name!r} of {key or 'the table'} is not a string.")
            _check_plain(item, f"{key}.{name}" if key else name)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_plain(item, f"{key}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key or 'the value'} = {value!r} cannot be stored; give a finite number.")
    elif not isinstance(value, (bool, int, float, str, types.NoneType)):
        kind = type(value).__name__
        raise ConfigError(f"{key or 'the value'} = {value!r} cannot be stored: {kind} has no plain form.")


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterable[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    values = {key: value for key, value in table.items() if key not in tables and value is not None}
    if path and (values or not tables):
        yield f"\n[{'.'.join(_toml_key(name) for name in path)}]"
    for key, value in values.items():
        yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in tables.items():
        yield from _toml_lines(value, (*path, key))


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _toml_string(key)


def _toml_string(text: str) -> str:
    # JSON escapes as TOML does, but for the delete character, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    if value is None:
        raise ConfigError("A list with None cannot be written as TOML, which has no null.")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items() if item is not None)
        return f"{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return repr(value)
