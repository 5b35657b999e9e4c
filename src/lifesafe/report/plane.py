"""What is believed over the planes of targets: a large picture of one moment, and small ones of several.

The shapes of every moment stand once on the page. All pictures use them, and the script of the page only says which.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool
from markupsafe import Markup

from lifesafe.console.prompts import plural
from lifesafe.journal.events import Point
from lifesafe.report.moments import LIKELY, Moment, Plane, small_risk
from lifesafe.report.reading import Reading, scout_of
from lifesafe.report.svg import Chart, Sign
from lifesafe.report.trial_charts import SHAPES, stages
from lifesafe.report.wording import axis_text, listed, mean_text, number

SIZES = {"wide": (680, 470), "narrow": (400, 340)}
_KINDS = ("likely", "safe")  # in the order of drawing


def plane_shapes(reading: Reading, i: int) -> Markup:
    """Return, for every moment, the cells of a plane that likely keep all limits, and those that almost surely do."""
    plane, found = reading.planes[i], []
    for j, moment in enumerate(reading.moments):
        risks = moment.risks[i]
        for kind, most in zip(_KINDS, (LIKELY, small_risk(plane.problem)), strict=True):
            found.append(f'<path id="plane-{i}-{j}-{kind}" d="{_covered(plane, risks <= most)}"/>')
    return Markup("".join(found))


def plane_chart(reading: Reading, i: int, j: int, size: tuple[int, int]) -> Chart:
    """Return a plane as it was believed at a moment, with all targets that were tried; it uses the shapes."""
    plane, at = reading.planes[i], reading.moments
    across, upwards = (axis_text(plane.problem, axis) for axis in plane.axes)
    what = f"Risk that a mean cost exceeds its limit, over {across} and {upwards}. {plane_caption(reading, at[j])}"
    chart = Chart(what, size=size, x=plane.ends(0), y=plane.ends(1), name=f"plane-{i}-{j}-{size[0]}")
    chart.axes(across, upwards)
    w, h = chart.right - chart.left, chart.bottom - chart.top
    chart.raw(f'<g transform="translate({chart.left:.1f} {chart.bottom:.1f}) scale({w / 1000:.4f} {-h / 1000:.4f})">')
    chart.raw(f'<path class="cell-other" d="{_covered(plane)}"/>')
    for kind in _KINDS:
        chart.raw(f'<use class="cell-{kind}" data-kind="{kind}" href="#plane-{i}-{j}-{kind}"/>')
    chart.raw("</g>")
    _tried(chart, reading, plane, j, with_tips=size == SIZES["wide"])
    if not reading.history.told:
        for start in reading.problem.starts:
            chart.mark(*plane.place(start), "square", "stage-start", f"start {reading.text(start)}")
    for k, moment in enumerate(at):
        if moment.best is not None:
            off = "" if k == j else " off"
            chart.mark(*plane.place(moment.best), "star", f"star{off}", "target to operate", data=f'data-moment="{k}"')
    return chart


def _tried(chart: Chart, reading: Reading, plane: Plane, j: int, *, with_tips: bool) -> None:
    """Draw every target that was tried, once for each stage; those of a later moment are hidden."""
    drawn: set[tuple[Point, str]] = set()
    last = len(reading.moments) - 1
    for tried in reading.history.told:
        first = next((k for k, moment in enumerate(reading.moments) if moment.trial >= tried.number), last)
        for point, stage in ((scout_of(tried), "scout"), (tried.center, tried.asked.stage)):
            if point is None or (point, stage) in drawn:
                continue
            drawn.add((point, stage))
            kind = f"{'scout' if stage == 'scout' else f'stage-{stage}'} tried{' later' if first > j else ''}"
            tip = _tip(reading, point) if with_tips else ""
            chart.mark(*plane.place(point), SHAPES.get(stage, "small"), kind, tip, data=f'data-from="{first}"')


def _tip(reading: Reading, point: Point) -> str:
    """Return what is known of a target, for the pointer."""
    own = reading.beliefs.own.get(point)
    if own is None:
        return reading.text(point)
    means = listed(mean_text(*pair) for pair in zip(reading.names, own.means.tolist(), strict=True))
    return f"{reading.text(point)}\n{plural(own.episodes, 'episode')}: {means}"


def _covered(plane: Plane, mask: Bool[np.ndarray, " m"] | None = None) -> str:
    """Return some cells of a plane of 1000 by 1000, or some listed targets, as a path; all of them without a mask."""
    if plane.problem.listed is not None:
        chosen = plane.points if mask is None else plane.points[mask]
        return "".join(f"M{1000 * u - 14:.0f} {1000 * v - 14:.0f}h28v28h-28z" for u, v in chosen[:, list(plane.axes)])
    if mask is None:
        return "M0 0H1000V1000H0z"
    cells, found = plane.grid(mask), []
    (height, width), edges = cells.shape, np.diff(np.pad(cells.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    for (row, start), (_, stop) in zip(np.argwhere(edges == 1), np.argwhere(edges == -1), strict=True):
        left, right, low, high = (
            round(1000 * share) for share in (start / width, stop / width, row / height, (row + 1) / height)
        )
        found.append(f"M{left} {low}H{right}V{high}H{left}z")
    return "".join(found)


def thumb(reading: Reading, j: int) -> Markup:
    """Return a small picture of the first plane at a moment: what an SVG element of 1000 by 1000 contains."""
    plane, moment = reading.planes[0], reading.moments[j]
    told = [tried for tried in reading.history.told if tried.number <= moment.trial]
    parts = [f'<path class="cell-other" d="{_covered(plane)}"/>']
    parts += [f'<use class="cell-{kind}" href="#plane-0-{j}-{kind}"/>' for kind in _KINDS]
    for stage in stages(reading):
        own = dict.fromkeys(tried.center for tried in told if tried.asked.stage == stage)
        d = "".join(_dot(plane, point) for point in own)
        parts += [f'<path class="dots stage-{stage}" d="{d}"/>'] if d else []
    if moment.best is not None:
        parts += [f'<path class="dots {kind}" d="{_dot(plane, moment.best)}"/>' for kind in ("star-edge", "star-dot")]
    return Markup(f'<g transform="translate(0 1000) scale(1 -1)">{"".join(parts)}</g>')


def _dot(plane: Plane, point: Point) -> str:
    ends = (plane.ends(0), plane.ends(1))
    u, v = ((value - low) / (high - low) for value, (low, high) in zip(plane.place(point), ends, strict=True))
    return f"M{1000 * u:.0f} {1000 * v:.0f}h0"


def plane_caption(reading: Reading, moment: Moment) -> str:
    """Return what was known at a moment, in a sentence."""
    if not moment.trial:
        return "Before the first trial: what is believed before anything is tried."
    more = f", {moment.served:,} of operation" if moment is reading.moments[-1] and moment.served else ""
    told = f"After trial {moment.trial}, {plural(moment.searched, 'episode')} of search{more}: "
    told += f"target to operate {reading.text(moment.best)}" if moment.best is not None else "no target to operate"
    if reading.charges:
        told += f"; risk used {number(moment.spent, 2)} of {number(reading.problem.delta)}"
    elif reading.problem.promise == "total":
        told += f"; {plural(moment.certified, 'target')} certified"
    return f"{told}."


def plane_legend(reading: Reading) -> tuple[Sign, ...]:
    """Return what colors and signs of a plane mean."""
    signs = [
        Sign("cell", "cell-safe", f"risk at most {number(small_risk(reading.problem))}"),
        Sign("cell", "cell-likely", f"at most {number(LIKELY)}"),
        Sign("cell", "cell-other", "more, or not known yet"),
    ]
    signs += [Sign(SHAPES[stage], f"stage-{stage}", f"center, {stage}") for stage in stages(reading)]
    if not reading.history.trials:
        signs.append(Sign("square", "stage-start", "start"))
    if any(scout_of(tried) for tried in reading.history.told):
        signs.append(Sign("small", "scout", "scout"))
    return (*signs, Sign("star", "star", "target to operate"))


def plane_notes(reading: Reading) -> tuple[str, ...]:
    """Return what the reader must know of how it is drawn."""
    problem = reading.problem
    if all(problem.sure):
        note = "No episode can exceed a limit here, so every target is safe."
    elif problem.promise == "total":
        note = "Beliefs only propose here: what may be operated is certified by its own episodes."
    else:
        note = "A target is operated, and paid for, only once it was the center of a trial."
    if len(problem.names) == 2:
        return (note,)
    fixed = reading.text(reading.focus)
    return (note, f"A plane goes through the target {fixed}; all tried targets are shown, also those beside it.")
