"""What is believed over the planes of targets: a large picture of one moment, and small ones of several.

The shapes of every moment stand once on the page. All pictures use them, and the script of the page only says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float

from lifesafe.journal.events import Point
from lifesafe.report.planes import LIKELY, Moment, Plane, moments_shown, planes, small_risk
from lifesafe.report.reading import Reading, scout_of
from lifesafe.report.svg import NARROW, Chart, legend
from lifesafe.report.trial_charts import SHAPES, stages
from lifesafe.report.wording import axis_text, escaped, listed, mean_text, number, percent, plural

_WIDTH, _HEIGHT = 680, 470
_KINDS = ("likely", "safe")  # in the order of drawing


def plane_figure(reading: Reading) -> str:
    """Return the planes of targets with the beliefs of some moments, and their legend; nothing if there is no plane."""
    shown = planes(reading)
    if not shown:
        return ""
    at = moments_shown(reading) or (Moment(0, reading.beliefs),)
    blocks = "".join(_block(reading, plane, i, at) for i, plane in enumerate(shown))
    choice = ""
    if len(shown) > 1:
        options = "".join(
            f'<option value="{i}">{escaped(" and ".join(plane.names))}</option>' for i, plane in enumerate(shown)
        )
        choice = f'<label class="choice scripted">Plane <select id="plane-view">{options}</select></label>'
    caption = (
        f'<p id="moment-caption" class="moment-caption" aria-live="polite">{escaped(_caption(reading, at[-1]))}</p>'
    )
    return f"{choice}{caption}{blocks}{_thumbs(reading, shown, at)}{_legend(reading)}"


def plane_notes(reading: Reading) -> list[str]:
    """Return what the reader must know of how it is drawn."""
    problem, notes = reading.problem, []
    if all(problem.sure):
        notes.append("No episode can exceed a limit here, so every target is safe.")
    elif problem.promise == "total":
        notes.append("Beliefs only propose here: what may be operated is certified by its own episodes.")
    else:
        notes.append("A target is operated, and paid for, only once it was the center of a trial.")
    if len(problem.names) > 2:
        fixed = reading.text(reading.focus)
        notes.append(f"A plane goes through the target {fixed}; all tried targets are shown, also those beside it.")
    return notes


def _block(reading: Reading, plane: Plane, i: int, at: Sequence[Moment]) -> str:
    """Return one plane: its shapes at every moment, and the picture of the last one."""
    shapes = "".join(
        f'<path id="plane-{i}-{j}-{kind}" d="{d}"/>'
        for j, moment in enumerate(at)
        for kind, d in zip(_KINDS, _shapes(plane, moment), strict=True)
    )
    title = f'<p class="view-title">{escaped(" and ".join(plane.names))}</p>' if len(plane.problem.names) > 2 else ""
    return (
        f'<div class="view" data-view="{i}"{" hidden" if i else ""}><svg class="shapes" width="0" height="0"'
        f' aria-hidden="true"><defs>{shapes}</defs></svg>{title}'
        f'<div class="on-wide">{_picture(reading, plane, i, at, _WIDTH, _HEIGHT)}</div>'
        f'<div class="on-narrow">{_picture(reading, plane, i, at, NARROW, 340)}</div></div>'
    )


def _picture(reading: Reading, plane: Plane, i: int, at: Sequence[Moment], width: int, height: int) -> str:
    across, upwards = (axis_text(plane.problem, axis) for axis in plane.axes)
    what = f"Risk that a mean cost exceeds its limit, over {across} and {upwards}"
    chart = Chart(
        f"{what}. {_caption(reading, at[-1])}",
        width=width, height=height, x=plane.ends(0), y=plane.ends(1), name=f"plane-{i}-{width}",
    )  # fmt: skip
    chart.axes(across, upwards)
    w, h = chart.right - chart.left, chart.bottom - chart.top
    chart.raw(f'<g transform="translate({chart.left:.1f} {chart.bottom:.1f}) scale({w / 1000:.4f} {-h / 1000:.4f})">')
    chart.raw(f'<path class="cell-other" d="{_all(plane)}"/>')
    for kind in _KINDS:
        chart.raw(f'<use class="cell-{kind}" data-kind="{kind}" href="#plane-{i}-{len(at) - 1}-{kind}"/>')
    chart.raw("</g>")
    _tried(chart, reading, plane, at, with_tips=width == _WIDTH)
    if not reading.history.told:
        for start in reading.problem.starts:
            chart.mark(*plane.place(start), "square", "stage-start", f"start {reading.text(start)}")
    for j, moment in enumerate(at):
        best = _best(reading, moment)
        if best is not None:
            off = "" if j == len(at) - 1 else " off"
            chart.mark(*plane.place(best), "star", f"star{off}", "target to operate", data=f'data-moment="{j}"')
    return chart.svg("plane")


def _tried(chart: Chart, reading: Reading, plane: Plane, at: Sequence[Moment], *, with_tips: bool) -> None:
    """Draw every target that was tried, once for each stage; the script hides it before its first trial there."""
    drawn: set[tuple[Point, str]] = set()
    for tried in reading.history.told:
        first = next((j for j, moment in enumerate(at) if moment.trial >= tried.number), len(at) - 1)
        for point, stage in ((scout_of(tried), "scout"), (tried.center, tried.asked.stage)):
            if point is None or (point, stage) in drawn:
                continue
            drawn.add((point, stage))
            kind = "scout tried" if stage == "scout" else f"stage-{stage} tried"
            tip = _tip(reading, point) if with_tips else ""
            chart.mark(*plane.place(point), SHAPES.get(stage, "small"), kind, tip, data=f'data-from="{first}"')


def _tip(reading: Reading, point: Point) -> str:
    """Return what is known of a target, for the pointer."""
    own = reading.beliefs.own.get(point)
    if own is None:
        return reading.text(point)
    means = zip(reading.names, own.means.tolist(), strict=True)
    told = listed(mean_text(name, mean) for name, mean in means)
    return f"{reading.text(point)}\n{plural(own.episodes, 'episode')}: {told}"


def _all(plane: Plane) -> str:
    """Return all cells, or all listed targets, as a path."""
    if plane.problem.listed is None:
        return "M0 0H1000V1000H0z"
    return _squares(plane.points[:, plane.axes[0]], plane.points[:, plane.axes[1]])


def _shapes(plane: Plane, moment: Moment) -> tuple[str, str]:
    """Return the cells that likely keep all limits, and those that almost surely do, as paths."""
    found = plane.risks(moment.beliefs)
    masks = (found <= LIKELY, found <= small_risk(plane.problem))
    if plane.problem.listed is not None:
        u, v = plane.points[:, plane.axes[0]], plane.points[:, plane.axes[1]]
        first, second = (_squares(u[mask], v[mask]) for mask in masks)
    else:
        first, second = ("".join(_rectangles(plane.grid(mask))) for mask in masks)
    return first, second


def _squares(us: Float[np.ndarray, " m"], vs: Float[np.ndarray, " m"], half: int = 14) -> str:
    size = 2 * half
    return "".join(
        f"M{1000 * u - half:.0f} {1000 * v - half:.0f}h{size}v{size}h-{size}z" for u, v in zip(us, vs, strict=True)
    )


def _rectangles(cells: Bool[np.ndarray, "h w"]) -> Iterator[str]:
    """Cut a set of cells into rectangles of a plane of 1000 by 1000: runs of a row, as far as rows above repeat it."""
    height, width = cells.shape
    running: dict[tuple[int, int], int] = {}
    for row in range(height + 1):
        runs = set(_runs(cells[row])) if row < height else set()
        for run in [run for run in running if run not in runs]:
            left, right = (round(1000 * end / width) for end in run)
            low, high = round(1000 * running.pop(run) / height), round(1000 * row / height)
            yield f"M{left} {low}H{right}V{high}H{left}z"
        for run in sorted(runs):
            running.setdefault(run, row)


def _runs(line: Bool[np.ndarray, " w"]) -> list[tuple[int, int]]:
    steps = np.diff(np.concatenate([[0], line.astype(np.int8), [0]]))
    return list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))


def _thumbs(reading: Reading, shown: Sequence[Plane], at: Sequence[Moment]) -> str:
    """Return small pictures of the first plane; the script of the page shows their moment in the large one."""
    if len(at) < 2:
        return ""
    return f'<div class="thumbs">{"".join(_thumb(reading, shown[0], j, at) for j in range(len(at)))}</div>'


def _thumb(reading: Reading, plane: Plane, j: int, at: Sequence[Moment]) -> str:
    moment, dots = at[j], ""
    told = [tried for tried in reading.history.told if tried.number <= moment.trial]
    for stage in stages(reading):
        own = dict.fromkeys(tried.center for tried in told if tried.asked.stage == stage)
        d = "".join(_dot(plane, point) for point in own)
        dots += f'<path class="dots stage-{stage}" d="{d}"/>' if d else ""
    best = _best(reading, moment)
    if best is not None:
        spot = f'd="{_dot(plane, best)}"/>'
        dots += f'<path class="dots star-edge" {spot}<path class="dots star-dot" {spot}'
    uses = "".join(f'<use class="cell-{kind}" href="#plane-0-{j}-{kind}"/>' for kind in _KINDS)
    current = "true" if j == len(at) - 1 else "false"
    return (
        f'<button type="button" class="thumb" data-at="{j}" data-caption="{escaped(_caption(reading, moment))}"'
        f' aria-current="{current}"><svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">'
        f'<g transform="translate(0 1000) scale(1 -1)"><path class="cell-other" d="{_all(plane)}"/>{uses}{dots}'
        f"</g></svg><span>{escaped(moment.name)}</span></button>"
    )


def _dot(plane: Plane, point: Point) -> str:
    u, v = (
        (value - plane.ends(k)[0]) / (plane.ends(k)[1] - plane.ends(k)[0]) for k, value in enumerate(plane.place(point))
    )
    return f"M{1000 * u:.0f} {1000 * v:.0f}h0"


def _best(reading: Reading, moment: Moment) -> Point | None:
    """Return the target to operate at a moment; in the end, that of now."""
    if moment.beliefs is reading.beliefs:
        return None if reading.chosen is None else reading.chosen.point
    best = reading.best_after.get(moment.trial)
    return None if best is None else best.point


def _caption(reading: Reading, moment: Moment) -> str:
    if not moment.trial:
        return "Before the first trial: what is believed before anything is tried."
    problem, best = reading.problem, _best(reading, moment)
    done = sum(tried.was_told for tried in reading.history.told if tried.number <= moment.trial)
    served = reading.history.served if moment.beliefs is reading.beliefs else 0
    more = f", {served:,} of operation" if served else ""
    told = f"After trial {moment.trial}, {plural(done, 'episode')} of search{more}: "
    told += f"target to operate {reading.text(best)}" if best is not None else "no target to operate"
    if problem.promise == "trial" and not all(problem.sure):
        spent = dict(reading.spent_after).get(moment.trial, 0.0)
        told += f"; risk charged {number(spent, 2)} of {number(problem.delta)}"
    elif problem.promise == "total":
        told += f"; {plural(len(moment.beliefs.certified), 'target')} certified"
    return f"{told}."


def _legend(reading: Reading) -> str:
    small = number(small_risk(reading.problem))
    items = [
        ("cell", "cell-safe", f"risk at most {small}"),
        ("cell", "cell-likely", f"at most {percent(LIKELY)}"),
        ("cell", "cell-other", "more, or unknown"),
    ]
    items += [(SHAPES[stage], f"stage-{stage}", f"center, {stage}") for stage in stages(reading)]
    if not reading.history.trials:
        items.append(("square", "stage-start", "start"))
    if any(scout_of(tried) for tried in reading.history.told):
        items.append(("small", "scout", "scout"))
    return legend([*items, ("star", "star", "target to operate")])
