"""Noise that lasts from action to action is told from noise that does not."""

import numpy as np
import pytest

from lifesafe.data.check import Finding, check
from lifesafe.data.check.copying import measure_copying
from lifesafe.data.check.table import tabulate
from logged import circling


def findings(**options: float) -> list[Finding]:
    columns = circling(episodes=200, steps=100, **options)  # type: ignore[arg-type]
    return [finding for finding in check(columns) if finding.code in ("copyable-actions", "smooth-actions")]


@pytest.mark.parametrize("mixture", [0.0, 0.3])
@pytest.mark.parametrize("noise", [0.05, 0.1, 0.3])
def test_white_noise_is_never_blamed(noise: float, mixture: float) -> None:
    assert findings(noise=noise, mixture=mixture) == []


@pytest.mark.parametrize("mixture", [0.0, 0.3])
@pytest.mark.parametrize(("noise", "memory"), [(0.3, 0.8), (0.3, 0.9), (0.3, 0.95), (0.1, 0.9)])
def test_noise_that_lasts_is_blamed(noise: float, memory: float, mixture: float) -> None:
    (finding,) = findings(noise=noise, memory=memory, mixture=mixture)
    assert (finding.severity, finding.code) == ("warning", "copyable-actions")
    assert "Log with white noise" in finding.advice


def test_noise_on_the_parameters_alone_is_not_blamed() -> None:
    (finding,) = findings(noise=0.0, mixture=0.3)
    assert (finding.severity, finding.code) == ("note", "smooth-actions")


def test_actions_held_for_several_steps_are_blamed() -> None:
    columns = circling(episodes=200, steps=100)
    held = columns["actions"].reshape(200, 25, 4, 2)[:, :, :1].repeat(4, axis=2)
    codes = [finding.code for finding in check(columns | {"actions": held.reshape(-1, 2)})]
    assert "copyable-actions" in codes


def test_too_few_rows_and_constant_actions_say_nothing() -> None:
    for columns in (circling(episodes=3), circling() | {"actions": np.zeros((5000, 2), dtype=np.float32)}):
        table, _ = tabulate(columns)
        assert table is not None
        assert measure_copying(table) is None
