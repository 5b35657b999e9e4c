"""A whole life in seconds: PointCircle, a small perceptron, a short search."""

from pathlib import Path
from typing import Any

from lifesafe.data import Dataset
from lifesafe.lab.baselines import RvSConfig
from lifesafe.life import Lifetime, Plan, Search
from lifesafe.systems import task

CONFIG = RvSConfig(steps=500, batch=256, width=32, dropout=0.0, held_out=0.0)
SEARCH = Search(episodes=80)
_data: list[Dataset] = []


def data() -> Dataset:
    """Return the data of PointCircle, made once."""
    if not _data:
        _data.append(task("PointCircle").dataset())
    return _data[0]


def small_life(directory: Path, limit: float = 20.0, **changes: Any) -> Lifetime:
    """Open a life that takes seconds, of a seed whose policy has a safe target: so short a training often has none."""
    logs = changes.pop("data", None) or data()
    settings = {"task": task("PointCircle", limits=limit), "method": CONFIG, "search": SEARCH, "seed": 2, **changes}
    return Lifetime.open(directory, Plan(**settings), data=logs)
