"""Write assets/journal-v1.sqlite: three trials on a tiny grid, the third still open.

Run it only before a format is released; a released file stays as it is:

    PYTHONPATH=tests .venv/bin/python tests/formats/make_journal.py
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from lifesafe.optimizer import SafeOptimizer
from lifesafe.optimizer.journal import VERSION
from properties.runs import lively, quick

ASSETS = Path(__file__).parent / "assets"


def main() -> None:
    system, rng = lively(np.random.default_rng(3), size=6), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        with SafeOptimizer.open(place, system.problem, quick()) as optimizer:
            for _ in range(2):
                trial = optimizer.ask()
                assert trial is not None
                optimizer.tell(trial, system.episodes(trial.index, trial.episodes, rng))
            optimizer.ask()
        ASSETS.mkdir(exist_ok=True)
        shutil.copyfile(Path(place) / "journal.sqlite", ASSETS / f"journal-v{VERSION}.sqlite")


if __name__ == "__main__":
    main()
