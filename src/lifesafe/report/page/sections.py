"""The sections of the page: one question each, with a sentence on what to look for, then charts and tables."""

from __future__ import annotations

import shlex
from importlib.metadata import version

from lifesafe.report.page import tables
from lifesafe.report.page.checks import not_promised
from lifesafe.report.page.operation_chart import operation_figure, operation_notes
from lifesafe.report.page.plane import View, plane_figure, plane_legend, plane_notes
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.svg import legend
from lifesafe.report.page.target_charts import asked_against_measured, slice_charts, slice_title
from lifesafe.report.page.top import top
from lifesafe.report.page.trial_charts import (
    both,
    calibration_chart,
    calibration_legend,
    cost_figure,
    ledger_chart,
    reward_figure,
    trial_legend,
    violations_chart,
    violations_legend,
)
from lifesafe.report.page.wording import escaped, number, plural
from lifesafe.report.words import guarantee


def all_sections(reading: Reading, shown: list[View]) -> str:
    """Return the main part of the page as HTML.

    Args:
        reading: The run.
        shown: The ways to look at the plane of targets.
    """
    told = bool(reading.history.moments)
    parts = [top(reading), _guarantee(reading)]
    parts += [_costs(reading), _reward(reading)] if told else [_nothing(2, "costs", "Were the limits kept?")]
    parts.append(_safe_set(reading, shown))
    parts += [_targets(reading), _risk(reading)] if told else []
    parts += [_operation(reading), _trials(reading), _settings(reading)]
    return "\n".join(parts)


def _nothing(number_: int, name: str, title: str) -> str:
    return _section(number_, name, title, "No trial is told yet; costs, rewards and all that follows come with it.", "")


def _guarantee(reading: Reading) -> str:
    items = "".join(f"<li>{escaped(text)}</li>" for text in not_promised(reading))
    operation = ""
    if any(serving.config is not None for serving in reading.operated.servings):
        config = next(s.config for s in reversed(reading.operated.servings) if s.config is not None)
        operation = (
            "<p>In operation a monitor looks at every episode. While every mean cost keeps its limit, its rule “mean”"
            f" ever raises a false alarm at a target with probability at most {number(config.level)}, and false alarms"
            f" of its rule “drift” are at least {number(config.run_length, 4)} episodes apart in the mean. Both hold"
            " whatever the distribution of the costs, within their bounds; one beyond them is an alarm at once.</p>"
        )
    statement, _, rest = guarantee(reading.history).partition(". ")
    body = (
        f'<p class="statement">{escaped(statement.rstrip("."))}.</p><p class="lead">{escaped(rest)}</p>'
        f"{operation}{tables.checks_table(reading)}"
        f'<div class="not-promised"><h3>Not promised</h3><ul>{items}</ul></div>'
    )
    return _section(1, "guarantee", "The guarantee, and what it rests on", "", body)


def _costs(reading: Reading) -> str:
    parts = []
    for k in range(len(reading.problem.limits)):
        chart, notes = cost_figure(reading, k)
        parts.append(_figure(chart, f"{reading.problem.names[1 + k].capitalize()} of every trial.", notes))
    below = both(lambda width: violations_chart(reading, width)) + violations_legend(reading)
    parts.append(_figure(below, "Violations so far.", []))
    lead = (
        "A trial asks for one target for some episodes. Its mean, with ± 2 standard deviations, should stay below the"
        " limit; single episodes may lie above."
    )
    return _section(2, "costs", "Were the limits kept?", lead, "".join(parts))


def _reward(reading: Reading) -> str:
    lead = "The search explores first and earns later; the line is the target that would be operated after each trial."
    chart, notes = reward_figure(reading)
    return _section(3, "reward", "What did it bring?", lead, _figure(chart, "Reward of every trial.", notes))


def _safe_set(reading: Reading, shown: list[View]) -> str:
    count = len(reading.history.moments)
    lead = (
        "Every cell is a target (R, G) that the policy may be asked for. Only targets of the safe set are tried; trials"
        " next to its border let it grow."
    )
    choice = ""
    if len(shown) > 1:
        options = "".join(f'<option value="{i}">{escaped(view.title)}</option>' for i, view in enumerate(shown))
        choice = f'<label class="choice">Plane <select id="plane-view">{options}</select></label>'
    controls = ""
    if count > 1:
        controls = (
            '<div class="controls scripted"><button type="button" id="play" aria-pressed="false">Play</button>'
            f'<label for="moment">After trial <output id="moment-number">{count}</output> of {count}</label>'
            f'<input type="range" id="moment" min="1" max="{count}" value="{count}" step="1"></div>'
        )
    caption = '<p id="moment-caption" class="moment-caption" aria-live="polite"></p>' if count else ""
    body = f'<div class="scripted">{choice}</div>{controls}{caption}{plane_figure(reading, shown)}'
    figure = _figure(body + plane_legend(reading), "Safe set over the plane of targets.", plane_notes(reading, shown))
    return _section(4, "safe-set", "How did the safe set grow?", lead, figure)


