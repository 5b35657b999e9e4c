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


def first_rows(mask: Bool[np.ndarray, " n"]) -> tuple[int, ...]:
    """Return the first few indices at which a mask is true."""
    found: list[int] = []
    for start in range(0, len(mask), 2**16):
        found += (start + np.flatnonzero(mask[start : start + 2**16])[:_SHOWN]).tolist()
        if len(found) >= _SHOWN:
            break
    return tuple(found[:_SHOWN])
