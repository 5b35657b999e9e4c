"""Charts with one place per trial: costs against their limits, violations, reward, risk, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lifesafe.optimizer import Stage
from lifesafe.optimizer.calibration import BANDS, half_width
from lifesafe.report.history import Moment
from lifesafe.report.page.reading import Reading
from lifesafe.report.page.svg import HALF, NARROW, WIDE, Chart, Numbers, legend, padded
from lifesafe.report.page.wording import mean_text, number, percent, plural, target_text
from lifesafe.report.simulation import best_reachable

SHAPES = {Stage.SEED: "square", Stage.EXPLORE: "circle", Stage.MAXIMIZE: "triangle"}
DEVIATIONS = 2.0  # half length of the bars: a bar that ends above the limit shows a violation
_DOTS = 6000  # episodes up to which each is drawn
_SPREAD = 0.56  # of a place, over which the episodes of a trial are drawn, in their order
_TALL = 3.0  # limits up to which single episodes may stretch a chart
_MOST = (0.05, 0.95)  # quantiles of the rewards; single episodes may stretch a chart by their distance, at each end
_RETURNS = ("return-0", "return-1", "return-2", "return-3")


def both(draw: Callable[[int], str]) -> str:
    """Return a chart for wide and for narrow screens; the style sheet shows one of them."""
    return f'<div class="on-wide">{draw(WIDE)}</div><div class="on-narrow">{draw(NARROW)}</div>'


def trial_legend(reading: Reading, *extra: tuple[str, str, str]) -> str:
    """Return what the signs of trials mean, for the stages that occur."""
    tried = {m.result.trial.stage for m in reading.history.moments}
    items = [(SHAPES[s], f"stage-{s.value}", f"{s.value} stage") for s in SHAPES if s in tried]
    return legend([*items, *extra])


def cost_figure(reading: Reading, cost: int) -> tuple[str, list[str]]:
    """Return the chart of the cost of every trial against its limit, its legend, and what was left out."""
    moments, notes = reading.history.moments, []
    episodes = sum(len(m.result.episodes) for m in moments)
    top = _cost_top(reading, cost)
    cut = sum(int((m.result.episodes[:, 1 + cost] > top).sum()) for m in moments)
    if episodes > _DOTS:
        notes.append(_not_drawn(episodes))
    elif cut:
        notes.append(f"{plural(cut, 'episode')} above the top of the chart not drawn.")
    extra = [("dots", "episode", "one episode"), ("line", "limit", "limit")]
    if any(m.result.violated for m in moments):
        extra.append(("cross", "violation", "shows a violation"))
    if reading.truth is not None and cost == 0:
        extra.append(("dash", "truth", "true mean"))
    chart = both(lambda width: _costs(reading, cost, width, top, dots=episodes <= _DOTS))
    return chart + trial_legend(reading, *extra), notes


def violations_chart(reading: Reading, width: int) -> str:
    """Return the number of violations so far, after every trial."""
    moments = reading.history.moments
    shown = np.cumsum([m.result.violated for m in moments], dtype=np.int64)
    above = np.cumsum([_is_above(m) for m in moments], dtype=np.int64)
    label = (
        f"Cumulative number of violations: {reading.violations} of {plural(len(moments), 'trial')} show one; the mean"
        f" of {sum(map(_is_above, moments))} is above a limit."
    )
    top = max(2.0, 1.15 * float(max(shown.max(initial=0), above.max(initial=0))))
    ends = (0.5, max(len(moments), 1) + 0.5)
    chart = Chart(label, width=width, height=150, x=ends, y=(0, top), name=f"violations-{width}")
    chart.axes("trial", "violations", whole=True)
    _limit_changes(chart, reading, named=False)
    chart.line(*_stairs(above), "above")
    chart.line(*_stairs(shown), "violated")
    if reading.truth is not None:
        true = [reading.truth.cost.flat[m.result.trial.index] > m.limits[0] for m in moments]
        chart.line(*_stairs(np.cumsum(true)), "truth thin")
    return chart.svg()


def violations_legend(reading: Reading) -> str:
    """Return what the lines of the chart of violations mean."""
    items = [
        ("line", "violated", "trials that show a violation: mean above the limit by more than 2 sd"),
        ("line", "above", "trials with a mean above the limit, certain or not"),
    ]
    if reading.truth is not None:
        items.append(("line", "truth thin", "violations in truth"))
    return legend(items)


def reward_figure(reading: Reading) -> tuple[str, list[str]]:
    """Return the reward of every trial and of the best certified target so far, its legend, and what was left out."""
    extra = [("dots", "episode", "one episode"), ("line", "best", "best certified so far, mean of its episodes")]
    extra.append(("line", "lower", "its lower confidence bound, by the model from all trials"))
    if reading.truth is not None:
        extra.append(("line", "truth thin", "most that can be reached, in truth"))
    low, high = _reward_ends(reading)
    rewards = np.concatenate([m.result.episodes[:, 0] for m in reading.history.moments])
    cut = int(((rewards < low) | (rewards > high)).sum())
    notes = [f"{plural(cut, 'episode')} beyond the ends of the chart not drawn."] if cut else []
    if len(rewards) > _DOTS:
        notes = [_not_drawn(len(rewards))]
    chart = both(lambda width: _rewards(reading, width, (low, high), dots=len(rewards) <= _DOTS))
    return chart + trial_legend(reading, *extra), notes


def ledger_chart(reading: Reading) -> str:
    """Return the risk spent against delta."""
    moments, delta = reading.history.moments, reading.problem.delta
    ledger = reading.history.schedule.risk == "ledger"
    spent = [m.spent for m in moments]
    label = f"Risk spent after every trial: {number(reading.spent, 2)} of {number(delta)} in the end."
    top = 1.18 * max(delta, max(spent, default=0.0))
    chart = Chart(label, width=HALF, height=270, x=(0.5, max(len(moments), 1) + 0.5), y=(0, top), name="ledger")
    chart.axes("trial", "probability of a violation" if ledger else "sum of probabilities", whole=True)
    _limit_changes(chart, reading, named=False)
    if moments:
        steps, values = _stairs(spent)
        chart.band(steps, [0.0] * len(steps), values, "spent")
        chart.line(steps, values, "spent")
    else:
        chart.center("nothing is spent yet")
    chart.horizontal(delta, "limit", f"delta = {number(delta)}")
    return chart.svg()


def calibration_chart(reading: Reading) -> str:
    """Return how far every observation lies from its prediction by all others, and the bands that should hold it."""
    parts = reading.history.calibration.returns
    count = len(parts[0].residuals)
    held = "; ".join(f"{part.name}: {percent(part.coverage(0.95))} inside the 95 % band" for part in parts)
    held = f" {held}." if count > 1 else ""
    largest = max((float(np.abs(p.residuals).max(initial=0.0)) for p in parts), default=0.0)
    reach = max(3.0, 1.1 * min(largest, 8.0))
    chart = Chart(
        f"Standardized residual of {plural(count, 'observation')}.{held}",
        width=HALF, height=270, x=(0.5, max(count, 2) + 0.5), y=(-reach, reach), name="calibration", right=44,
    )  # fmt: skip
    chart.axes("observation", "standardized residual", whole=True)
    for band in reversed(BANDS):
        half = half_width(band)
        chart.band(chart.x_ends, [-half] * 2, [half] * 2, f"held held-{band * 100:.0f}")
        chart.note(chart.x_ends[1], half, f" {percent(band)}", "outside")
    chart.horizontal(0.0, "zero")
    kinds = observation_kinds(reading)
    for i, (part, kind, shape) in enumerate(
        zip(parts, _RETURNS, ("diamond", "circle", "triangle", "square"), strict=False)
    ):
        shift = (i - (len(parts) - 1) / 2) * 0.24
        for place, z in enumerate(part.residuals, start=1):
            tip = f"{kinds[place - 1]}: {part.name} {z:+.2f} sd from its prediction"
            shown = min(max(float(z), -0.98 * reach), 0.98 * reach)
            chart.mark(place + shift, shown, shape, f"small {kind}", tip)
    if not count:
        chart.center("no trial yet")
    return chart.svg()


def calibration_legend(reading: Reading) -> str:
    """Return what the signs of the calibration chart mean."""
    shapes = ("diamond", "circle", "triangle", "square")
    names = reading.problem.names
    return legend([(shape, f"small {kind}", name) for name, kind, shape in zip(names, _RETURNS, shapes, strict=False)])


def observation_kinds(reading: Reading) -> list[str]:
    """Return where each observation of the model comes from: a trial, or a batch of operation."""
    trials = iter(reading.history.moments)
    waiting = next(trials, None)
    kinds = []
    for observation in reading.state.posterior.observations:
        result = waiting.result if waiting is not None else None
        if result is not None and result.episodes is observation.episodes:
            kinds.append(f"trial {result.trial.number}")
            waiting = next(trials, None)
        else:
            kinds.append(f"{plural(len(observation.episodes), 'episode')} of operation")
    return kinds


def trial_tip(reading: Reading, moment: Moment) -> str:
    """Return a trial in a few lines, for the pointer."""
    result, names = moment.result, reading.problem.names
    reward = float(result.episodes[:, 0].mean())
    costs = zip(names[1:], moment.mean_costs, moment.noise_sds, moment.limits, strict=True)
    lines = [
        f"Trial {result.trial.number}, {result.trial.stage.value} stage",
        f"asked for {target_text(result.trial.target)}, {plural(len(result.episodes), 'episode')}",
        f"mean reward {number(reward)}",
    ]
    lines += [f"{mean_text(n, mean)} ± {number(DEVIATIONS * sd)} (limit {number(b)})" for n, mean, sd, b in costs]
    if result.violated:
        lines.append("shows a violation")
    return "\n".join(lines)


def _costs(reading: Reading, cost: int, width: int, top: float, *, dots: bool) -> str:
    moments, name = reading.history.moments, reading.problem.names[1 + cost]
    ends = (0.5, max((m.result.trial.number for m in moments), default=1) + 0.5)
    lowest = min((float(m.result.episodes[:, 1 + cost].min()) for m in moments), default=0.0)
    above = sum(m.mean_costs[cost] > m.limits[cost] for m in moments)
    chart = Chart(
        f"Mean {name} of {plural(len(moments), 'trial')} against the limit; {above} above it.",
        width=width, height=330 if width == WIDE else 280, x=ends, y=(min(0.0, 1.05 * lowest), top),
        name=f"cost-{cost}-{width}",
    )  # fmt: skip
    chart.axes("trial", f"{name} per episode", whole=True)
    _limit_changes(chart, reading)
    for moment in moments:
        result, stage = moment.result, f"stage-{moment.result.trial.stage.value}"
        costs, at = result.episodes[:, 1 + cost], result.trial.number
        if dots:
            chart.dots(_spread(at, len(costs)), np.minimum(costs, 2 * top), f"episode {stage}")
        mean, half = moment.mean_costs[cost], DEVIATIONS * moment.noise_sds[cost]
        chart.interval(at, max(mean - half, min(0.0, mean)), mean + half, stage)
        chart.mark(at, min(mean, top), SHAPES[result.trial.stage], stage, trial_tip(reading, moment))
        if result.violated and mean > moment.limits[cost]:
            chart.mark(at, min(mean, top), "cross", "violation")
        if reading.truth is not None and cost == 0:
            chart.mark(at, float(reading.truth.cost.flat[result.trial.index]), "dash", "truth")
    by_number = sorted(moments, key=lambda m: m.result.trial.number)  # a fleet tells trials in any order
    xs = [v for m in by_number for v in (m.result.trial.number - 0.5, m.result.trial.number + 0.5)]
    limits = [v for m in by_number for v in (m.limits[cost],) * 2]
    now = reading.problem.limits[cost]
    chart.line(xs or list(ends), limits or [now] * 2, "limit")
    if not moments:
        chart.center("no trial is told yet")
    return chart.svg()


def _cost_top(reading: Reading, cost: int) -> float:
    moments = reading.history.moments
    limit = max([reading.problem.limits[cost], *(m.limits[cost] for m in moments)])
    means = max((m.mean_costs[cost] + DEVIATIONS * m.noise_sds[cost] for m in moments), default=0.0)
    single = max((float(m.result.episodes[:, 1 + cost].max()) for m in moments), default=0.0)
    return 1.06 * max(limit, min(means, 10 * limit), min(single, _TALL * limit))


def _not_drawn(episodes: int) -> str:
    return f"The {episodes:,} single episodes are not drawn, only the mean of each trial."


def _reward_ends(reading: Reading) -> tuple[float, float]:
    """Return the ends of the chart of rewards: around all means and bars, and most of the single episodes."""
    moments = reading.history.moments
    rewards = np.concatenate([m.result.episodes[:, 0] for m in moments])
    low, high = (float(value) for value in np.quantile(rewards, _MOST))
    room = high - low
    values = [max(float(rewards.min()), low - room), min(float(rewards.max()), high + room)]
    for moment in moments:
        mean, error = _mean_reward(moment)
        values += [mean - error, mean + error]
        if moment.best is not None:
            values += [moment.best.means.reward, moment.best.reward_lower]
    if reading.truth is not None:
        values.append(best_reachable(reading.truth))
    return padded(values)


def _mean_reward(moment: Moment) -> tuple[float, float]:
    """Return the mean reward of a trial, and the half length of its bar."""
    rewards = moment.result.episodes[:, 0]
    return float(rewards.mean()), DEVIATIONS * _standard_error(rewards)


def _rewards(reading: Reading, width: int, ends: tuple[float, float], *, dots: bool) -> str:
    moments = reading.history.moments
    best = f" The best certified one earns {number(moments[-1].best.means.reward)}." if moments[-1].best else ""
    chart = Chart(
        f"Mean reward of {plural(len(moments), 'trial')}.{best}",
        width=width, height=270, x=(0.5, max(m.result.trial.number for m in moments) + 0.5), y=ends,
        name=f"reward-{width}",
    )  # fmt: skip
    chart.axes("trial", "reward per episode", whole=True)
    _limit_changes(chart, reading, named=False)
    for moment in moments:
        at, stage = moment.result.trial.number, f"stage-{moment.result.trial.stage.value}"
        mean, error = _mean_reward(moment)
        if dots:
            rewards = moment.result.episodes[:, 0]
            chart.dots(_spread(at, len(rewards)), rewards, f"episode {stage}")
        chart.interval(at, mean - error, mean + error, stage)
        chart.mark(at, mean, SHAPES[moment.result.trial.stage], stage, trial_tip(reading, moment))
    _best_lines(chart, moments)
    if reading.truth is not None:
        chart.horizontal(best_reachable(reading.truth), "truth thin")
    return chart.svg()


def _best_lines(chart: Chart, moments: tuple[Moment, ...]) -> None:
    """Draw the reward of the best target so far; it is interrupted where there is none."""
    for kind in ("lower", "best"):
        xs: list[float] = []
        ys: list[float] = []
        for place, moment in enumerate((*moments, None), start=1):
            best = moment.best if moment is not None else None
            if best is None:
                chart.line(xs, ys, kind)
                xs, ys = [], []
            else:
                value = best.means.reward if kind == "best" else best.reward_lower
                xs += [place - 0.5, place + 0.5]
                ys += [value, value]


def _limit_changes(chart: Chart, reading: Reading, *, named: bool = True) -> None:
    for place, limits in reading.limit_changes:
        if chart.x_ends[0] < place < chart.x_ends[1]:
            label = f"limit {', '.join(number(b) for b in limits)}"
            chart.vertical(place, "change", label if named else "")


def _is_above(moment: Moment) -> bool:
    return any(mean > limit for mean, limit in zip(moment.mean_costs, moment.limits, strict=True))


def _stairs(values: Numbers) -> tuple[list[float], list[float]]:
    """Return a line that holds each value over the whole place of its trial, from the first on."""
    xs = [x for i in range(1, len(values) + 1) for x in (i - 0.5, i + 0.5)]
    return xs, [float(value) for value in values for _ in range(2)]


def _spread(at: float, count: int) -> np.ndarray:
    return at + _SPREAD * (np.arange(count) + 0.5) / count - _SPREAD / 2


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
