"""The best drivers of PointCircle that are known, as committed."""

import json
import math
from pathlib import Path

from lifesafe.systems.simulators.behaviors import Behavior

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "point_circle"
_ROWS = json.loads((RESULTS / "best_safe.json").read_text(encoding="utf-8"))
BEST = {math.inf if r["limit"] is None else r["limit"]: (Behavior(**r["behavior"]), float(r["reward"])) for r in _ROWS}
"""By the limit: a driver, and the mean reward of its episodes."""
