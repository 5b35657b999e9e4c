"""Which environments are opened for which wish."""

import sys

import pytest

from acting import drift_task
from lifesafe.environments import open_vector, task
from lifesafe.environments.point_circle import PointCircle
from lifesafe.environments.vector import InProcess
from lifesafe.environments.workers import Workers
from lifesafe.errors import ConfigError, DependencyError


def test_auto_takes_what_fits() -> None:
    assert isinstance(open_vector(task("PointCircle"), 3), PointCircle)
    assert isinstance(open_vector(drift_task(), 3), InProcess)
    with_workers = open_vector(drift_task(), 3, workers=1)
    assert isinstance(with_workers, Workers)
    with_workers.close()


@pytest.mark.parametrize(
    ("name", "size", "backend", "message"),
    [
        ("HopperVelocity", 2, "native", "Task 'HopperVelocity' has no vector of its own; use another backend"),
        ("CarCircle", 2, "envpool", "Task 'CarCircle' is not in EnvPool; only the velocity tasks are"),
        ("CarCircle", 2, "proces", "backend = 'proces' is not one of auto, .*Did you mean 'process'"),
        ("CarCircle", 0, "process", "A vector needs at least 1 row; got size = 0"),
    ],
)
def test_what_cannot_be_opened_is_refused(name: str, size: int, backend: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_vector(task(name), size, backend=backend)  # type: ignore[arg-type]


def test_a_missing_envpool_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(DependencyError, match=r'needs EnvPool: pip install "lifesafe\[fast\]"'):
        open_vector(task("HopperVelocity"), 1, backend="envpool")
