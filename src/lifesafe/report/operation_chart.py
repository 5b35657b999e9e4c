"""Operation as one chart per question: what did it cost, and how strong is the evidence that this is too much?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from lifesafe.report.operated import Served
from lifesafe.report.reading import Reading
from lifesafe.report.svg import Chart, both, legend, padded
from lifesafe.report.wording import listed, number, plural

_TALL = 4.0  # limits up to which single episodes may stretch the chart


def operation_figure(reading: Reading) -> str:
    """Return the charts of operation, one below the other, with their legend."""
    costs = range(len(reading.problem.limits))
    parts = [both(partial(_costs, reading, k)) for k in costs]
    parts.append(both(partial(_evidence, reading)))
    items = [
        ("dots", "served", "one episode" if _step(reading) <= 1 else "most costly of several episodes"),
        ("line", "running", "mean since the target is served"),
        ("line", "limit", "limit, or the line at which an alarm is raised"),
    ]
    several = len(reading.problem.limits) > 1
    items += [("line", f"cost-{k}", f"evidence, {reading.names[1 + k]}" if several else "evidence") for k in costs]
    if any(each.alarm for each in reading.services):
        items.append(("line", "alarm", "alarm: the target is withdrawn"))
    if reading.halts:
        items.append(("line", "halt", "halt"))
    return "".join(parts) + legend(items)


def operation_notes(reading: Reading) -> list[str]:
    """Return what the reader must know of how it is drawn."""
    step = _step(reading)
    if step <= 1:
        return []
    return [
        f"{plural(reading.history.served, 'episode')} are drawn in steps of {step}: of each step the largest cost, and"
        " the evidence at its end."
    ]


def service_rows(reading: Reading) -> Iterator[tuple[str, ...]]:
    """Return a row for every target served: which, when, why, what it brought, what is proved, and how it ended."""
    for i, served in enumerate(reading.services):
        count = len(served.episodes)
        means = served.service.means.tolist()
        costs = ", ".join(f"{number(mean)} / {number(b)}" for mean, b in zip(means[1:], served.limits, strict=True))
        # As `Operation.realised_bound`: bounds from incidents are an assumption.
        proved = served.proved if reading.problem.bounds is not None else None
        yield (
            reading.text(served.target),
            f"{served.first:,} – {served.first + count - 1:,}" if count else "none yet",
            served.service.serving.why.partition(":")[0],  # the row above has the rest
            number(means[0]) if count else "–",
            costs if count else "–",
            ", ".join(map(number, proved)) if proved is not None else "–",
            number(served.service.serving.level),
            _ended(reading, i),
        )


def _ended(reading: Reading, i: int) -> str:
    served = reading.services[i]
    if served.alarm is not None:
        what = f"cost {served.alarm.cost + 1}, " if len(served.limits) > 1 else ""
        return f"alarm at its {served.alarm.episode:,}. ({what}{served.alarm.rule})"
    if i + 1 < len(reading.services):
        return "another one is served"
    return "being served" if reading.history.serving is not None else "ended"


def _costs(reading: Reading, cost: int, width: int) -> str:
    services, name = reading.services, reading.names[1 + cost]
    limit = max([reading.problem.limits[cost], *(each.limits[cost] for each in services)])
    single = max((float(each.highest(cost).max(initial=0.0)) for each in services), default=0.0)
    means = [float(each.running(cost).max(initial=0.0)) for each in services]
    top = 1.1 * max(limit, min(single, _TALL * limit), min(max(means, default=0.0), 10 * limit))
    alarms = sum(each.alarm is not None for each in services)
    chart = Chart(
        f"{name.capitalize()} of {plural(reading.history.served, 'episode')} of operation against the limit;"
        f" {plural(alarms, 'alarm')}.",
        width=width, height=290, x=_ends(reading), y=(0, top), name=f"operation-{cost}-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading, named=cost == 0))
    chart.shade([each.ends for each in services[1::2]], "other-service")
    chart.axes("", f"{name} per episode", whole=True)
    for each in services:
        places = each.first - 1 + each.places
        chart.dots(places, each.highest(cost), "served")
        chart.line(places, each.running(cost), "running")
        chart.line(each.ends, [each.limits[cost]] * 2, "limit")
    return chart.svg()


def _evidence(reading: Reading, width: int) -> str:
    services = reading.services
    paths = [each.path[0] for each in services]
    lines = [each.line for each in services]
    finite = [float(v) for path in paths for v in path.reshape(-1) if math.isfinite(v)]
    low, high = padded([0.0, *finite, *lines])
    strongest = number(max(finite, default=0.0))
    chart = Chart(
        f"Logarithm of the evidence of the watch that a mean cost is above its limit: {strongest} at the most; an alarm"
        f" is due at {listed(dict.fromkeys(map(number, lines)))}.",
        width=width, height=200, x=_ends(reading), y=(max(low, -8.0), min(high, 2.5 * max(lines))),
        name=f"evidence-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading, named=False))
    chart.shade([each.ends for each in services[1::2]], "other-service")
    chart.axes("episode of operation", "log evidence", whole=True)
    for each, path, line in zip(services, paths, lines, strict=True):
        for k in range(path.shape[1]):
            chart.line(each.first - 1 + each.places, path[:, k], f"cost-{k}")
        chart.line(each.ends, [line] * 2, "limit")
    return chart.svg()


def _events(reading: Reading, *, named: bool) -> list[tuple[float, str, str]]:
    """Return where targets begin to be served, alarms and halts."""
    marks: list[tuple[float, str, str]] = []
    for i, served in enumerate(reading.services):
        marks.append((served.first - 0.5, f"{_why(reading.services, i)}{_target(reading, served)}", "begin"))
        if served.alarm is not None:
            marks.append((served.first + served.alarm.episode - 1, "alarm", "alarm"))
    marks += [(halt + 0.5, "halt", "halt") for halt in reading.halts]
    return [(x, text if named else "", kind) for x, text, kind in marks]


def _why(services: tuple[Served, ...], i: int) -> str:
    if i == 0:
        return ""
    return "fallback to " if services[i].service.serving.rung else "now "


def _target(reading: Reading, served: Served) -> str:
    # All knobs of a controller are too many for the room above a chart; the table has them.
    return reading.text(served.target) if reading.problem.asks_for_returns else "another setting"


def _ends(reading: Reading) -> tuple[float, float]:
    count = reading.history.served
    return 0.5, max(count, 1) + 0.5 + (0.02 * count if reading.halts else 0)


def _step(reading: Reading) -> int:
    return max((each.step for each in reading.services), default=1)
