"""Operation as one chart per question: what did it cost, and how sure is the monitor that this is too much?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from lifesafe.report.page.operated import Operated, Serving
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.svg import Chart, legend, padded
from lifesafe.report.page.trial_charts import both
from lifesafe.report.page.wording import number, plural, target_text
from lifesafe.returns import Returns

_POINTS = 1200  # episodes up to which each is drawn; above, so many places stand for several each
_TALL = 4.0  # limits up to which single episodes may stretch the chart


def operation_figure(reading: Reading) -> str:
    """Return the charts of operation, one below the other, with their legend."""
    costs = range(len(reading.problem.limits))
    parts = [both(partial(_costs, reading, k)) for k in costs]
    parts += [both(partial(_evidence, reading, rule)) for rule in ("wealth", "drift")]
    items = [
        ("dots", "served", "one episode" if not _step(reading.operated) > 1 else "largest of several episodes"),
        ("line", "running", "mean since the target is served"),
        ("line", "limit", "limit, or the line at which an alarm is raised"),
    ]
    several = len(reading.problem.limits) > 1
    items += [
        ("line", f"cost-{k}", f"evidence, {reading.problem.names[1 + k]}" if several else "evidence") for k in costs
    ]
    if reading.operated.alarms:
        items.append(("line", "alarm", "alarm, and fallback to another target"))
    if reading.operated.halts:
        items.append(("line", "halt", "halt"))
    return "".join(parts) + legend(items)


def operation_notes(reading: Reading) -> list[str]:
    """Return what the reader must know of how it is drawn."""
    step = _step(reading.operated)
    if step <= 1:
        return []
    return [
        f"{plural(reading.operated.episodes, 'episode')} are drawn in steps of {step}: of each step the largest cost"
        " and the strongest evidence."
    ]


def serving_rows(reading: Reading) -> Iterator[tuple[str, ...]]:
    """Return a row for every target served: which, when, why, what it brought, and how it ended."""
    operated = reading.operated
    for i, serving in enumerate(operated.servings):
        last = serving.first + len(serving.episodes) - 1
        when = f"{serving.first:,} – {last:,}" if len(serving.episodes) else "none yet"
        means = serving.means
        costs = zip(means[1:], serving.limits, strict=True)
        alarm = serving.alarm
        if alarm is not None:
            what = f"cost {alarm.cost + 1}, " if len(serving.limits) > 1 else ""
            ended = f"alarm at episode {alarm.episode:,} ({what}rule {alarm.rule}, mean {number(alarm.mean)})"
        elif serving is operated.serving:
            ended = "being served"
        else:
            ended = "another one was served" if i + 1 < len(operated.servings) else "ended"
        yield (
            _target(serving),
            when,
            serving.why,
            number(float(means[0])),
            ", ".join(f"{number(float(mean))} / {number(b)}" for mean, b in costs),
            ended,
        )


def _costs(reading: Reading, cost: int, width: int) -> str:
    operated, name = reading.operated, reading.problem.names[1 + cost]
    limit = max([reading.problem.limits[cost], *(s.limits[cost] for s in operated.servings)])
    values = [float(s.episodes[:, 1 + cost].max()) for s in operated.servings if len(s.episodes)]
    means = [float(s.running_mean(cost)[1:].max(initial=0.0)) for s in operated.servings]
    top = 1.1 * max(limit, min(max(values, default=0.0), _TALL * limit), *means)
    chart = Chart(
        f"{name} of {plural(operated.episodes, 'episode')} of operation against the limit; "
        f"{plural(len(operated.alarms), 'alarm')}.",
        width=width, height=300, x=_ends(operated), y=(0, top), name=f"operation-{cost}-{width}",
    )  # fmt: skip
    _annotate(chart, operated, named=True)
    _shade(chart, operated)
    chart.axes("", f"{name} per episode", whole=True)
    step = _step(operated)
    for serving in operated.servings:
        costs, start = serving.episodes[:, 1 + cost], serving.first
        ends = (start - 0.5, start + max(len(costs), 1) - 0.5)
        chart.dots(*_thinned(costs, start, step), "served")
        x, y = _thinned(serving.running_mean(cost), start, step, last=True)
        chart.line(x, y, "running")
        chart.line(ends, [serving.limits[cost]] * 2, "limit")
    return chart.svg()


def _evidence(reading: Reading, rule: str, width: int) -> str:
    operated = reading.operated
    paths = [s.log_wealth if rule == "wealth" else s.log_drift for s in operated.servings]
    lines = [s.wealth_alarm if rule == "wealth" else s.drift_alarm for s in operated.servings]
    finite = [float(v) for path in paths for v in path.reshape(-1) if math.isfinite(v)]
    finite += [line for line in lines if math.isfinite(line)]
    low, high = padded([0.0, *finite])
    high = min(high, 2.5 * max((line for line in lines if math.isfinite(line)), default=1.0))
    names = {"wealth": "log wealth (mean)", "drift": "log detector (drift)"}
    last = rule == "drift"
    chart = Chart(
        f"Evidence of the rule {'mean' if rule == 'wealth' else 'drift'} of the monitor after every episode.",
        width=width, height=190 if last else 150, x=_ends(operated), y=(low, high), name=f"{rule}-{width}",
    )  # fmt: skip
    if not last:
        chart.bottom += 22  # no numbers below: the chart underneath has them
    _annotate(chart, operated, named=False)
    _shade(chart, operated)
    chart.axes("episode of operation" if last else "", names[rule], whole=True, tick_labels=last)
    step = _step(operated)
    for serving, path, line in zip(operated.servings, paths, lines, strict=True):
        for k, values in enumerate(path):
            chart.line(*_thinned(values, serving.first, step), f"cost-{k}")
        if math.isfinite(line):
            chart.line((serving.first - 0.5, serving.first + max(len(serving.episodes), 1) - 0.5), [line] * 2, "limit")
    return chart.svg()


def _shade(chart: Chart, operated: Operated) -> None:
    for i, serving in enumerate(operated.servings):
        if i % 2:
            chart.shade(serving.first - 0.5, serving.first + len(serving.episodes) - 0.5, "other-serving")


def _annotate(chart: Chart, operated: Operated, *, named: bool) -> None:
    """Mark where targets begin to be served, alarms and halts."""
    marks: list[tuple[float, str, str]] = []
    for i, serving in enumerate(operated.servings):
        why = "" if i == 0 else "fallback to " if operated.servings[i - 1].alarm is not None else "now "
        marks.append((serving.first - 0.5, f"{why}{_target(serving)}", "begin"))
        if serving.alarm is not None:
            marks.append((serving.alarm.episode, "alarm", "alarm"))
    marks += [(halt + 0.5, "halt", "halt") for halt in operated.halts]
    chart.annotate(marks if named else [(x, "", kind) for x, _, kind in marks])


def _target(serving: Serving) -> str:
    reward, *costs = serving.target
    return target_text(Returns(reward, costs))


def _ends(operated: Operated) -> tuple[float, float]:
    return 0.5, max(operated.episodes, 1) + 0.5 + (0.02 * operated.episodes if operated.halts else 0)


def _step(operated: Operated) -> int:
    return math.ceil(operated.episodes / _POINTS) if operated.episodes > _POINTS else 1


def _thinned(values: np.ndarray, first: int, step: int, *, last: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return places and values, of every step the largest value, or the last."""
    if step <= 1:
        return first + np.arange(len(values)), values
    starts = np.arange(0, len(values), step)
    stops = np.minimum(starts + step, len(values))
    if last:
        return first + stops - 1, values[stops - 1]
    return first + (starts + stops - 1) / 2, np.array([values[a:b].max() for a, b in zip(starts, stops, strict=True)])
