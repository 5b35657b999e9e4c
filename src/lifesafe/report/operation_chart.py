"""Operation as one chart per question: what did it cost, and how strong is the evidence that this is too much?"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lifesafe.console.prompts import plural
from lifesafe.report.operated import ServiceView
from lifesafe.report.reading import Reading
from lifesafe.report.svg import Chart, Figure, Sign, padded
from lifesafe.report.wording import listed, number

_TALL = 4.0  # limits up to which single episodes may stretch the chart
_LEAST = -4.0  # power of ten of the evidence below which nothing is drawn


def operation_figure(reading: Reading) -> Figure | None:
    """Return what operation cost, and the evidence that a mean is too high; none before its first episode."""
    if not reading.history.served:
        return None
    costs = range(len(reading.problem.limits))
    step = max(each.step for each in reading.services)
    signs = [
        Sign("dots", "served", "one episode" if step <= 1 else "most costly of several episodes"),
        Sign("line", "running", "mean since the target is served"),
        Sign("line", "limit", "limit, or the line at which an alarm is raised"),
    ]
    several = len(reading.problem.limits) > 1
    signs += [Sign("line", f"cost-{k}", f"evidence, {reading.names[1 + k]}" if several else "evidence") for k in costs]
    if reading.alarms:
        signs.append(Sign("line", "alarm", "alarm: the target is withdrawn"))
    if reading.halts:
        signs.append(Sign("line", "halt", "halt"))
    tops = [_top(reading, k) for k in costs]
    if any((each.highest(k) > tops[k]).any() for each in reading.services for k in costs):
        signs.append(Sign("arrow", "served", "one beyond the chart; section 1 names the largest"))
    note = (
        f"{plural(reading.history.served, 'episode')} are drawn in steps of {step}: of each step the largest cost, and"
        " the evidence at its end."
    )
    return Figure(
        caption="Cost of every episode, and the evidence that its mean is above the limit.",
        charts=(*(partial(_costs, reading, k, tops[k]) for k in costs), partial(_evidence, reading)),
        legend=tuple(signs),
        notes=(note,) if step > 1 else (),
    )


def service_rows(reading: Reading) -> list[list[str]]:
    """Return a row for every target served: which, when, why, what it brought, what is proved, and how it ended."""
    rows = []
    for i, served in enumerate(reading.services):
        count = len(served.episodes)
        means = served.service.means.tolist()
        costs = ", ".join(f"{number(mean)} / {number(b)}" for mean, b in zip(means[1:], served.limits, strict=True))
        # As `Operation.realised_bound`: bounds from incidents are an assumption.
        proved = served.proved if reading.problem.bounds is not None else None
        rows.append(
            [
                reading.text(served.service.target),
                f"{served.first:,} – {served.first + count - 1:,}" if count else "none yet",
                served.service.serving.why.partition(":")[0],  # the row above has the rest
                number(means[0]) if count else "–",
                costs if count else "–",
                ", ".join(map(number, proved)) if proved is not None else "–",
                number(served.service.serving.level),
                _ended(reading, i),
            ]
        )
    return rows


def _ended(reading: Reading, i: int) -> str:
    served = reading.services[i]
    if served.service.alarm is not None:
        what = f"cost {served.service.alarm.cost + 1}, " if len(served.limits) > 1 else ""
        return f"alarm at its {served.service.alarm.episode:,}. ({what}{served.service.alarm.rule})"
    if i + 1 < len(reading.services):
        return "another one is served"
    return "being served" if reading.history.serving is not None else "ended"


def _top(reading: Reading, cost: int) -> float:
    services = reading.services
    limit = max([reading.problem.limits[cost], *(each.limits[cost] for each in services)])
    single = max(float(each.highest(cost).max(initial=0.0)) for each in services)
    mean = max(float(each.running(cost).max(initial=0.0)) for each in services)
    return 1.1 * max(limit, min(single, _TALL * limit), min(mean, 10 * limit))


def _costs(reading: Reading, cost: int, top: float, width: int) -> Chart:
    services, name = reading.services, reading.names[1 + cost]
    chart = Chart(
        f"{name.capitalize()} of {plural(reading.history.served, 'episode')} of operation against the limit;"
        f" {plural(reading.alarms, 'alarm')}.",
        size=(width, 290), x=_ends(reading), y=(0, top), name=f"operation-{cost}-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading, named=cost == 0))
    chart.shade([each.ends for each in services[1::2]], "other-service")
    chart.axes("", f"{name} per episode", whole=True)
    for each in services:
        places = each.first - 1 + each.places
        chart.dots(places, each.highest(cost), "served")
        chart.line(places, each.running(cost), "running")
        chart.line(each.ends, [each.limits[cost]] * 2, "limit")
    return chart


def _evidence(reading: Reading, width: int) -> Chart:
    services, ten = reading.services, math.log(10)
    paths = [each.path[0] / ten for each in services]
    lines = [each.line / ten for each in services]
    finite = [float(value) for path in paths for value in path.reshape(-1) if math.isfinite(value)]
    low, high = padded([0.0, *finite, *lines])
    strongest = number(10 ** max(finite, default=0.0), 2)
    chart = Chart(
        f"Evidence of the watch that a mean cost is above its limit, as odds: {strongest} to 1 at the most; an alarm is"
        f" due at {listed(dict.fromkeys(number(10**line) for line in lines))} to 1.",
        size=(width, 200), x=_ends(reading), y=(max(low, _LEAST), min(high, 2.5 * max(lines))),
        name=f"evidence-{width}", powers=True,
    )  # fmt: skip
    chart.annotate(_events(reading, named=False))
    chart.shade([each.ends for each in services[1::2]], "other-service")
    chart.axes("episode of operation", "evidence, odds to 1", whole=True)
    for each, path, line in zip(services, paths, lines, strict=True):
        for k in range(path.shape[1]):
            chart.line(each.first - 1 + each.places, np.maximum(path[:, k], 2 * _LEAST), f"cost-{k}")
        chart.line(each.ends, [line] * 2, "limit")
    return chart


def _events(reading: Reading, *, named: bool) -> list[tuple[float, str, str]]:
    """Return where targets begin to be served, alarms and halts."""
    marks: list[tuple[float, str, str]] = []
    for i, served in enumerate(reading.services):
        why = "" if i == 0 else "fallback to " if served.service.serving.rung else "now "
        marks.append((served.first - 0.5, f"{why}{_target(reading, served)}", "begin"))
        if served.service.alarm is not None:
            marks.append((served.first + served.service.alarm.episode - 1, "alarm", "alarm"))
    marks += [(halt + 0.5, "halt", "halt") for halt in reading.halts]
    return [(x, text if named else "", kind) for x, text, kind in marks]


def _target(reading: Reading, served: ServiceView) -> str:
    # All knobs of a controller are too many for the room above a chart; the table has them.
    return reading.text(served.service.target) if reading.problem.asks_for_returns else "another setting"


def _ends(reading: Reading) -> tuple[float, float]:
    count = reading.history.served
    return 0.5, count + 0.5 + (0.02 * count if reading.halts else 0)
