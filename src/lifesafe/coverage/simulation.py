"""Many deployments of one row, in parallel, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from lifesafe.coverage.deployment import Outcome, Row, deploy
from lifesafe.errors import ConfigError

_CHUNK = 10


@dataclass(frozen=True)
class Summary:
    """Rates over all deployments of a row."""

    row: Row
    deployments: int
    violated: float
    """Share of deployments with any trial above the limit."""
    violated_interval: tuple[float, float]
    """Its 95 % interval (Wilson)."""
    unsafe_operation: float
    found: float
    """Share that ended within 5 % of the best reachable reward, safely."""
    median_trials: float
    """Median trials until then; infinite where more than half never got there."""
    gain: float
    """Mean share of the way from the seed's reward to the best reachable one."""
    recall: float
    spent: float
    frozen: float
    worst: float = 0.0
    """Mean, over the deployments that violate, of the largest mean cost of a trial, in limits; 0 if none does."""

    @property
    def keeps_promise(self) -> bool:
        """Whether the share of violating deployments is compatible with at most delta."""
        return self.violated_interval[0] <= self.row.delta

    def to_plain(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        plain = asdict(self)
        plain["violated_interval"] = list(self.violated_interval)
        plain["median_trials"] = None if np.isinf(self.median_trials) else self.median_trials
        return plain


def simulate(
    row: Row,
    deployments: int,
    *,
    first: int = 0,
    workers: int = 1,
    advance: Callable[[int], None] = lambda count: None,
) -> list[Outcome]:
    """Return the outcomes of so many deployments, in order.

    Args:
        row: What to simulate.
        deployments: How many.
        first: Number of the first; other numbers draw other maps.
        workers: Processes.
        advance: Called with the number of deployments just finished.
    """
    if deployments < 1 or workers < 1:
        raise ConfigError(f"Got {deployments} deployments on {workers} workers; give at least one of each.")
    starts = range(first, first + deployments, _CHUNK)
    chunks = [range(start, min(start + _CHUNK, first + deployments)) for start in starts]
    outcomes: list[Outcome] = []
    for part in _run(row, chunks, workers):
        outcomes += part
        advance(len(part))
    return outcomes


def summarize(row: Row, outcomes: Sequence[Outcome]) -> Summary:
    """Return the rates of some outcomes."""
    violated = sum(outcome.violations > 0 for outcome in outcomes)
    return Summary(
        row=row,
        deployments=len(outcomes),
        violated=violated / len(outcomes),
        violated_interval=wilson(violated, len(outcomes)),
        unsafe_operation=float(np.mean([outcome.operates_unsafe for outcome in outcomes])),
        found=float(np.mean([outcome.found for outcome in outcomes])),
        median_trials=float(np.median([outcome.trials_to_found for outcome in outcomes])),
        gain=float(np.mean([outcome.gain for outcome in outcomes])),
        recall=float(np.mean([outcome.recall for outcome in outcomes])),
        spent=float(np.mean([outcome.spent for outcome in outcomes])),
        frozen=float(np.mean([outcome.frozen for outcome in outcomes])),
        worst=sum(outcome.worst for outcome in outcomes) / max(violated, 1),
    )


def wilson(successes: int, total: int, quantile: float = 1.96) -> tuple[float, float]:
    """Return the Wilson interval of a binomial share."""
    share, extra = successes / total, quantile**2 / total
    middle = (share + extra / 2) / (1 + extra)
    half = quantile * np.sqrt(share * (1 - share) / total + extra / (4 * total)) / (1 + extra)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def _run(row: Row, chunks: list[range], workers: int) -> Iterator[list[Outcome]]:
    if workers == 1:
        yield from (_deploy_all(row, chunk) for chunk in chunks)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_deploy_all, [row] * len(chunks), chunks)


def _deploy_all(row: Row, numbers: range) -> list[Outcome]:
    return [deploy(row, number) for number in numbers]
