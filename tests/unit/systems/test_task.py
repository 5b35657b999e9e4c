"""Task: what is checked, and what it makes."""

from typing import Any

import numpy as np
import pytest

from acting import Drift, drift_task
from lifesafe.errors import ConfigError, DatasetError
from lifesafe.systems import task


@pytest.mark.parametrize("name", ["observations", "actions", "horizon"])
def test_sizes_are_at_least_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Task 'Drift': {name} must be at least 1; got 0"):
        drift_task(**{name: 0})


def test_every_cost_has_a_limit_and_a_largest_value() -> None:
    with pytest.raises(ConfigError, match="has 1 limits and 2 largest costs; give one of each per cost"):
        drift_task(limits=(1.0,))


@pytest.mark.parametrize("make", [Drift, "acting:Drift"])
def test_the_environment_is_made_by_a_function_or_by_its_name(make: Any) -> None:
    environment = drift_task(make).environment()
    assert type(environment) is Drift


@pytest.mark.parametrize("make", ["acting:Nothing", "nowhere:make", "acting"])
def test_a_wrong_name_is_refused(make: str) -> None:
    with pytest.raises(ConfigError, match=r'Cannot find .*Write it as "package.module:name"'):
        drift_task(make).environment()


def test_returns_are_normalized_by_the_public_extremes() -> None:
    hopper = task("HopperVelocity")
    assert hopper.normalize(37.05154800415039) == 0
    assert hopper.normalize(1911.396728515625) == 1
    with pytest.raises(ConfigError, match="Task 'Drift' has no reference returns; report its raw returns"):
        drift_task().normalize(1.0)


@pytest.mark.parametrize("limits", [[1, 2.0], np.array([1.0, 2.0], dtype=np.float32), range(1, 3)])
def test_limits_come_in_any_sequence(limits: Any) -> None:
    assert drift_task().with_limits(limits) == drift_task(limits=(1.0, 2.0)) == drift_task(limits=limits)


def test_one_cost_may_have_a_plain_number_for_a_limit() -> None:
    plain = drift_task(limits=20, largest_costs=np.float64(3.0))
    assert plain == drift_task(limits=(20.0,), largest_costs=(3.0,))
    assert plain.with_limits(5).limits == (5.0,)
    assert plain.with_limits(5).with_limits(20) == plain


@pytest.mark.parametrize("limits", [None, "20", ["much"], [[1.0, 2.0]], [1.0, [2.0]], True])
def test_limits_that_are_no_numbers_are_refused(limits: Any) -> None:
    rule = "limits must be a number, or a sequence with one number per cost; got "
    with pytest.raises(ConfigError, match=f"Task 'Drift': {rule}"):
        drift_task(limits=limits)
    with pytest.raises(ConfigError, match=f"^{rule}"):
        drift_task().with_limits(limits)


def test_data_of_another_task_are_refused() -> None:
    point = task("PointCircle")
    point.check(point.dataset())
    with pytest.raises(DatasetError, match=r"5 observations, 2 actions and 1 costs a step; task 'CarCircle' has 8"):
        task("CarCircle").check(point.dataset())


def test_a_task_without_data_of_its_own_says_how_to_give_some() -> None:
    with pytest.raises(DatasetError, match="Task 'Drift' has no data of its own; give some: --data FILE"):
        drift_task().dataset()
