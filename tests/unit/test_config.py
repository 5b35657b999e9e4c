"""Configs: strict reading, exact round trips, stable fingerprints."""

import json
import math
import tomllib
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifesafe._config import (
    canonical_json,
    fingerprint,
    from_plain,
    read_toml,
    to_plain,
    toml_text,
)
from lifesafe.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Rate:
    start: float = 1e-3
    steps: int = 100

    def __post_init__(self) -> None:
        if self.start <= 0:
            raise ConfigError(f"start must be positive; got {self.start}.")


@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 128
    dropout: float = 0.1
    name: str = "cdt"
    masked: bool = False
    scales: tuple[float, ...] = (1.0, 2.0)
    pair: tuple[int, str] = (1, "a")
    budget: int | None = None
    bounds: tuple[float, float] | Literal["free"] = (-5.0, 2.0)
    kernel: Literal["rbf", "matern32"] = "rbf"
    rate: Rate = field(default_factory=Rate)
    rates: tuple[Rate, ...] = ()
    either: int | str = 3
    shift: Annotated[float, "in units of the limit"] = 0.0


@dataclass(frozen=True)
class Needed:
    limit: float
    note: str = ""


@dataclass(frozen=True)
class Limits:
    limits: Needed


def refusal(plain: Any, cls: type = Config) -> str:
    with pytest.raises(ConfigError) as caught:
        from_plain(cls, plain, "cdt.toml")
    return str(caught.value)


@pytest.mark.parametrize("budget", [None, 7])
def test_a_config_survives_plain_json_and_toml(budget: int | None) -> None:
    config = Config(
        width=7,
        scales=(0.5,),
        budget=budget,
        bounds="free",
        kernel="matern32",
        rate=Rate(start=0.25),
        rates=(Rate(), Rate(steps=3)),
        either="x",
        name='a "b" \\ \x7f \n é 😀',
    )
    plain = to_plain(config)
    assert json.loads(json.dumps(plain)) == plain
    assert from_plain(Config, plain) == config
    assert from_plain(Config, tomllib.loads(toml_text(plain))) == config


def test_none_is_left_out_of_toml_and_a_list_with_it_is_refused() -> None:
    assert tomllib.loads(toml_text({"budget": None, "rate": {"start": 1.0, "steps": None}})) == {"rate": {"start": 1.0}}
    with pytest.raises(ConfigError, match="TOML, which has no null"):
        toml_text({"a": [None]})


def test_a_setting_that_would_be_read_back_as_its_default_is_refused() -> None:
    @dataclass(frozen=True)
    class Wordless:
        share: float | None = 0.5

    with pytest.raises(ConfigError, match=r"Wordless: share = None would be .* its default, 0\.5, .* give the setting"):
        to_plain(Wordless(share=None))


@pytest.mark.parametrize(
    ("plain", "part"),
    [
        ({"widht": 64}, "unknown key 'widht' = 64. Did you mean 'width'? Accepted: width, dropout, name,"),
        ({"rate": {"strat": 1}}, "unknown key 'rate.strat' = 1. Did you mean 'start'?"),
        ({"width": "big"}, "width = 'big' is not a whole number"),
        ({"width": 3.0}, "width = 3.0 is not a whole number"),
        ({"dropout": True}, "dropout = True is not a number"),
        ({"dropout": math.nan}, "dropout = nan is not a finite number"),
        ({"dropout": 10**400}, "is not accepted: Number out of range"),
        ({"masked": 1}, "masked = 1 is not true or false"),
        ({"name": 1}, "name = 1 is not a string"),
        ({"name": None}, "name = None would be read back as its default, 'cdt'"),
        ({"scales": 1.0}, "scales = 1.0 is not a list"),
        ({"scales": [1.0, "a"]}, "scales[1] = 'a' is not a number"),
        ({"pair": [1]}, "pair = [1] is not a list of length 2"),
        ({"budget": "none"}, "budget = 'none' is not a whole number"),
        ({"bounds": "fre"}, "bounds = 'fre' is not one of 'free'. Did you mean 'free'?"),
        ({"rate": 3}, "rate = 3 is not a table"),
        ({"rates": [{"steps": "x"}]}, "rates[0].steps = 'x' is not a whole number"),
        ({"either": 1.5}, "either = 1.5 is not a whole number or a string"),
        ({"kernel": "rbff"}, "kernel = 'rbff' is not one of 'matern32', 'rbf'. Did you mean 'rbf'?"),
        ({"rate": {"start": -1}}, "rate: start must be positive; got -1.0."),
        ([], "the content = [] is not a table"),
    ],
)
def test_a_wrong_key_or_value_is_refused_by_name(plain: Any, part: str) -> None:
    assert refusal(plain).startswith(f"cdt.toml: {part}") or part in refusal(plain)


def test_a_missing_key_is_named() -> None:
    assert refusal({}, Needed) == "cdt.toml: missing key 'limit'; give it a value."
    assert "missing key 'limits.limit'" in refusal({"limits": {}}, Limits)


def test_numbers_become_those_of_their_fields() -> None:
    config = from_plain(Config, {"dropout": 1, "scales": [1, 2]})
    assert [type(number) for number in (config.dropout, *config.scales)] == [float] * 3
    plain = to_plain(Config(width=np.int64(3), dropout=np.float32(0.5)))  # type: ignore[arg-type]
    assert (type(plain["width"]), type(plain["dropout"])) == (int, float)


def test_a_config_with_a_wrong_value_inside_is_not_stored() -> None:
    with pytest.raises(ConfigError, match="Config: width = 'x' is not a whole number"):
        to_plain(Config(width="x"))  # type: ignore[arg-type]


def test_defaults_that_were_left_out_are_written_with_the_rest() -> None:
    assert to_plain(from_plain(Config, {})) == to_plain(Config())
    assert to_plain(from_plain(Config, {"rate": {"start": 0.5}})) == to_plain(Config(rate=Rate(start=0.5)))


def test_equal_configs_have_equal_fingerprints() -> None:
    assert Config(dropout=0, scales=(1, 2), shift=-0.0) == Config(dropout=0.0)
    left = fingerprint(to_plain(Config(dropout=0, scales=(1, 2), shift=-0.0)))
    assert left == fingerprint(to_plain(Config(dropout=0.0)))
    assert left != fingerprint(to_plain(Config(dropout=0.5)))


def test_a_fingerprint_never_changes_between_versions() -> None:
    assert canonical_json({"b": [1, 2.5, "é"], "a": None}) == '{"a":null,"b":[1,2.5,"\\u00e9"]}'
    assert fingerprint({"b": [1, 2.5, "é"], "a": None}, 8) == "d4e7b7ea"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_stored(value: float) -> None:
    with pytest.raises(ConfigError, match=r"a\.b\[1\] = "):
        canonical_json({"a": {"b": [0.0, value]}})
    with pytest.raises(ConfigError, match="a = "):
        toml_text({"a": value})


def test_what_has_no_plain_form_is_not_stored() -> None:
    with pytest.raises(ConfigError, match="set has no plain form"):
        canonical_json({"a": {1}})
    with pytest.raises(ConfigError, match="Key 1 of a is not a string"):
        canonical_json({"a": {1: 2}})


@pytest.mark.parametrize("content", [b"width = ", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Any, content: bytes) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml is not TOML"):
        read_toml(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*none\.toml: No such file"):
        read_toml(tmp_path / "none.toml")


texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


@given(st.dictionaries(texts, values, max_size=5))
def test_any_plain_values_survive_toml(plain: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(plain)) == plain
