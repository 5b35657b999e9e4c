"""Charts with one place per trial: costs against their limits, rewards, forecasts, and the risk that was used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from lifesafe.console.prompts import plural
from lifesafe.journal.history import Tried
from lifesafe.report.forecasts import Measured, outcomes
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.svg import WIDE, Chart, Figure, Sign, padded
from lifesafe.report.wording import listed, mean_text, number

SHAPES = {"start": "square", "search": "circle", "base": "slab", "newcomer": "triangle", "test": "diamond"}
"""Sign of the trials of each stage."""
_NAMED = 8  # episodes beyond a chart that are listed
_SPREAD = 0.56  # of a place, over which the episodes of a trial are drawn, in their order
_TALL = 3.0  # limits up to which single episodes may stretch a chart
_MOST = (0.05, 0.95)  # quantiles of the rewards; single episodes may stretch a chart by their distance, at each end


def stages(reading: Reading) -> list[str]:
    """Return the stages that occur, in the order of `SHAPES`."""
    found = {tried.asked.stage for tried in reading.history.trials.values()}
    return [stage for stage in SHAPES if stage in found]


def trial_figure(reading: Reading, axis: int) -> Figure:
    """Return one return of every trial: the reward (0) and that of the target to operate, or a cost and its limit."""
    ends = _cost_ends(reading, axis) if axis else _reward_ends(reading)
    signs = [Sign(SHAPES[stage], f"stage-{stage}", f"mean of a trial, {stage}") for stage in stages(reading)]
    signs.append(Sign("dots", "episode", "one episode"))
    if axis:
        if any(scout_of(each) for each in counted(reading)):
            signs += [Sign("dash", "center", "mean of its center"), Sign("small", "scout", "mean of its scout")]
        signs.append(Sign("line", "limit", "limit"))
        signs += [Sign("cross", "violation", "clearly above the limit")] if reading.exceeded else []
    elif reading.best_after:
        signs.append(Sign("line", "best", "target to operate as of then, mean of its episodes"))
        signs.append(Sign("line", "lower", "the same by the model, from all episodes"))
    episodes = [(float(x), each.number) for each in counted(reading) for x in each.episodes[:, axis]]
    far = sorted((each for each in episodes if not ends[0] <= each[0] <= ends[1]), key=lambda each: -abs(each[0]))
    signs += [Sign("arrow", "episode", "one beyond the chart")] if far else []
    return Figure(
        caption=f"{reading.names[axis].capitalize()} of every trial.",
        charts=(partial(_trials, reading, axis, ends),),
        legend=tuple(signs),
        notes=_left_out(far),
    )


def forecast_figure(reading: Reading) -> Figure:
    """Return what was forecast of every target of a trial, and what came back."""
    found = [outcomes(reading, axis) for axis in range(len(reading.names))]
    signs = [
        Sign("forecast", "forecast", "forecast: a cost, median to 95\N{NO-BREAK SPACE}% quantile; a reward ± 2 sd"),
        Sign("dots", "measured", "measured mean ± 2 sd"),
    ]
    if any(each.is_surprise for part in found for each in part):
        signs.append(Sign("diamond", "surprise", "clearly beyond its forecast"))
    charts = tuple(partial(_forecasts, reading, axis, part) for axis, part in enumerate(found) if part)
    return Figure(caption="Forecast and measured means of every trial.", charts=charts, legend=tuple(signs))


def ledger_figure(reading: Reading) -> Figure:
    """Return the risk used against delta."""
    used, most = number(reading.beliefs.spent, 2), number(reading.problem.delta)
    return Figure(
        caption=f"Risk used: {used} of delta = {most}.",
        charts=(partial(_ledger, reading),),
        legend=(
            Sign("line", "spent", "risk used by all trials until then"),
            Sign("line", "limit", "all that is allowed"),
        ),
    )


def counted(reading: Reading) -> list[Tried]:
    """Return the trials of which episodes count."""
    return [each for each in reading.history.told if each.told]


def trial_tip(reading: Reading, tried: Tried) -> str:
    """Return a trial in a few lines, for the pointer."""
    names, episodes = reading.names, tried.episodes
    lines = [
        f"Trial {tried.number}, {tried.asked.stage}: {plural(len(episodes), 'episode')}",
        f"center {reading.text(tried.center)}",
    ]
    scout = scout_of(tried)
    if scout is not None:
        lines.append(f"scout {reading.text(scout)}, {plural(len(episodes_of(tried, 1)), 'episode')}")
    means, halves = episodes.mean(axis=0), reading.doubt(episodes)
    lines.append(f"mean reward {number(float(means[0]))}")
    parts = zip(names[1:], means[1:].tolist(), halves[1:].tolist(), tried.limits, strict=True)
    lines += [f"{mean_text(name, mean)} ± {number(half)} (limit {number(b)})" for name, mean, half, b in parts]
    if tried.retracted is not None:
        lines.append("retracted; the true episodes count")
    return "\n".join(lines)


def _trials(reading: Reading, axis: int, ends: tuple[float, float], width: int) -> Chart:
    name, trials = reading.names[axis], counted(reading)
    label = f"Mean {name} of {plural(len(trials), 'trial')}"
    if axis:
        above = sum(float(each.episodes[:, axis].mean()) > each.limits[axis - 1] for each in trials)
        label += f" against the limit; {above} above it"
    elif (last := reading.best_after.get(trials[-1].number)) is not None:
        label += f"; the target to operate in the end earns {number(last.means[0])}"
    tall = (340 if width == WIDE else 290) if axis else 270
    chart = Chart(f"{label}.", size=(width, tall), x=_ends(reading), y=ends, name=f"trials-{axis}-{width}")
    chart.annotate(_events(reading))
    chart.axes("trial", f"{name} per episode", whole=True)
    _episode_dots(chart, reading, axis)
    if not axis or reading.problem.promise == "trial":  # about the total, two or three episodes say next to nothing
        _mean_bars(chart, reading, axis)
    for tried in trials:
        if axis and scout_of(tried) is not None:
            for which, shape, kind in ((0, "dash", "center"), (1, "small", "scout")):
                rows = episodes_of(tried, which)
                if len(rows):
                    chart.mark(tried.number, min(float(rows[:, axis].mean()), ends[1]), shape, kind)
        mean = min(float(tried.episodes[:, axis].mean()), ends[1])
        tip = trial_tip(reading, tried) if axis and width == WIDE else ""
        chart.mark(tried.number, mean, SHAPES[tried.asked.stage], f"stage-{tried.asked.stage}", tip)
        if axis and tried.number in reading.exceeded:
            chart.mark(tried.number, mean, "cross", "violation")
    if axis:
        _limit_lines(chart, reading, axis - 1)
    else:
        _best_lines(chart, reading)
    return chart


def _cost_ends(reading: Reading, axis: int) -> tuple[float, float]:
    """Return the ends of the chart of a cost: up to the limit, all means and most of the single episodes."""
    trials = counted(reading)
    limit = max([reading.problem.limits[axis - 1], *(each.limits[axis - 1] for each in trials)])
    costs = [each.episodes[:, axis] for each in trials]
    means, single = max(float(each.mean()) for each in costs), max(float(each.max()) for each in costs)
    return 0.0, 1.06 * max(limit, min(means, 10 * limit), min(single, _TALL * limit))


def _reward_ends(reading: Reading) -> tuple[float, float]:
    """Return the ends of the chart of rewards: around all means, and most of the single episodes."""
    rewards = np.concatenate([each.episodes[:, 0] for each in counted(reading)])
    low, high = (float(value) for value in np.quantile(rewards, _MOST))
    room = high - low
    values = [max(float(rewards.min()), low - room), min(float(rewards.max()), high + room)]
    values += [float(tried.episodes[:, 0].mean()) for tried in counted(reading)]
    for best in reading.best_after.values():
        values += [best.means[0], reading.modeled(best)]
    return padded(values)


def _best_lines(chart: Chart, reading: Reading) -> None:
    """Draw the reward of the target to operate; it is interrupted where there is none."""
    xs, measured, modeled = list[float](), list[float](), list[float]()
    for tried in (*reading.history.told, None):
        best = None if tried is None else reading.best_after.get(tried.number)
        if tried is None or best is None:
            chart.line(xs, modeled, "lower")
            chart.line(xs, measured, "best")
            xs, measured, modeled = [], [], []
        else:
            xs += [tried.number - 0.5, tried.number + 0.5]
            measured += [best.means[0]] * 2
            modeled += [reading.modeled(best)] * 2


def _forecasts(reading: Reading, axis: int, found: Sequence[Measured], width: int) -> Chart:
    name, beyond = reading.names[axis], sum(each.is_surprise for each in found)
    values = [value for each in found for value in (each.measured, *each.forecast)]
    ends = padded(values)
    if axis:
        limit = reading.problem.limits[axis - 1]
        most = max([limit, *(each.measured for each in found)])
        ends = (0.0, 1.08 * max(most, min(max(values, default=0.0), _TALL * limit)))
    chart = Chart(
        f"Forecast and measured mean {name} of {plural(len(found), 'target')} of trials; {beyond} clearly beyond.",
        size=(width, 230), x=_ends(reading), y=ends, name=f"forecast-{axis}-{width}",
    )  # fmt: skip
    chart.axes("trial", f"mean {name}", whole=True)
    # A scout stands a little to the right of its center.
    places = [each.trial + (0.28 if i and found[i - 1].trial == each.trial else -0.02) for i, each in enumerate(found)]
    chart.intervals(places, [each.forecast[0] for each in found], [each.forecast[1] for each in found], "forecast")
    means, halves = [each.measured for each in found], [each.half for each in found]
    chart.intervals(places, np.subtract(means, halves), np.add(means, halves), "measured")
    chart.dots(places, means, "measured")
    for place, each in zip(places, found, strict=True):
        if each.is_surprise:
            tip = (
                f"Trial {each.trial}, target {reading.text(each.point)}\nforecast"
                f" {number(each.forecast[0])} to {number(each.forecast[1])}, came back {number(each.measured)}"
            )
            chart.mark(place, each.measured, "diamond", "surprise", tip)
    if axis:
        _limit_lines(chart, reading, axis - 1)
    return chart


def _ledger(reading: Reading, width: int) -> Chart:
    delta, spent = reading.problem.delta, reading.spent_after
    label = f"Risk used after every trial: {number(reading.beliefs.spent, 2)} of {number(delta)} in the end."
    top = 1.18 * max([delta, *(value for _, value in spent)])
    chart = Chart(label, size=(width, 230), x=_ends(reading), y=(0, top), name=f"ledger-{width}")
    chart.annotate(_events(reading))
    chart.axes("trial", "risk used so far", whole=True)
    xs = [x for at, _ in spent for x in (at - 0.5, at + 0.5)]
    ys = [value for _, value in spent for _ in range(2)]
    chart.band(xs, [0.0] * len(xs), ys, "spent")
    chart.line(xs, ys, "spent")
    chart.horizontal(delta, "limit", f"delta = {number(delta)}")
    return chart


def _ends(reading: Reading) -> tuple[float, float]:
    return 0.5, max(reading.history.trials, default=1) + 0.5


def _episode_dots(chart: Chart, reading: Reading, axis: int) -> None:
    """Draw the single episodes, those of one stage as one shape, and those of all scouts."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for tried in counted(reading):
        count = len(tried.episodes)
        for i, value in enumerate(tried.episodes[:, axis].tolist()):
            kind = "scout" if tried.asked.tickets[i] else f"stage-{tried.asked.stage}"
            xs, ys = found.setdefault(kind, ([], []))
            xs.append(tried.number + _SPREAD * ((i + 0.5) / count - 0.5))
            ys.append(value)
    for kind, (xs, ys) in found.items():
        chart.dots(xs, ys, f"episode {kind}")


