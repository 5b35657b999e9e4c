"""The loops that record logs, in the guide and in the example, hold for environments that end, and that do not."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from acting import Drift, drift_task
from lifesafe.data import Dataset

ROOT = Path(__file__).parents[3]


class Sliding(Drift):
    """A Drift that is pushed along the diagonal; it may fall off, knows no horizon, and can go on after a fall."""

    action_space = Box(-1.0, 1.0, (1,), np.float32)


SLIDING = drift_task(Sliding, actions=1)


def check(dataset: Dataset, episodes: int) -> None:
    """Check that every episode is there, and whole."""
    assert len(dataset) == episodes
    assert 0 < dataset.terminated.sum() < episodes, "some must fall and some last for this to mean something"
    assert (dataset.lengths[~dataset.terminated] == SLIDING.horizon).all()
    environment = SLIDING.environment()
    for seed, episode in enumerate(dataset):
        assert np.array_equal(episode.observations[0], environment.reset(seed=seed)[0].astype(np.float32))


def test_that_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "guides" / "own-environment.md").read_text(encoding="utf-8")
    (loop,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Recorder(" in block)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"np": np, "gymnasium": gymnasium, "pendulum": SLIDING}
    exec(loop, namespace)
    check(namespace["recorder"].dataset(), 50)


def test_that_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("custom_task", ROOT / "examples" / "custom_task.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "cart", SLIDING)
    check(example.logs(50), 50)
