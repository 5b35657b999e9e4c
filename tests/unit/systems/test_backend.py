"""Which environments are opened for which wish."""

from dataclasses import replace

import numpy as np
import pytest

from acting import drift_task, feedback, targets
from lifesafe.errors import ConfigError
from lifesafe.systems import open_vector, rollout, task
from lifesafe.systems.simulators.point_circle import PointCircle
from lifesafe.systems.vector import InProcess


def test_auto_takes_what_fits() -> None:
    assert isinstance(open_vector(task("PointCircle"), 3), PointCircle)
    assert isinstance(open_vector(drift_task(), 3), InProcess)


@pytest.mark.parametrize("horizon", [1, 60, 300])
def test_the_tasks_own_vector_keeps_the_horizon_of_the_task(horizon: int) -> None:
    changed = replace(task("PointCircle"), horizon=horizon)
    native, one_by_one = (
        rollout(feedback(changed), open_vector(changed, 2, backend=backend), targets(3, costs=1), [0, 1, 2])
        for backend in ("native", "process")
    )
    assert [outcome.length for outcome in native.outcomes] == [min(horizon, 200)] * 3
    assert native.returns == one_by_one.returns


class Endless(PointCircle):
    """Does not say when it ends."""

    horizon = None  # type: ignore[assignment]


def test_a_vector_that_names_no_horizon_is_cut_off_at_the_tasks() -> None:
    vector = open_vector(replace(task("PointCircle"), vector=Endless, horizon=2), 1)
    vector.reset(np.array([0]), [0])
    assert [vector.step(np.array([0]), np.zeros((1, 2))).truncated[0] for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("name", "size", "backend", "message"),
    [
        ("HopperVelocity", 2, "native", "Task 'HopperVelocity' has no vector of its own; use another backend"),
        ("CarCircle", 2, "proces", "backend = 'proces' is not one of auto, .*Did you mean 'process'"),
        ("CarCircle", 0, "process", "A vector needs at least 1 row; got size = 0"),
    ],
)
def test_what_cannot_be_opened_is_refused(name: str, size: int, backend: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_vector(task(name), size, backend=backend)  # type: ignore[arg-type]