def _left_out(far: Sequence[tuple[float, int]]) -> tuple[str, ...]:
    """Return which episodes lie beyond the chart, each with its trial."""
    if not far:
        return ()
    named = listed(f"{number(value)} (trial {trial})" for value, trial in far[:_NAMED])
    more = f"the farthest {_NAMED}: " if len(far) > _NAMED else ""
    return (f"{plural(len(far), 'episode')} beyond the chart, drawn as arrows at its edge: {more}{named}.",)


def _mean_bars(chart: Chart, reading: Reading, axis: int) -> None:
    for stage in stages(reading):
        own = [each for each in counted(reading) if each.asked.stage == stage]
        means: list[float] = [float(each.episodes[:, axis].mean()) for each in own]
        halves = [float(reading.doubt(each.episodes)[axis]) for each in own]
        at = [each.number for each in own]
        chart.intervals(at, np.subtract(means, halves), np.add(means, halves), f"stage-{stage}")


def _limit_lines(chart: Chart, reading: Reading, cost: int) -> None:
    """Draw the limit of a cost where it held, on the axis of trials."""
    start, stop = _ends(reading)
    trials = list(reading.history.trials.values())
    limit = trials[0].limits[cost] if trials else reading.problem.limits[cost]
    for place, limits in (*reading.limit_changes, (stop, reading.problem.limits)):
        chart.line([start, place], [limit, limit], "limit")
        start, limit = place, limits[cost]


def _events(reading: Reading) -> list[tuple[float, str, str]]:
    """Return what else happened among the trials: other limits, retractions, confirmations."""
    asked = [each.asked_number for each in reading.history.trials.values()]
    marks = [(place, f"limit {', '.join(map(number, limits))}", "change") for place, limits in reading.limit_changes]
    marks += [(float(each.number), "retracted", "change") for each in reading.retracted]
    marks += [(sum(n < at for n in asked) + 0.5, "confirmed", "change") for at, _ in reading.history.confirmed]
    low, high = _ends(reading)
    return [mark for mark in marks if low < mark[0] < high]
