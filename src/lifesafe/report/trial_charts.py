"""Charts with one place per trial: costs against their limits, rewards, forecasts, and the risk that was used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Int

from lifesafe.journal.history import Tried
from lifesafe.report.forecasts import Outcome, outcomes
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.svg import WIDE, Chart, Figure, Sign, padded
from lifesafe.report.wording import listed, mean_text, number, plural

SHAPES = {"start": "square", "search": "circle", "base": "slab", "newcomer": "triangle", "test": "diamond"}
"""Sign of the trials of each stage."""
_DOTS = 6000  # episodes up to which each is drawn
_NAMED = 8  # episodes beyond a chart that are listed
_SPREAD = 0.56  # of a place, over which the episodes of a trial are drawn, in their order
_TALL = 3.0  # limits up to which single episodes may stretch a chart
_MOST = (0.05, 0.95)  # quantiles of the rewards; single episodes may stretch a chart by their distance, at each end


def stages(reading: Reading) -> list[str]:
    """Return the stages that occur, in the order of `SHAPES`."""
    found = {tried.asked.stage for tried in reading.history.trials.values()}
    return [stage for stage in SHAPES if stage in found]


def cost_figure(reading: Reading, cost: int) -> Figure:
    """Return the cost of every trial against its limit."""
    ends = (0.0, _cost_top(reading, cost))
    signs = _trial_signs(reading)
    if any(scout_of(each) for each in counted(reading)):
        signs += [Sign("dash", "center", "mean of its center"), Sign("small", "scout", "mean of its scout")]
    signs.append(Sign("line", "limit", "limit"))
    if reading.exceeded:
        signs.append(Sign("cross", "violation", "clearly above the limit"))
    return Figure(
        caption=f"{reading.names[1 + cost].capitalize()} of every trial.",
        charts=(partial(_costs, reading, cost, ends),),
        legend=(*signs, *_arrow(reading, 1 + cost, ends)),
        notes=_left_out(reading, 1 + cost, ends),
    )


def reward_figure(reading: Reading) -> Figure:
    """Return the reward of every trial, and of the target to operate after it."""
    ends, signs = _reward_ends(reading), _trial_signs(reading)
    if reading.best_after:
        signs.append(Sign("line", "best", "target to operate as of then, mean of its episodes"))
        signs.append(Sign("line", "lower", "the same by the model, from all episodes"))
    return Figure(
        caption="Reward of every trial.",
        charts=(partial(_rewards, reading, ends),),
        legend=(*signs, *_arrow(reading, 0, ends)),
        notes=_left_out(reading, 0, ends),
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


def _trial_signs(reading: Reading) -> list[Sign]:
    found = [Sign(SHAPES[stage], f"stage-{stage}", f"mean of a trial, {stage}") for stage in stages(reading)]
    return [*found, Sign("dots", "episode", "one episode")]


def _costs(reading: Reading, cost: int, ends: tuple[float, float], width: int) -> Chart:
    name, axis, trials, top = reading.names[1 + cost], 1 + cost, counted(reading), ends[1]
    above = sum(float(each.episodes[:, axis].mean()) > each.limits[cost] for each in trials)
    chart = Chart(
        f"Mean {name} of {plural(len(trials), 'trial')} against the limit; {above} above it.",
        size=(width, 340 if width == WIDE else 290), x=_ends(reading), y=ends, name=f"cost-{cost}-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading))
    chart.axes("trial", f"{name} per episode", whole=True)
    _episode_dots(chart, reading, axis)
    if reading.problem.promise == "trial":  # about the total, the mean of two or three episodes says next to nothing
        _mean_bars(chart, reading, axis)
    for tried in trials:
        mean, stage = float(tried.episodes[:, axis].mean()), tried.asked.stage
        if scout_of(tried) is not None:
            for which, shape, kind in ((0, "dash", "center"), (1, "small", "scout")):
                rows = episodes_of(tried, which)
                if len(rows):
                    chart.mark(tried.number, min(float(rows[:, axis].mean()), top), shape, kind)
        tip = trial_tip(reading, tried) if width == WIDE else ""
        chart.mark(tried.number, min(mean, top), SHAPES[stage], f"stage-{stage}", tip)
        if tried.number in reading.exceeded:
            chart.mark(tried.number, min(mean, top), "cross", "violation")
    for start, stop, limit in _limit_spans(reading, cost):
        chart.line([start, stop], [limit, limit], "limit")
    return chart


def _cost_top(reading: Reading, cost: int) -> float:
    trials = counted(reading)
    limit = max([reading.problem.limits[cost], *(each.limits[cost] for each in trials)])
    costs = [each.episodes[:, 1 + cost] for each in trials]
    means = max(float(each.mean()) for each in costs)
    single = max(float(each.max()) for each in costs)
    return 1.06 * max(limit, min(means, 10 * limit), min(single, _TALL * limit))


def _rewards(reading: Reading, ends: tuple[float, float], width: int) -> Chart:
    trials = counted(reading)
    last = reading.best_after.get(trials[-1].number)
    earns = f" The target to operate in the end earns {number(last.means[0])}." if last is not None else ""
    chart = Chart(
        f"Mean reward of {plural(len(trials), 'trial')}.{earns}",
        size=(width, 270), x=_ends(reading), y=ends, name=f"reward-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading))
    chart.axes("trial", "reward per episode", whole=True)
    _episode_dots(chart, reading, 0)
    _mean_bars(chart, reading, 0)
    for tried in trials:
        mean, stage = float(tried.episodes[:, 0].mean()), tried.asked.stage
        chart.mark(tried.number, mean, SHAPES[stage], f"stage-{stage}")
    _best_lines(chart, reading)
    return chart


def _reward_ends(reading: Reading) -> tuple[float, float]:
    """Return the ends of the chart of rewards: around all means, and most of the single episodes."""
    rewards = np.concatenate([each.episodes[:, 0] for each in counted(reading)])
    low, high = (float(value) for value in np.quantile(rewards, _MOST))
    room = high - low
    values = [max(float(rewards.min()), low - room), min(float(rewards.max()), high + room)]
    values += [float(tried.episodes[:, 0].mean()) for tried in counted(reading)]
    for best in reading.best_after.values():
        values += [best.means[0], _by_model(reading, best.modeled)]
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
            modeled += [_by_model(reading, best.modeled)] * 2


def _by_model(reading: Reading, share: float) -> float:
    low, high = reading.problem.rewards  # type: ignore[misc]  # made so by the problem
    return low + (high - low) * share


def _forecasts(reading: Reading, axis: int, found: Sequence[Outcome], width: int) -> Chart:
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
        for start, stop, value in _limit_spans(reading, axis - 1):
            chart.line([start, stop], [value, value], "limit")
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


def _shown(reading: Reading, tried: Tried, axis: int) -> Int[np.ndarray, " s"]:
    """Return which episodes of a trial are drawn: all of them, or, of very many, the lowest and the highest."""
    values = tried.episodes[:, axis]
    if sum(len(each.episodes) for each in counted(reading)) <= _DOTS:
        return np.arange(len(values))
    return np.array([values.argmin(), values.argmax()])


def _episode_dots(chart: Chart, reading: Reading, axis: int) -> None:
    """Draw the single episodes, those of one stage as one shape, and those of all scouts."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for tried in counted(reading):
        values, count = tried.episodes[:, axis], len(tried.episodes)
        for i in _shown(reading, tried, axis):
            kind = "scout" if tried.asked.tickets[i] else f"stage-{tried.asked.stage}"
            xs, ys = found.setdefault(kind, ([], []))
            xs.append(tried.number + _SPREAD * ((i + 0.5) / count - 0.5))
            ys.append(float(values[i]))
    for kind, (xs, ys) in found.items():
        chart.dots(xs, ys, f"episode {kind}")


