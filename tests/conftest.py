"""Settings shared by all tests."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # trainings have nothing to choose then, and repeat to the bit

# Shape checks and shared machines make single examples slow now and then, so time is never judged.
_slow = [HealthCheck.too_slow]
settings.register_profile("local", max_examples=50, deadline=None, suppress_health_check=_slow)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell starts background jobs deaf to Ctrl-C, which some tests send; their children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check array shapes (see shapes.py) but where wrong ones are given on purpose, or thousands of runs would wait."""
    marks = {mark.name for mark in item.iter_markers()}
    jaxtyping.config.update("jaxtyping_disable", bool(marks & {"wrong_shapes", "slow"}))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a directory with 300 kB of room, to be filled for real."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root; the tests with a file size limit fail in the same place without")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
