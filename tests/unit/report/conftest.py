"""Runs that several tests of reports need."""

from pathlib import Path

import numpy as np
import pytest

from lifesafe.errors import GuaranteeWarning
from lifesafe.optimizer import Problem, SafeOptimizer
from lifesafe.returns import Returns


@pytest.fixture
def seedless(tmp_path: Path) -> Path:
    """Return a run without a seed to go on with: two have failed, and one lies beyond the costlier of them."""
    axes = [np.linspace(0, 500, 11), np.linspace(0, 60, 11)]
    problem = Problem.on_grid(axes, seeds=[Returns(200, 0), Returns(100, 0), Returns(300, 0)], limits=20.0)
    run = tmp_path / "seedless"
    with SafeOptimizer.open(run, problem) as optimizer:
        for cost in (90.0, 80.0):
            trial = optimizer.ask()
            assert trial is not None
            with pytest.warns(GuaranteeWarning, match="exceeded a limit"):
                optimizer.tell(trial, [Returns(1.0, cost)] * 20)
    return run