def _beyond(reading: Reading, axis: int, ends: tuple[float, float]) -> list[tuple[float, int]]:
    """Return the episodes beyond the ends of a chart, each with its trial, those farthest out first."""
    found = [(float(x), tried.number) for tried in counted(reading) for x in tried.episodes[:, axis]]
    return sorted((each for each in found if not ends[0] <= each[0] <= ends[1]), key=lambda each: -abs(each[0]))


def _arrow(reading: Reading, axis: int, ends: tuple[float, float]) -> list[Sign]:
    return [Sign("arrow", "episode", "one beyond the chart")] if _beyond(reading, axis, ends) else []


def _left_out(reading: Reading, axis: int, ends: tuple[float, float]) -> tuple[str, ...]:
    """Return which episodes lie beyond the chart, and how very many are drawn."""
    notes, far = [], _beyond(reading, axis, ends)
    if far:
        named = listed(f"{number(value)} (trial {trial})" for value, trial in far[:_NAMED])
        more = f"the farthest {_NAMED}: " if len(far) > _NAMED else ""
        notes.append(f"{plural(len(far), 'episode')} beyond the chart, drawn as arrows at its edge: {more}{named}.")
    episodes = sum(len(each.episodes) for each in counted(reading))
    if episodes > _DOTS:
        notes.append(f"Of the {episodes:,} episodes, the lowest and the highest of every trial are drawn.")
    return tuple(notes)


def _mean_bars(chart: Chart, reading: Reading, axis: int) -> None:
    for stage in stages(reading):
        own = [each for each in counted(reading) if each.asked.stage == stage]
        means: list[float] = [float(each.episodes[:, axis].mean()) for each in own]
        halves = [float(reading.doubt(each.episodes)[axis]) for each in own]
        at = [each.number for each in own]
        chart.intervals(at, np.subtract(means, halves), np.add(means, halves), f"stage-{stage}")


def _limit_spans(reading: Reading, cost: int) -> list[tuple[float, float, float]]:
    """Return where which limit held, on the axis of trials."""
    start, stop = _ends(reading)
    trials = list(reading.history.trials.values())
    first = trials[0].limits[cost] if trials else reading.problem.limits[cost]
    found, limit = [], first
    for place, limits in reading.limit_changes:
        found.append((start, place, limit))
        start, limit = place, limits[cost]
    return [*found, (start, stop, limit)]


def _events(reading: Reading) -> list[tuple[float, str, str]]:
    """Return what else happened among the trials: other limits, retractions, confirmations."""
    asked = [each.asked_number for each in reading.history.trials.values()]
    marks = [(place, f"limit {', '.join(map(number, limits))}", "change") for place, limits in reading.limit_changes]
    marks += [(float(each.number), "retracted", "change") for each in reading.retracted]
    marks += [(sum(n < at for n in asked) + 0.5, "confirmed", "change") for at, _ in reading.history.confirmed]
    low, high = _ends(reading)
    return [mark for mark in marks if low < mark[0] < high]
