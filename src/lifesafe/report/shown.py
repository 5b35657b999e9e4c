"""What of a run is shown, on the page as in the picture: which moments, and which part of the plane of targets."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from lifesafe.report.history import History

PANELS = 6  # moments of the safe set that are shown
_ROOM = 0.05  # of an axis, around what is shown
_MOST = 0.6  # of the candidates: if more are near, all are shown


def moments_shown(count: int, panels: int = PANELS) -> list[int]:
    """Return the moments at which the safe set is shown: close together in the beginning, when it grows."""
    if count == 0:
        return []
    steps = np.geomspace(1, count, panels) if panels > 1 else np.array([count])
    return sorted({round(step) - 1 for step in steps})


def candidates_near(history: History, cost: int, rows: Int[np.ndarray, " m"] | None = None) -> Int[np.ndarray, " k"]:
    """Return the candidates of a plane around all that ever were safe, frontier or tried; all where that is most.

    Args:
        history: The run.
        cost: The cost of the plane.
        rows: Candidates to choose from; all unless given.
    """
    Z = history.problem.candidates[:, [0, 1 + cost]]
    if rows is None:
        rows = np.arange(len(Z))
    touched = np.zeros(len(Z), dtype=bool)
    for moment in history.moments:
        touched |= moment.safe | moment.frontier | moment.closed
        touched[moment.result.trial.index] = True
    here = Z[rows][touched[rows]]
    if not history.moments or not len(here):
        return rows
    room = _ROOM * np.ptp(Z, axis=0)
    low, high = here.min(axis=0) - room, here.max(axis=0) + room
    inside: Bool[np.ndarray, " m"] = np.all((Z[rows] >= low) & (Z[rows] <= high), axis=1)
    least = all(len(np.unique(Z[rows][inside][:, axis])) >= 4 for axis in (0, 1))
    return rows[inside] if least and inside.mean() < _MOST else rows