def _targets(reading: Reading) -> str:
    names = reading.problem.names
    charts = "".join(f"<div>{asked_against_measured(reading, axis)}</div>" for axis in range(len(names)))
    first = _figure(
        f'<div class="halves">{charts}</div>'
        + trial_legend(
            reading,
            ("line", "diagonal", "as asked"),
            ("line", "limit", "limit"),
            ("ring", "focus", "operated" if reading.operated.serving else "best certified"),
        ),
        "Asked for and measured, for every target tried; bars are ± 2 standard deviations of the mean.",
        [],
    )
    slices = slice_charts(reading)
    second = ""
    if slices:
        panels = "".join(f"<div>{chart}</div>" for chart in slices)
        columns = "halves" if len(slices) <= 4 else "thirds"
        keys = legend(
            [
                ("band", "model", "confidence band of the model"),
                ("line", "limit", "limit"),
                ("ring", "focus", "the target"),
            ]
        )
        second = _figure(
            f'<div class="{columns}">{panels}</div>{keys}',
            f"What the model believes along lines through the target {slice_title(reading)}, and what was measured.",
            ["Bands are those that the next decision would use; the ends of wide ones leave the charts."],
        )
    lead = (
        "A policy does not return what it is asked for. How far it misses is what the trials measure; a target is"
        " chosen for what it returns, not for what it says."
    )
    return _section(5, "targets", "Target against actual", lead, first + second)


def _risk(reading: Reading) -> str:
    schedule, counts = reading.history.schedule.risk, len(reading.state.posterior.observations)
    if schedule == "ledger":
        told = (
            "Every first visit of a target is charged the probability, as known then, that it breaks a limit. The"
            " charges never exceed delta."
        )
        if reading.limit_changes:
            told += " New limits begin a new ledger."
    elif schedule == "paper":
        told = "Under the paper's union bound nothing is charged; the sum of the risks is shown for comparison."
    else:
        told = "The fixed schedule charges nothing and guarantees nothing; the sum of the risks is shown."
    ledger = _section(6, "risk", "Risk ledger", told, _figure(ledger_chart(reading), "Risk spent against delta.", []))
    batches = counts - len(reading.history.moments)
    further = f" The last {batches if batches > 1 else 'one'} came from operation." if batches else ""
    predicted = (
        "Each observation predicted from all others. If the model is right, half of the signs lie in the darkest band"
        f" and one in twenty outside the palest.{further}"
    )
    figure = _figure(calibration_chart(reading) + calibration_legend(reading), "Standardized residuals.", [])
    body = figure + tables.calibration_table(reading)
    calibration = _section(7, "calibration", "Can the model be believed?", predicted, body)
    return f'<div class="pair">{ledger}{calibration}</div>'


def _operation(reading: Reading) -> str:
    operated = reading.operated
    if not operated.servings:
        return _section(8, "operation", "Operation", "Operation has not begun: no target is served yet.", "")
    lead = (
        f"{plural(operated.episodes, 'episode')} at {plural(len(operated.servings), 'target')}: "
        f"{plural(len(operated.alarms), 'alarm')}, {plural(operated.fallbacks, 'fallback')}. "
        "Evidence that reaches its line raises the alarm; the target is then given up for a less costly one."
    )
    halted = f'<p class="notice tone-bad">Halted: {escaped(operated.halted)}.</p>' if operated.halted else ""
    figure = _figure(
        operation_figure(reading), "Cost of every episode, and the evidence of the monitor.", operation_notes(reading)
    )
    return _section(8, "operation", "Operation", lead, halted + figure + tables.servings_table(reading))


def _trials(reading: Reading) -> str:
    if not reading.history.moments:
        return _section(9, "trials", "All trials", "No trial is told yet.", "")
    lead = (
        "Means of the episodes with ± 2 standard deviations. Risk: that the target breaks a limit, as known when it was"
        " asked for; it is charged on the first visit, but not for seeds that are being certified or have been. Safe"
        " set: targets that could be tried afterwards."
    )
    return _section(9, "trials", "All trials", lead, tables.trials_table(reading))


def _settings(reading: Reading) -> str:
    events, run = reading.events, shlex.quote(str(reading.run))
    marks = {
        "problem": reading.problem.fingerprint,
        "problem as begun": str(events[0].body["fingerprint"]),
        "data": str(reading.setting("data", "fingerprint") or "none recorded"),
        "head of the journal": events[-1].hash,
    }
    if marks["problem"] == marks["problem as begun"]:
        del marks["problem as begun"]
    rows = "".join(
        f'<tr><th scope="row">{escaped(k)}</th><td><code>{escaped(v)}</code></td></tr>' for k, v in marks.items()
    )
    span = f"{plural(len(events), 'event')} from {events[0].time[:19]} to {events[-1].time[:19]} UTC"
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
    return _section(10, "settings", "Settings, versions, fingerprints", "", body)


def _section(number_: int, name: str, title: str, lead: str, body: str) -> str:
    told = f'<p class="lead">{escaped(lead)}</p>' if lead else ""
    return f'<section id="{name}"><h2><span>{number_}</span> {escaped(title)}</h2>{told}{body}</section>'


def _figure(chart: str, caption: str, notes: list[str]) -> str:
    told = "".join(f" {escaped(note)}" for note in notes)
    return f"<figure>{chart}<figcaption><b>{escaped(caption)}</b>{told}</figcaption></figure>"
