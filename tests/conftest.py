"""Settings shared by all tests."""

import os

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

# Shape checks and shared machines make single examples slow now and then, so time is never judged.
_slow = [HealthCheck.too_slow]
settings.register_profile("local", max_examples=50, deadline=None, suppress_health_check=_slow)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check array shapes (see shapes.py) in every test but those that give wrong ones on purpose."""
    jaxtyping.config.update("jaxtyping_disable", item.get_closest_marker("wrong_shapes") is not None)
