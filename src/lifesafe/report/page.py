"""The page: what its templates need, put into one file that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lifesafe._files import write_atomic
from lifesafe.console.prompts import plural
from lifesafe.report import plane, tables
from lifesafe.report.account_chart import account_figure
from lifesafe.report.checks import WORDS, all_checks
from lifesafe.report.operation_chart import operation_figure, service_rows
from lifesafe.report.promise import limits_text, qualifications, statement
from lifesafe.report.reading import Reading
from lifesafe.report.svg import Figure
from lifesafe.report.target_charts import line_figure
from lifesafe.report.trial_charts import counted, forecast_figure, ledger_figure, trial_figure
from lifesafe.report.verdict import badges, price, result, toll, tone
from lifesafe.report.wording import each_of, listed, number, percent


@dataclass(frozen=True)
class Tile:
    """A number that matters; of something that is limited, with the share that is used."""

    name: str
    value: str
    note: str
    used: float | None = None
    upper: float = 0.0


def write_page(reading: Reading, path: Path) -> None:
    """Write the report of a run as one HTML file, all of it or nothing.

    Raises:
        OSError: If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page_html(reading))


def page_html(reading: Reading, *, live: bool = False) -> str:
    """Return the report of a run as one HTML document that needs nothing else; a live one asks its server for news."""
    told = counted(reading)
    open_ = reading.history.open
    under_way = "" if open_ is None else listed(reading.text(point) for point in open_.asked.targets)
    view = {
        "reading": reading, "under_way": under_way, "last": reading.records[-1], "version": reading.version,
        "command": shlex.quote(str(reading.run)),
        "tone": tone(reading), "result": result(reading), "toll": toll(reading), "price": price(reading),
        "badges": badges(reading), "tiles": list(_tiles(reading)), "statement": statement(reading),
        "limits": limits_text(reading.problem), "qualifications": qualifications(reading),
        "checks": all_checks(reading), "words": WORDS, "is_told": bool(told),
        "trial_figures": [trial_figure(reading, axis) for axis in range(len(reading.names))] if told else [],
        "paid_figure": paid_figure(reading),
        "plane_caption": plane.plane_caption, "plane_shapes": plane.plane_shapes, "plane_chart": plane.plane_chart,
        "plane_legend": plane.plane_legend(reading), "plane_notes": plane.plane_notes(reading), "thumb": plane.thumb,
        "sizes": plane.SIZES, "targets": tables.targets_table(reading), "line_figure": line_figure(reading),
        "forecast_figure": forecast_figure(reading) if told else None,
        "operation_figure": operation_figure(reading), "services": service_rows(reading),
        "fallbacks": sum(each.service.serving.rung > 0 for each in reading.services),
        "trials": tables.trials_table(reading), "settings": list(_settings(reading)),
        "data": reading.setting("data", "fingerprint") or "none recorded",
    }  # fmt: skip
    return _render("report.html", live=live, **view)


def waiting_html(run: Path, why: str) -> str:
    """Return the live page of a run that cannot be read yet."""
    return _render("document.html", live=True, version="none", run=run, why=why)


def paid_figure(reading: Reading) -> Figure | None:
    """Return the ledger or the account, whichever there is."""
    if reading.beliefs.account is not None and not all(reading.problem.sure):
        return account_figure(reading) if reading.saved else None
    return ledger_figure(reading) if reading.charges and reading.history.trials else None


def part(name: str) -> str:
    """Return a file that stands beside the templates."""
    return (files("lifesafe.report") / "templates" / name).read_text(encoding="utf-8")


def _render(template: str, *, live: bool, **view: Any) -> str:
    script = part("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'" + ("; connect-src 'self'" if live else "")
    )
    style = part("charts.css") + part("style.css")
    view |= {"policy": policy, "style": style, "script": script, "live": live, "installed": version("lifesafe")}
    return _templates().get_template(template).render(view)


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("lifesafe.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters |= {"plural": plural, "listed": listed, "number": number, "percent": percent}
    found.filters["share"] = lambda used: f"{100 * min(max(used, 0.0), 1.0):.1f}%"
    return found


def _tiles(reading: Reading) -> Iterator[Tile]:
    problem, chosen, tally, account = reading.problem, reading.chosen, reading.tally, reading.beliefs.account
    if chosen is not None:
        yield Tile("mean reward", number(chosen.means[0]), f"{number(reading.modeled(chosen))} by the model")
        parts = zip(reading.names[1:], chosen.means[1:], chosen.expected, problem.limits, strict=True)
        for name, mean, upper, limit in parts:
            most = f"by the model, from all targets, at most {number(upper)} (95\N{NO-BREAK SPACE}%)"
            note = f"limit {number(limit)}; {most}" if upper else f"limit {number(limit)}, which no episode can exceed"
            yield Tile(f"mean {name}", number(mean), note, mean / limit, upper / limit)
    kinds = f"{tally.start} start, {tally.search} search, {tally.operation:,} operation"
    retracted = tally.total - tally.counted
    kinds += f"; {plural(retracted, 'episode')} of retracted trials do not count" if retracted else ""
    yield Tile("real episodes", f"{tally.total:,}", kinds)
    if tally.counted:
        note = f"{percent(tally.above / tally.counted)} of the {plural(tally.counted, 'episode')} that count"
        note += f"; the stop ended {plural(tally.ended, 'episode')}" if tally.ended is not None else ""
        yield Tile("episodes above a limit", f"{tally.above:,}", note)
        yield Tile(
            "worst episode", each_of(tally.largest), tally.where[0] if len(tally.where) == 1 else listed(tally.worst)
        )
    if reading.charges:
        used = reading.beliefs.spent
        note = f"of the {number(problem.delta)} that is allowed (delta)"
        yield Tile("risk used", number(used, 2), note, used / problem.delta)
    if account is not None:
        note = f"cost saved against the limit; an episode of a newcomer needs {each_of(account.prices)}"
        yield Tile("account holds", each_of(account.holds), note)


def _settings(reading: Reading) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Return what the run was begun with: for each part its name and its rows."""
    plain = reading.problem.to_plain()
    plain["axes"] = "; ".join(f"{name}: {low:g} to {high:g} {unit}".rstrip() for name, low, high, unit in plain["axes"])
    starts = reading.problem.starts
    plain["starts"] = "; ".join(reading.text(start) for start in starts[:8])
    if reading.problem.targets is not None:
        plain["targets"] = f"{len(reading.problem.targets):,}, and no others"
    yield "Problem", list(_flat(plain))
    for name, part in reading.manifest.items():
        title = f"{name[:1].upper()}{name[1:]} (run.toml)"
        yield title, list(_flat(part if isinstance(part, Mapping) else {name: part}))


def _flat(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_shown(each) for each in value)
    if isinstance(value, float):
        return f"{value:g}"
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)
