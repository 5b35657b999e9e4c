"""The methods by name."""

import typing

import pytest

from lifesafe.errors import ConfigError
from lifesafe.lab.baselines.catalogue import METHODS, method_config, needs_limit
from lifesafe.lab.commands.methods import Baseline, Conditioned


def test_the_command_line_knows_them_all() -> None:
    assert sorted(METHODS) == sorted([*typing.get_args(Conditioned), *typing.get_args(Baseline)])


@pytest.mark.parametrize("name", METHODS)
def test_limits_reach_the_methods_that_need_them(name: str) -> None:
    config = method_config(name, limits=[20, 3], task="HopperVelocity")
    if needs_limit(name):
        assert config.limits == (20.0, 3.0)  # type: ignore[attr-defined]
    else:
        assert not getattr(config, "limits", ())


def test_an_unknown_method_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'cpq'"):
        method_config("cqp", limits=[20])
