"""The sections of the page: one question each, with a sentence on what to look for, then charts and tables."""

from __future__ import annotations

import shlex
from importlib.metadata import version

from lifesafe.report import tables
from lifesafe.report.account_chart import account_figure
from lifesafe.report.operation_chart import operation_figure, operation_notes
from lifesafe.report.plane import plane_figure, plane_notes
from lifesafe.report.promise import meaning, not_promised, statement
from lifesafe.report.reading import Reading
from lifesafe.report.target_charts import (
    asked_against_measured,
    asked_legend,
    line_charts,
    line_legend,
    well_measured,
)
from lifesafe.report.top import top
from lifesafe.report.trial_charts import (
    cost_figure,
    forecast_figure,
    forecast_legend,
    ledger_chart,
    reward_figure,
)
from lifesafe.report.wording import escaped, number, plural


def all_sections(reading: Reading) -> str:
    """Return the main part of the page as HTML."""
    parts = (top, _promise, _costs, _reward, _paid, _targets, _forecasts, _operation, _trials, _settings)
    return "\n".join(part(reading) for part in parts)


def _promise(reading: Reading) -> str:
    items = "".join(f"<li>{escaped(text)}</li>" for text in not_promised(reading))
    body = (
        f'<p class="statement">{escaped(statement(reading))}</p><p class="lead">{escaped(meaning(reading))}</p>'
        f'{tables.checks_table(reading)}<div class="not-promised"><h3>Not promised</h3><ul>{items}</ul></div>'
    )
    return _section(1, "promise", "The promise, and what it rests on", "", body)


def _costs(reading: Reading) -> str:
    if not _is_told(reading):
        return _section(2, "costs", "Were the limits kept?", "No trial is told yet.", "")
    parts = []
    for k, name in enumerate(reading.names[1:]):
        chart, notes = cost_figure(reading, k)
        parts.append(_figure(chart, f"{name.capitalize()} of every trial.", notes))
    if all(reading.problem.sure):
        lead = "No single episode can cost more than the limit."
    elif reading.problem.promise == "total":
        lead = (
            "Newcomers may lie above the limit: the account has paid for their worst beforehand (section 4). Certified"
            " targets, the base and operation, should lie below it in the mean."
        )
    else:
        lead = (
            "A trial is a lottery: most of its episodes ask for a center, a few for a scout further out. The promise is"
            " about the mean over all of them, which should lie below the limit; scouts and single episodes may lie"
            " above. Bars are ± 2 standard deviations."
        )
    return _section(2, "costs", "Were the limits kept?", lead, "".join(parts))


def _reward(reading: Reading) -> str:
    if not _is_told(reading):
        return _section(3, "reward", "What did it bring?", "No trial is told yet.", "")
    chart, notes = reward_figure(reading)
    lead = "The line is the target that would be operated after each trial, and should rise."
    return _section(3, "reward", "What did it bring?", lead, _figure(chart, "Reward of every trial.", notes))


def _paid(reading: Reading) -> str:
    problem, beliefs = reading.problem, reading.beliefs
    if all(problem.sure):
        lead = "Every single episode keeps the limit, so no risk is charged and no account is needed."
        return _section(4, "paid", "What paid for it?", lead, "")
    if problem.promise == "total":
        account = beliefs.account
        assert account is not None
        lead = (
            "The account holds what episodes have saved against the limit. A newcomer runs only while it holds the"
            " price of its worst episode; else a certified target is served, which saves. Newcomers never bring it"
            " below zero."
        )
        if not reading.saved:
            return _section(4, "paid", "What paid for it? The account", f"{lead} No episode is told yet.", "")
        chart, notes = account_figure(reading)
        return _section(4, "paid", "What paid for it? The account", lead, _figure(chart, "The account.", notes))
    lead = (
        "Every lottery is charged the probability, as known then, that it breaks a limit; a center that has paid is not"
        " charged again. The charges never exceed delta."
    )
    lead += " New limits begin a new ledger." if reading.limit_changes else ""
    if not reading.history.trials:
        return _section(4, "paid", "What paid for it? The ledger", f"{lead} Nothing is charged yet.", "")
    told = f"Risk charged: {number(beliefs.spent, 2)} of delta = {number(problem.delta)}."
    return _section(4, "paid", "What paid for it? The ledger", lead, _figure(ledger_chart(reading), told, []))


def _targets(reading: Reading) -> str:
    problem = reading.problem
    plane = plane_figure(reading)
    first = _figure(plane, "Risk that a mean cost exceeds its limit.", plane_notes(reading)) if plane else ""
    lines = line_charts(reading)
    second = ""
    if lines:
        what = f"What is believed along every axis, through the target {reading.text(reading.focus)}."
        panels = "".join(f"<div>{chart}</div>" for chart in lines)
        second = _figure(f'<div class="halves">{panels}</div>{line_legend(reading)}', what, [])
    third = ""
    if problem.asks_for_returns and well_measured(reading):
        charts = "".join(f"<div>{asked_against_measured(reading, axis)}</div>" for axis in range(len(reading.names)))
        body = f'<div class="halves">{charts}</div>{asked_legend()}'
        third = _figure(body, "Asked for and measured: a policy does not return what it is asked for.", [])
    rows, notes = tables.targets_table(reading)
    fourth = _figure(rows, "Targets that were tried.", notes) if rows else ""
    lead = (
        "A target may be operated once it has paid, or is certified, and has shown by its own episodes what it costs."
        " Between targets, a model says what to expect."
    )
    return _section(5, "targets", "What is known of the targets?", lead, first + fourth + second + third)


