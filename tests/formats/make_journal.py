"""Write records of the present format into assets: one for each promise, with every kind of event in the first.

Run it only before a format is released; a released file stays as it is:

    PYTHONPATH=tests .venv/bin/python tests/formats/make_journal.py
"""

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np

from lifesafe.errors import GuaranteeWarning
from lifesafe.journal import JOURNAL
from lifesafe.journal.store import VERSION
from lifesafe.operation import Operation
from lifesafe.returns import Returns
from lifesafe.safety import SafeOptimizer
from properties.runs import System, act, advance, system

ASSETS = Path(__file__).parent / "assets"


def name_of(promise: str) -> str:
    """Return the name of the asset with this promise."""
    return f"journal-v{VERSION}-{promise}.sqlite"


def everything(optimizer: SafeOptimizer, plant: System) -> None:
    """Let everything happen that a record can tell of."""
    rng = np.random.default_rng(0)
    advance(optimizer, plant, rng, 3)
    for action in ("correct", "operate long", "ask", "tell", "limits", "tell", "beyond", "confirm", "retract", "tell"):
        act(optimizer, plant, rng, action)
    advance(optimizer, plant, rng, 3)
    operation = Operation(optimizer)
    operation.begin()
    while (target := operation.target) is not None:
        operation.tell([Returns(next(iter(target)), (39.0,))] * 40)


def some(optimizer: SafeOptimizer, plant: System) -> None:
    """Let a search be made, and its best target be served."""
    rng = np.random.default_rng(0)
    advance(optimizer, plant, rng, 12)
    act(optimizer, plant, rng, "operate")
    optimizer.ask()


MAKE = {
    "trial": (everything, system(3, stop_at=40.0)),
    "total": (some, system(3, promise="total", stop_at=40.0, episodes=300)),
}


def main() -> None:
    for promise, (make, plant) in MAKE.items():
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            with SafeOptimizer.open(place, plant.problem) as optimizer:
                make(optimizer, plant)
            shutil.copyfile(Path(place) / JOURNAL, ASSETS / name_of(promise))


if __name__ == "__main__":
    main()
