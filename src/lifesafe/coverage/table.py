"""Coverage summaries as a file that a run can be resumed from, and as a Markdown table."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lifesafe._config import from_plain, to_plain
from lifesafe._files import write_atomic
from lifesafe.coverage.deployment import Row
from lifesafe.coverage.simulation import Summary
from lifesafe.errors import DatasetError

_HEADER = (
    "| maps | setting | delta | violated | operates unsafe | within 5 % | median trials | gain | recall |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def save(path: Path, summaries: Sequence[Summary]) -> None:
    """Write summaries as JSON, atomically."""
    rows = [summary.to_plain() | {"row": to_plain(summary.row)} for summary in summaries]
    write_atomic(path, json.dumps(rows, indent=1) + "\n")


def load(path: Path) -> list[Summary]:
    """Return the summaries of a file; none if there is no file.

    Raises:
        DatasetError: If the file does not hold summaries.
    """
    if not path.exists():
        return []
    try:
        return [_summary(plain) for plain in json.loads(path.read_text())]
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{path} does not hold coverage results ({error}); delete it or name another.") from error


def markdown(summaries: Sequence[Summary]) -> str:
    """Return a Markdown table, one line per row."""
    return "\n".join([_HEADER, *(_line(summary) for summary in summaries)]) + "\n"


def _line(s: Summary) -> str:
    low, high = s.violated_interval
    trials = "-" if math.isinf(s.median_trials) else f"{s.median_trials:.0f}"
    cells = (
        s.row.family,
        s.row.name,
        f"{s.row.delta:g}",
        f"{s.violated:.1%} ({low:.1%} to {high:.1%})",
        f"{s.unsafe_operation:.1%}",
        f"{s.found:.0%}",
        trials,
        f"{s.gain:.0%}",
        f"{s.recall:.0%}",
    )
    return "| " + " | ".join(cells) + " |"


def _summary(plain: dict[str, Any]) -> Summary:
    low, high = plain["violated_interval"]
    trials = plain["median_trials"]
    own = {
        "row": from_plain(Row, plain["row"]),
        "violated_interval": (low, high),
        "median_trials": math.inf if trials is None else trials,
    }
    return Summary(**plain | own)
