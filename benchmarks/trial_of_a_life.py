"""Count the files and functions that one trial of a life runs through: python benchmarks/trial_of_a_life.py.

The life is one on PointCircle with a small transformer that was hardly trained; the trial is its first, from `ask` over
the episodes to `tell`. The aim is 24 files.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import lifesafe
from lifesafe.life import Lifetime, Plan, Search
from lifesafe.life.trials import run_trial
from lifesafe.policies import CDTConfig
from lifesafe.systems import task

SOURCE = Path(lifesafe.__file__).parent
SMALL = CDTConfig(steps=5, batch=8, width=16, layers=1, heads=1, context=2)


def main() -> None:
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(str(SOURCE)):
            found.add(frame.f_code)

    plan = Plan(task=task("PointCircle"), method=SMALL, search=Search(start="calm"))
    with tempfile.TemporaryDirectory() as place, Lifetime.open(place, plan) as life:
        optimizer, evaluator = life.optimizer, life.evaluator
        sys.setprofile(note)
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, run_trial(evaluator, optimizer, trial, plan.seed))
        sys.setprofile(None)
    named = [code for code in found if not code.co_name.startswith("<")]
    files = Counter(str(Path(code.co_filename).relative_to(SOURCE)) for code in named)
    print(f"{len(files)} files, {len(named)} functions")
    print("\n".join(f"{count:4d}  {path}" for path, count in sorted(files.items())))


if __name__ == "__main__":
    main()
