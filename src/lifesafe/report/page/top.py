"""The top of the page: the run in one sentence, its status, and the numbers that matter most."""

from __future__ import annotations

from lifesafe.report.page.reading import Reading
from lifesafe.report.page.verdict import badges, headline, tone
from lifesafe.report.page.wording import escaped, number, plural, target_text


def top(reading: Reading) -> str:
    """Return the top of the page as HTML."""
    marks = "".join(
        f'<li class="badge tone-{badge.tone}"><span>{escaped(badge.name)}</span> {escaped(badge.value)}</li>'
        for badge in badges(reading)
    )
    last = reading.events[-1]
    when = f"As of event {last.number:,}, {last.time[:10]} {last.time[11:19]} UTC"
    waiting = "".join(
        f'<p class="notice">Trial {trial.number} ({trial.stage.value}) is under way: '
        f"{escaped(target_text(trial.target))}, {plural(trial.episodes, 'episode')} asked for.</p>"
        for trial in reading.open_trials[:3]
    )
    notices = "".join(f'<p class="notice tone-warn">{escaped(text)}</p>' for text in reading.notices)
    return (
        f'<header class="top tone-{tone(reading)}"><p class="overline">Safety report · {escaped(reading.name)}</p>'
        f'<h1>{escaped(headline(reading))}</h1><ul class="badges">{marks}</ul>{_tiles(reading)}{waiting}{notices}'
        f'<p class="when">{escaped(when)} · run <code>{escaped(reading.run)}</code></p></header>'
    )


def _tiles(reading: Reading) -> str:
    problem, moments, chosen = reading.problem, reading.history.moments, reading.chosen
    tiles = []
    if chosen is not None:
        tiles.append(
            _tile("mean reward", number(chosen.means.reward), f"by the model at least {number(chosen.reward_lower)}")
        )
        for k, name in enumerate(problem.names[1:]):
            bar = _bar(chosen.means.costs[k] / problem.limits[k], chosen.cost_upper[k] / problem.limits[k])
            note = f"at most {number(chosen.cost_upper[k])} (99\N{NO-BREAK SPACE}%), limit {number(problem.limits[k])}"
            tiles.append(_tile(f"mean {name}", number(chosen.means.costs[k]), note, bar))
    episodes = sum(len(m.result.episodes) for m in moments)
    note = f"in {plural(len(moments), 'trial')}, {plural(episodes, 'episode')}"
    tiles.append(_tile("violations shown", str(reading.violations), note))
    if reading.history.schedule.risk == "ledger":
        bar = _bar(reading.spent / problem.delta)
        tiles.append(_tile("risk spent", number(reading.spent, 2), f"of delta = {number(problem.delta)}", bar))
    if reading.operated.servings:
        alarms = plural(len(reading.operated.alarms), "alarm")
        tiles.append(_tile("operation", f"{reading.operated.episodes:,}", f"episodes, {alarms}"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _tile(name: str, value: str, note: str, bar: str = "") -> str:
    told = f"<p>{escaped(name)}</p><strong>{escaped(value)}</strong>{bar}<small>{escaped(note)}</small>"
    return f'<div class="tile">{told}</div>'


def _bar(share: float, upper: float | None = None) -> str:
    """Return how much of something is used up, as a bar; with an upper bound, as a paler bar behind."""
    inner = "" if upper is None else f'<i class="upper" style="width:{100 * min(max(upper, 0), 1):.1f}%"></i>'
    return (
        f'<span class="meter" aria-hidden="true">{inner}<i style="width:{100 * min(max(share, 0), 1):.1f}%"></i></span>'
    )