def _forecasts(reading: Reading) -> str:
    if not _is_told(reading):
        return _section(6, "forecasts", "Can the model be believed?", "No trial is told yet.", "")
    charts = "".join(forecast_figure(reading, axis) for axis in range(len(reading.names)))
    lead = "Every target was forecast before its episodes were run. If the model is right, few lie clearly beyond."
    if reading.problem.promise == "total" and not all(reading.problem.sure):
        lead += " The promise does not rest on it; only what is proposed does."
    figure = _figure(charts + forecast_legend(reading), "Forecasts, and what came back.", [])
    return _section(6, "forecasts", "Can the model be believed?", lead, figure)


def _operation(reading: Reading) -> str:
    services, history = reading.services, reading.history
    if not services:
        return _section(7, "operation", "Operation", "Operation has not begun: no target is served yet.", "")
    alarms = sum(each.alarm is not None for each in services)
    fallbacks = sum(each.service.serving.rung > 0 for each in services)
    ended = sum(each.service.ended for each in services)
    lead = (
        f"{plural(history.served, 'episode')} at {plural(len(services), 'target')}: {plural(alarms, 'alarm')},"
        f" {plural(fallbacks, 'fallback')}, {plural(len(reading.halts), 'halt')}."
    )
    if reading.problem.stop_at is not None:
        lead += f" The stop has ended {plural(ended, 'episode')}."
    lead += (
        " The watch alarms when its evidence reaches the line; the target is then withdrawn for a less costly one."
        " While every mean keeps its limit, it ever alarms with a probability of at most its level. As long as it is"
        " silent, the mean cost of the episodes served is at most what the table says, whatever happened."
    )
    halted = ""
    if history.halted is not None:
        why = f"{history.halted.why}. {history.halted.advice}"
        halted = f'<p class="notice tone-bad"><b>Halted</b>: {escaped(why)}</p>'
    figure = _figure(operation_figure(reading), "Cost of every episode, and the evidence.", operation_notes(reading))
    return _section(7, "operation", "Operation", lead, halted + figure + tables.services_table(reading))


def _trials(reading: Reading) -> str:
    if not reading.history.told:
        return _section(8, "trials", "All trials", "No trial is told yet.", "")
    lead = "Means over all episodes of a trial with ± 2 standard deviations."
    return _section(8, "trials", "All trials", lead, tables.trials_table(reading))


def _settings(reading: Reading) -> str:
    records, run = reading.records, shlex.quote(str(reading.run))
    marks = {
        "problem": reading.problem.fingerprint,
        "data": str(reading.setting("data", "fingerprint") or "none recorded"),
        "head of the journal": records[-1].hash,
    }
    rows = "".join(
        f'<tr><th scope="row">{escaped(k)}</th><td><code>{escaped(v)}</code></td></tr>' for k, v in marks.items()
    )
    span = f"{plural(len(records), 'event')} from {records[0].time[:19]} to {records[-1].time[:19]} UTC"
    commands = "\n".join(
        [
            f"lifesafe journal verify {run}",
            f"lifesafe journal export {run} --out events.jsonl",
            f"lifesafe report {run} --out figure.pdf",
        ]
    )
    details = "".join(
        f"<details><summary>{escaped(name[:1].upper() + name[1:])}</summary>{body}</details>"
        for name, body in tables.settings_tables(reading)
    )
    body = (
        f'<h3>Fingerprints</h3><table class="pairs"><tbody>{rows}</tbody></table><p>{escaped(span)}; the report was'
        f" made by lifesafe {escaped(version('lifesafe'))}. Keep the head elsewhere if you must show later that nothing"
        f" was rewritten.</p><h3>Check it yourself</h3><pre><code>{escaped(commands)}</code></pre>"
        f'<h3>Settings and versions</h3><div class="details">{details}</div>'
    )
    return _section(9, "settings", "Settings, versions, fingerprints", "", body)


def _is_told(reading: Reading) -> bool:
    """Whether there is a trial of which episodes count."""
    return any(each.told for each in reading.history.told)


def _section(number_: int, name: str, title: str, lead: str, body: str) -> str:
    told = f'<p class="lead">{escaped(lead)}</p>' if lead else ""
    return f'<section id="{name}"><h2><span>{number_}</span> {escaped(title)}</h2>{told}{body}</section>'


def _figure(chart: str, caption: str, notes: list[str]) -> str:
    told = "".join(f" {escaped(note)}" for note in notes)
    return f"<figure>{chart}<figcaption><b>{escaped(caption)}</b>{told}</figcaption></figure>"
