"""What the outcomes of a row add up to, as JSON and as a Markdown table that says whether the promise was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from lifesafe.lab.coverage.deployment import CoverageRow, Deployment
from lifesafe.safety.problem import INCIDENT

_LEVEL = 0.95
_LUMPS = dict.fromkeys(
    ("rare", "lumps_7_5", "lumps_15", "lumps_50", "falls_7_5", "falls_50"), "a mishap costs at most {} limits"
)
_DAYS = dict.fromkeys(("day_03", "day_06"), "episodes are a fair sample of all days")
_ROUGH = dict.fromkeys(("cliff", "edge", "rough", "gp_target", "gp_flat"), "maps are no rougher than the prior")
_RIVALS = {
    "printed": "none: the formulas as printed call everything safe",
    "consistent": "the paper's kernel is right",
    "safeopt": "SafeOpt's kernel is right",
}
_HEADER = (
    "| family | search | promise | stop | delta | deployments | violated | at most | verdict | above | regret | use |"
    " episodes | held |"
)


@dataclass(frozen=True, kw_only=True)
class RowSummary:
    """Rates and means over the deployments of a row."""

    row: CoverageRow
    deployments: int
    violated: float
    """Share of deployments in which the promise was broken."""
    upper: float
    """Upper end of its one-sided 95 % interval (Clopper and Pearson)."""
    lower: float
    """Lower end of the other one."""
    exceeded: tuple[float, float]
    """By how much the limit was exceeded where the promise was broken, in limits: median and largest."""
    broken_sure: int
    """Deployments in which a newcomer overdrew the account."""
    window: tuple[float, float]
    """Excess of the worst window that ended with a newcomer, in limits: median and largest."""
    above: float
    """Share of trials above the limit; with the promise "total", of episodes."""
    operates_unsafe: float
    regrets: tuple[float, ...]
    """Mean at each checkpoint of the row. What is unsafe to operate never counts as better than the best."""
    use: float
    """Mean cost of what is recommended, in limits."""
    recommended: float
    episodes: float
    held: float
    spent: float

    @property
    def verdict(self) -> str:
        """Whether the promise was kept; if it was not, which stated assumption the row breaks."""
        if self.broken_sure:
            return f"**BROKEN**: the account was overdrawn by a newcomer in {self.broken_sure}"
        if self.upper <= self.row.delta:
            return "keeps"
        broken = assumption(self.row)
        if self.violated <= self.row.delta or (broken is None and self.lower <= self.row.delta):
            return "too few deployments to tell"
        median, largest = self.exceeded
        by = f"by {median:.0%} of the limit, at most {largest:.0%}"
        if broken is None:
            return f"**VIOLATES** {by}"
        held = f"; held in {self.held:.0%}" if self.held else ""
        return f"assumption broken: {broken}; {by}{held}"

    def to_plain(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        return asdict(self) | {"checkpoints": list(self.row.checkpoints), "verdict": self.verdict}


def assumption(row: CoverageRow) -> str | None:
    """Return the stated assumption that the machines of a row break; none if they keep all of them."""
    if row.search != "ours":
        return _RIVALS[row.search]
    if row.family in _DAYS or row.promise == "total":
        return _DAYS.get(row.family)
    if row.stop is None and row.incident != "horizon" and row.family in _LUMPS:
        return _LUMPS[row.family].format(f"{row.incident or INCIDENT:g}")
    return _ROUGH.get(row.family)


def summarize_row(row: CoverageRow, outcomes: Sequence[Deployment]) -> RowSummary:
    """Return what the outcomes of a row add up to."""
    n, violated = len(outcomes), sum(outcome.violated for outcome in outcomes)
    excess = [outcome.worst - 1 for outcome in outcomes if outcome.violated]
    windows = [outcome.window for outcome in outcomes]
    regrets = np.array([outcome.regrets for outcome in outcomes])
    unsafe = np.array([outcome.operates_unsafe for outcome in outcomes])
    regrets[unsafe, -1] = np.maximum(regrets[unsafe, -1], 0.0)
    return RowSummary(
        row=row,
        deployments=n,
        violated=violated / n,
        upper=upper_end(violated, n),
        lower=1 - upper_end(n - violated, n),
        exceeded=(float(np.median(excess)), max(excess)) if excess else (0.0, 0.0),
        broken_sure=sum(outcome.broken_sure for outcome in outcomes),
        window=(float(np.median(windows)), max(windows)),
        above=float(np.mean([outcome.share for outcome in outcomes])),
        operates_unsafe=float(unsafe.mean()),
        regrets=tuple(regrets.mean(axis=0).tolist()),
        use=float(np.mean([outcome.use for outcome in outcomes])),
        recommended=float(np.mean([outcome.recommended for outcome in outcomes])),
        episodes=float(np.mean([outcome.episodes for outcome in outcomes])),
        held=float(np.mean([outcome.held for outcome in outcomes])),
        spent=float(np.mean([outcome.spent for outcome in outcomes])),
    )


def upper_end(successes: int, total: int) -> float:
    """Return the upper end of the one-sided 95 % interval of Clopper and Pearson for a share."""
    return 1.0 if successes == total else float(betaincinv(successes + 1, total - successes, _LEVEL))


def markdown(found: Mapping[CoverageRow, Sequence[Deployment]]) -> str:
    """Return a Markdown table with one line for each row."""
    lines = [_line(summarize_row(row, outcomes)) for row, outcomes in found.items()]
    return "\n".join([_HEADER, "|---" * _HEADER.count(" |") + "|", *lines]) + "\n"


def _line(s: RowSummary) -> str:
    row = s.row
    search = row.search if row.lengthscale is None else f"{row.search}, length {row.lengthscale:g}"
    stop = f"{row.stop:g}" if row.stop is not None else "horizon" if row.incident == "horizon" else "-"
    marks = [
        f"{regret:.3f}" + (f" at {at}" if len(s.regrets) > 1 else "")
        for regret, at in zip(s.regrets, row.checkpoints, strict=True)
    ]
    cells = (
        row.family, search, row.promise, stop, f"{row.delta:g}", f"{s.deployments}", f"{s.violated:.1%}",
        f"{s.upper:.1%}", s.verdict, f"{s.above:.1%}", ", ".join(marks), f"{s.use:.2f}",
        f"{s.episodes:.0f} of {row.episodes}", f"{s.held:.0%}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"
