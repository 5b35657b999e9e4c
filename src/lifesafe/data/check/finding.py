"""Finding: one thing to know about a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to know about a dataset."""

    severity: Severity
    """error: learning from it fails or goes wrong; warning: it probably suffers; note: good to know."""
    code: str
    """A name that stays, for programs: "nonfinite", say."""
    message: str
    """What was found, with numbers."""
    advice: str = ""
    """What to do about it."""
    count: int | None = None
    """How many rows, or whatever the message counts, if it counts."""
    rows: tuple[int, ...] = ()
    """The first transitions (or episodes, if the message speaks of them), counted from 0."""


def found(
    severity: Severity, code: str, message: str, advice: str = "", at: Bool[np.ndarray, " n"] | int | None = None
) -> Finding:
    """Return a finding about the rows (or episodes) where a mask is true, or about so many."""
    if not isinstance(at, np.ndarray):
        return Finding(severity=severity, code=code, message=message, advice=advice, count=at)
    rows = tuple(np.flatnonzero(at)[:_SHOWN].tolist())
    return Finding(severity=severity, code=code, message=message, advice=advice, count=int(at.sum()), rows=rows)
