"""Charts with one place per trial: costs against their limits, rewards, forecasts, and what was charged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float

from lifesafe.journal.history import Tried
from lifesafe.report.forecasts import Outcome, outcomes
from lifesafe.report.reading import Reading, episodes_of, scout_of
from lifesafe.report.svg import WIDE, Chart, Numbers, both, legend, padded
from lifesafe.report.wording import mean_text, number, plural

SHAPES = {"start": "square", "search": "circle", "base": "slab", "newcomer": "triangle", "test": "diamond"}
"""Sign of the trials of each stage."""
_DOTS = 6000  # episodes up to which each is drawn
_SPREAD = 0.56  # of a place, over which the episodes of a trial are drawn, in their order
_TALL = 3.0  # limits up to which single episodes may stretch a chart
_MOST = (0.05, 0.95)  # quantiles of the rewards; single episodes may stretch a chart by their distance, at each end


def stages(reading: Reading) -> list[str]:
    """Return the stages that occur, in the order of `SHAPES`."""
    found = {tried.asked.stage for tried in reading.history.trials.values()}
    return [stage for stage in SHAPES if stage in found]


def cost_figure(reading: Reading, cost: int) -> tuple[str, list[str]]:
    """Return the chart of the cost of every trial against its limit with its legend, and what was left out."""
    trials = _told(reading)
    episodes, top = sum(len(each.episodes) for each in trials), _cost_top(reading, trials, cost)
    cut = sum(int((each.episodes[:, 1 + cost] > top).sum()) for each in trials)
    notes = [f"{plural(cut, 'episode')} above the top of the chart not drawn."] if cut else []
    if episodes > _DOTS:
        notes = [f"The {episodes:,} single episodes are not drawn, only the means of each trial."]
    items = [(SHAPES[stage], f"stage-{stage}", f"mean of a trial, {stage}") for stage in stages(reading)]
    items.append(("dots", "episode", "one episode"))
    if any(scout_of(each) for each in trials):
        items += [("dash", "center", "mean of its center"), ("small", "scout", "mean of its scout")]
    items.append(("line", "limit", "limit"))
    if any(reading.beliefs.exceeded(each) for each in trials):
        items.append(("cross", "violation", "clearly above the limit"))
    return both(partial(_costs, reading, trials, cost, top)) + legend(items), notes


def reward_figure(reading: Reading) -> tuple[str, list[str]]:
    """Return the chart of the reward of every trial and of the best target with its legend, and what was left out."""
    trials = _told(reading)
    rewards = np.concatenate([each.episodes[:, 0] for each in trials])
    ends = _reward_ends(reading, trials, rewards)
    cut = int(((rewards < ends[0]) | (rewards > ends[1])).sum())
    notes = [f"{plural(cut, 'episode')} beyond the ends of the chart not drawn."] if cut else []
    items = [(SHAPES[stage], f"stage-{stage}", f"mean of a trial, {stage}") for stage in stages(reading)]
    items.append(("dots", "episode", "one episode"))
    if reading.best_after:
        items.append(("line", "best", "target to operate as of then, mean of its episodes"))
        items.append(("line", "lower", "the same by the model, from all episodes"))
    return both(partial(_rewards, reading, trials, rewards, ends)) + legend(items), notes


def forecast_figure(reading: Reading, axis: int) -> str:
    """Return the chart of what was forecast of every target of a trial, and what came back.

    Args:
        reading: The run.
        axis: 0 for the reward, 1 for the first cost, and so on.
    """
    return both(partial(_forecasts, reading, axis, outcomes(reading, axis)))


def forecast_legend(reading: Reading) -> str:
    """Return what the signs of the forecasts mean."""
    found = [each for axis in range(len(reading.names)) for each in outcomes(reading, axis)]
    items = [("forecast", "forecast", "forecast: of a cost median to 95\N{NO-BREAK SPACE}%, of a reward ± 2 sd")]
    items.append(("dots", "measured", "mean that came back, ± 2 sd"))
    if any(each.is_surprise for each in found):
        items.append(("diamond", "surprise", "clearly beyond its forecast"))
    return legend(items)


def ledger_chart(reading: Reading) -> str:
    """Return the risk charged against delta."""
    return both(partial(_ledger, reading))


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


def _told(reading: Reading) -> list[Tried]:
    """Return the trials of which episodes count."""
    return [each for each in reading.history.told if each.told]


def _costs(reading: Reading, trials: Sequence[Tried], cost: int, top: float, width: int) -> str:
    name, axis = reading.names[1 + cost], 1 + cost
    above = sum(float(each.episodes[:, axis].mean()) > each.limits[cost] for each in trials)
    chart = Chart(
        f"Mean {name} of {plural(len(trials), 'trial')} against the limit; {above} above it.",
        width=width, height=340 if width == WIDE else 290, x=_ends(reading), y=(0.0, top), name=f"cost-{cost}-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading, named=True))
    chart.axes("trial", f"{name} per episode", whole=True)
    if sum(len(each.episodes) for each in trials) <= _DOTS:
        _episode_dots(chart, trials, axis)
    if reading.problem.promise == "trial":  # about the total, the mean of two or three episodes says next to nothing
        _mean_bars(chart, reading, trials, axis)
    for tried in trials:
        mean, stage = float(tried.episodes[:, axis].mean()), tried.asked.stage
        if scout_of(tried) is not None:
            for which, shape, kind in ((0, "dash", "center"), (1, "small", "scout")):
                rows = episodes_of(tried, which)
                if len(rows):
                    chart.mark(tried.number, min(float(rows[:, axis].mean()), top), shape, kind)
        tip = trial_tip(reading, tried) if width == WIDE else ""
        chart.mark(tried.number, min(mean, top), SHAPES[stage], f"stage-{stage}", tip)
        if reading.beliefs.exceeded(tried):
            chart.mark(tried.number, min(mean, top), "cross", "violation")
    for start, stop, limit in _limit_spans(reading, cost):
        chart.line([start, stop], [limit, limit], "limit")
    return chart.svg()


def _cost_top(reading: Reading, trials: Sequence[Tried], cost: int) -> float:
    limit = max([reading.problem.limits[cost], *(each.limits[cost] for each in trials)])
    costs = [each.episodes[:, 1 + cost] for each in trials]
    means = max((float(each.mean()) for each in costs), default=0.0)
    single = max((float(each.max()) for each in costs), default=0.0)
    return 1.06 * max(limit, min(means, 10 * limit), min(single, _TALL * limit))


def _rewards(
    reading: Reading,
    trials: Sequence[Tried],
    rewards: Float[np.ndarray, " m"],
    ends: tuple[float, float],
    width: int,
) -> str:
    last = reading.best_after.get(trials[-1].number)
    earns = f" The target to operate in the end earns {number(last.means[0])}." if last is not None else ""
    chart = Chart(
        f"Mean reward of {plural(len(trials), 'trial')}.{earns}",
        width=width, height=270, x=_ends(reading), y=ends, name=f"reward-{width}",
    )  # fmt: skip
    chart.annotate(_events(reading, named=False))
    chart.axes("trial", "reward per episode", whole=True)
    if len(rewards) <= _DOTS:
        _episode_dots(chart, trials, 0)
    _mean_bars(chart, reading, trials, 0)
    for tried in trials:
        mean, stage = float(tried.episodes[:, 0].mean()), tried.asked.stage
        chart.mark(tried.number, mean, SHAPES[stage], f"stage-{stage}")
    _best_lines(chart, reading)
    return chart.svg()


def _reward_ends(reading: Reading, trials: Sequence[Tried], rewards: Float[np.ndarray, " m"]) -> tuple[float, float]:
    """Return the ends of the chart of rewards: around all means, and most of the single episodes."""
    low, high = (float(value) for value in np.quantile(rewards, _MOST))
    room = high - low
    values = [max(float(rewards.min()), low - room), min(float(rewards.max()), high + room)]
    values += [float(tried.episodes[:, 0].mean()) for tried in trials]
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


def _forecasts(reading: Reading, axis: int, found: Sequence[Outcome], width: int) -> str:
    name, beyond = reading.names[axis], sum(each.is_surprise for each in found)
    values = [value for each in found for value in (each.measured, *each.forecast)]
    if axis:
        limit = reading.problem.limits[axis - 1]
        most = max([limit, *(each.measured for each in found)])
        ends = (0.0, 1.08 * max(most, min(max(values, default=0.0), _TALL * limit)))
    else:
        ends = padded(values)
    chart = Chart(
        f"Forecast and measured mean {name} of {plural(len(found), 'target')} of trials; {beyond} clearly beyond.",
        width=width, height=230, x=_ends(reading), y=ends, name=f"forecast-{axis}-{width}",
    )  # fmt: skip
    chart.axes("trial", f"mean {name}", whole=True)
    # A scout stands a little to the right of its center.
    seen: set[int] = set()
    places = []
    for each in found:
        places.append(each.trial + (0.28 if each.trial in seen else -0.02))
        seen.add(each.trial)
    lows, highs = [each.forecast[0] for each in found], [each.forecast[1] for each in found]
    chart.intervals(places, lows, highs, "forecast")
    means = [each.measured for each in found]
    halves = [each.half for each in found]
    chart.intervals(places, np.subtract(means, halves), np.add(means, halves), "measured")
    chart.dots(places, means, "measured")
    for place, each in zip(places, found, strict=True):
        if each.is_surprise:
            tip = (
                f"Trial {each.trial}, target {reading.text(each.point)}\nforecast"
                f" {number(each.forecast[0])} to {number(each.forecast[1])}, came back {number(each.measured)}"
            )
            chart.mark(place, min(each.measured, ends[1]), "diamond", "surprise", tip)
    if axis:
        for start, stop, value in _limit_spans(reading, axis - 1):
            chart.line([start, stop], [value, value], "limit")
    return chart.svg()


def _ledger(reading: Reading, width: int) -> str:
    delta, spent = reading.problem.delta, reading.spent_after
    label = f"Risk charged after every trial: {number(reading.beliefs.spent, 2)} of {number(delta)} in the end."
    top = 1.18 * max([delta, *(value for _, value in spent)])
    chart = Chart(label, width=width, height=230, x=_ends(reading), y=(0, top), name=f"ledger-{width}")
    chart.annotate(_events(reading, named=True))
    chart.axes("trial", "risk charged so far", whole=True)
    xs = [x for at, _ in spent for x in (at - 0.5, at + 0.5)]
    ys = [value for _, value in spent for _ in range(2)]
    chart.band(xs, [0.0] * len(xs), ys, "spent")
    chart.line(xs, ys, "spent")
    chart.horizontal(delta, "limit", f"delta = {number(delta)}")
    return chart.svg()


def _ends(reading: Reading) -> tuple[float, float]:
    return 0.5, max(reading.history.trials, default=1) + 0.5


def _episode_dots(chart: Chart, trials: Sequence[Tried], axis: int) -> None:
    """Draw the single episodes, those of one stage as one shape, and those of all scouts."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for tried in trials:
        episodes, at = tried.episodes[:, axis], tried.number
        places = at + _SPREAD * (np.arange(len(episodes)) + 0.5) / len(episodes) - _SPREAD / 2
        for place, value, which in zip(places, episodes, tried.asked.tickets[: len(episodes)], strict=True):
            if chart.y_ends[0] <= value <= chart.y_ends[1]:
                xs, ys = found.setdefault("scout" if which else f"stage-{tried.asked.stage}", ([], []))
                xs.append(float(place))
                ys.append(float(value))
    for kind, (xs, ys) in found.items():
        chart.dots(xs, ys, f"episode {kind}")


def _mean_bars(chart: Chart, reading: Reading, trials: Sequence[Tried], axis: int) -> None:
    for stage in stages(reading):
        own = [each for each in trials if each.asked.stage == stage]
        means: Numbers = [float(each.episodes[:, axis].mean()) for each in own]
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


def _events(reading: Reading, *, named: bool) -> list[tuple[float, str, str]]:
    """Return what else happened among the trials: other limits, retractions, confirmations."""
    asked = [each.asked_number for each in reading.history.trials.values()]
    marks = [(place, f"limit {', '.join(map(number, limits))}", "change") for place, limits in reading.limit_changes]
    marks += [(float(each.number), "retracted", "change") for each in reading.retracted]
    marks += [(sum(n < at for n in asked) + 0.5, "confirmed", "change") for at, _ in reading.history.confirmed]
    low, high = _ends(reading)
    return [(x, text if named else "", kind) for x, text, kind in marks if low < x < high]
