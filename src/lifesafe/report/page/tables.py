"""Tables of the page: all trials, calibration, targets served, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lifesafe._config import to_plain
from lifesafe.optimizer import Stage
from lifesafe.optimizer.calibration import BANDS
from lifesafe.report.page.checks import WORDS, all_checks
from lifesafe.report.page.operation_chart import serving_rows
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.trial_charts import DEVIATIONS
from lifesafe.report.page.wording import escaped, number, percent, target_text

_SIGNS = {"holds": "✓", "quiet": "✓", "doubt": "!", "failed": "✗", "open": "○", "given": "–"}


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, label: str, words: Iterable[int] = ()) -> str:
    """Return a table that scrolls in itself; cells are texts, which are escaped.

    Args:
        header: Names of the columns.
        rows: The cells.
        label: What the table holds, for people who do not see it.
        words: Columns that hold words; all others hold numbers, to the right.
    """
    left = set(words)
    kinds = ["" if i in left else ' class="number"' for i in range(len(header))]
    head = "".join(f'<th scope="col"{kind}>{escaped(name)}</th>' for name, kind in zip(header, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{escaped(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(label)}"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def checks_table(reading: Reading) -> str:
    """Return the assumptions with their checks."""
    rows = "".join(
        f'<tr><th scope="row">{escaped(check.assumption)}</th>'
        f'<td><span class="finding finding-{check.finding}"><span aria-hidden="true">{_SIGNS[check.finding]}</span> '
        f"{escaped(WORDS[check.finding])}</span></td>"
        f'<td>{escaped(check.outcome)}<span class="made">{escaped(check.made)}</span></td></tr>'
        for check in all_checks(reading)
    )
    return (
        '<table class="checks"><thead><tr><th scope="col">It assumes that</th><th scope="col">Finding</th>'
        f'<th scope="col">In this run</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def trials_table(reading: Reading) -> str:
    """Return all trials."""
    names = reading.problem.names
    header = ["trial", "stage", "target", "episodes", "mean reward"]
    for name in names[1:]:
        header += [f"mean {name}", "limit"]
    header += ["risk", "spent", "safe set", "result"]
    rows = []
    for moment in reading.history.moments:
        result, trial = moment.result, moment.result.trial
        cells = [str(trial.number), trial.stage.value, target_text(trial.target), str(len(result.episodes))]
        cells.append(number(float(result.episodes[:, 0].mean()), 4))
        for mean, sd, limit in zip(moment.mean_costs, moment.noise_sds, moment.limits, strict=True):
            cells += [f"{number(mean)} ± {number(DEVIATIONS * sd, 2)}", number(limit)]
        charged = "–" if trial.stage is Stage.SEED else number(trial.risk, 2)
        cells += [charged, number(moment.spent, 2), f"{int(moment.safe.sum()):,}"]
        above = any(mean > limit for mean, limit in zip(moment.mean_costs, moment.limits, strict=True))
        cells.append("violation" if result.violated else "above, not certain" if above else "kept")
        rows.append(cells)
    return table(header, rows, label="All trials", words=(1, 2, len(header) - 1))


def calibration_table(reading: Reading) -> str:
    """Return how often the bands held what they should."""
    header = ["return", *(f"in {percent(band)}" for band in BANDS), "mean", "sd", "bands are"]
    rows = [[cell.replace("%", "\N{NO-BREAK SPACE}%") for cell in row] for row in reading.history.calibration.rows()]
    return table(header, rows, label="Calibration", words=(0, len(header) - 1))


def servings_table(reading: Reading) -> str:
    """Return the targets served in operation."""
    header = ["target", "episodes", "why", "mean reward", "mean cost / limit", "ended by"]
    return table(header, serving_rows(reading), label="Targets served", words=(0, 2, 5))


def settings_tables(reading: Reading) -> Iterator[tuple[str, str]]:
    """Return what the run was begun with: for each part its name and its table."""
    problem, schedule = reading.problem, reading.history.schedule
    seeds = ", ".join(target_text(problem.target(i)) for i in problem.seeds[:8])
    more = f" and {len(problem.seeds) - 8} more" if len(problem.seeds) > 8 else ""
    low, high = problem.candidates.min(axis=0), problem.candidates.max(axis=0)
    axes = [f"{n}: {number(float(a))} to {number(float(b))}" for n, a, b in zip(problem.names, low, high, strict=True)]
    stated: dict[str, Any] = {
        "candidates": f"{len(problem.candidates):,}; {'; '.join(axes)}",
        "seeds": f"{seeds}{more}",
        "limits": [*problem.limits],
        "delta": problem.delta,
        "cost_bounds": [*problem.cost_bounds] or "none",
        "dispersions": [*problem.dispersions],
        "trust_prior": problem.trust_prior,
        "lipschitz": [*problem.lipschitz] or "none",
        "dither": problem.dither or "none",
        "priors": to_plain(problem.priors),
    }
    yield "Problem", _pairs(stated)
    yield "Schedule", _pairs(to_plain(schedule))
    for name, part in reading.manifest.items():
        if name != "schedule":
            shown = part if isinstance(part, Mapping) else {name: part}
            yield f"{name} (run.toml)", _pairs(shown)


def _pairs(plain: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escaped(key)}</th><td>{escaped(_shown(value))}</td></tr>' for key, value in _flat(plain)
    )
    return f'<table class="pairs"><tbody>{rows}</tbody></table>'


def _flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_shown(each) for each in value)
    if isinstance(value, float):
        return f"{value:g}"
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)
