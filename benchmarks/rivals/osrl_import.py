"""Import OSRL's Constrained Decision Transformer without the packages it only logs with; and the clock.

OSRL needs `fsrl` for its loggers and OApackage for a Pareto front; neither has wheels that install beside current
ones, and the model, the trainer and the loader run without. OSRL itself is not changed.
"""

import sys
import time
from contextlib import redirect_stdout
from types import ModuleType


class Logger:
    """Keeps the last value of everything the trainer stores."""

    def __init__(self, *_, **__):
        self.values = {}

    def store(self, tab=None, **values):
        self.values.update(values)


def timed(work, clock):
    """Return how many seconds the work took, by the clock on the wall or by that of the processor."""
    now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
    start = now()
    work()
    return now() - start


def osrl():
    """Return OSRL's `CDT`, `CDTTrainer` and `SequenceDataset`."""
    utils = ModuleType("fsrl.utils")
    utils.DummyLogger = utils.WandbLogger = Logger
    sys.modules.setdefault("fsrl", ModuleType("fsrl"))
    sys.modules.setdefault("fsrl.utils", utils)
    with redirect_stdout(sys.stderr):  # it says that OApackage is missing
        from osrl.algorithms.cdt import CDT, CDTTrainer
        from osrl.common.dataset import SequenceDataset

    return CDT, CDTTrainer, SequenceDataset
