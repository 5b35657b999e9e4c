"""The top of the page: the run in one sentence, its promise, its status, and the numbers that matter most."""

from __future__ import annotations

from lifesafe.report.promise import qualifications, statement
from lifesafe.report.reading import Reading
from lifesafe.report.verdict import badges, price, result, tone
from lifesafe.report.wording import escaped, listed, number, percent, plural
from lifesafe.safety.account import Account


def top(reading: Reading) -> str:
    """Return the top of the page as HTML."""
    marks = "".join(
        f'<li class="badge tone-{badge.tone}"><span>{escaped(badge.name)}</span> {escaped(badge.value)}</li>'
        for badge in badges(reading)
    )
    last, against = reading.records[-1], qualifications(reading)
    when = f"As of event {last.number:,}, {last.time[:10]} {last.time[11:19]} UTC"
    doubt = "".join(f'<p class="notice tone-warn">{escaped(text)}</p>' for text in against)
    return (
        f'<header class="top tone-{tone(reading)}"><p class="overline">Safety report · {escaped(reading.name)}</p>'
        f'<h1>{escaped(result(reading))}</h1><p class="took">{escaped(price(reading))}</p>'
        f'<ul class="badges">{marks}</ul>'
        f'<p class="promise"><b>Promise{", with qualifications" if against else ""}.</b> {escaped(statement(reading))}'
        f' <a href="#promise">Conditions</a></p>{doubt}{_tiles(reading)}{_waiting(reading)}'
        f'<p class="when">{escaped(when)} · run <code>{escaped(reading.run)}</code></p></header>'
    )


def _waiting(reading: Reading) -> str:
    """Return what is under way, and what could not be read."""
    texts, open_ = list(reading.notices), reading.history.open
    if reading.beliefs.held:
        texts.append(f"The search is held: {reading.beliefs.held}. It goes on once somebody confirms that it may.")
    found = "".join(f'<p class="notice tone-warn">{escaped(text)}</p>' for text in texts)
    if open_ is not None:
        targets = listed(reading.text(point) for point in open_.asked.targets)
        asked = plural(len(open_.asked.tickets), "episode")
        found += f'<p class="notice">Trial {open_.number} is under way: {asked} at {escaped(targets)}.</p>'
    return found


def _tiles(reading: Reading) -> str:
    problem, chosen, tally = reading.problem, reading.chosen, reading.tally
    tiles = []
    if chosen is not None:
        low, high = problem.rewards  # type: ignore[misc]  # made so by the problem
        modeled = f"{number(low + (high - low) * chosen.modeled)} by the model"
        tiles.append(_tile("mean reward", number(chosen.means[0]), modeled))
        parts = zip(reading.names[1:], chosen.means[1:], chosen.expected, problem.limits, strict=True)
        for name, mean, upper, limit in parts:
            most = f"{number(upper)} (95\N{NO-BREAK SPACE}%)"
            note = f"limit {number(limit)}; by the model, from all targets, at most {most}"
            note = note if upper else f"limit {number(limit)}, which no episode can exceed"
            tiles.append(_tile(f"mean {name}", number(mean), note, _bar(mean / limit, upper / limit)))
    note = f"{tally.start} start, {tally.search} search, {tally.operation:,} operation"
    tiles.append(_tile("real episodes", f"{tally.total:,}", note))
    if tally.counted:
        of = "all" if tally.counted == tally.total else f"the {tally.counted:,} that count"
        note = f"{percent(tally.above / tally.counted)} of {of}"
        note += f"; the stop has ended {tally.ended}" if tally.ended is not None else ""
        tiles.append(_tile("above a limit", f"{tally.above:,}", note))
        worst = listed(number(each) for each in tally.largest)
        tiles.append(_tile("worst episode", worst, listed(dict.fromkeys(tally.where))))
    if problem.promise == "trial" and not all(problem.sure):
        tiles.append(_ledger(reading))
    tiles += [_account(account)] if (account := reading.beliefs.account) is not None else []
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _ledger(reading: Reading) -> str:
    spent, delta = reading.beliefs.spent, reading.problem.delta
    return _tile("risk charged", number(spent, 2), f"of delta = {number(delta)}", _bar(spent / delta))


def _account(account: Account) -> str:
    prices = listed(number(each) for each in account.prices)
    return _tile("account holds", listed(number(each) for each in account.holds), f"price of a newcomer {prices}")


def _tile(name: str, value: str, note: str, bar: str = "") -> str:
    told = f"<p>{escaped(name)}</p><strong>{escaped(value)}</strong>{bar}<small>{escaped(note)}</small>"
    return f'<div class="tile">{told}</div>'


def _bar(share: float, upper: float | None = None) -> str:
    """Return how much of something is used up, as a bar; with an upper end, as a paler bar behind."""
    inner = "" if upper is None else f'<i class="upper" style="width:{100 * min(max(upper, 0), 1):.1f}%"></i>'
    return (
        f'<span class="meter" aria-hidden="true">{inner}<i style="width:{100 * min(max(share, 0), 1):.1f}%"></i></span>'
    )
