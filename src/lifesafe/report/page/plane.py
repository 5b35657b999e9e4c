"""The safe set over the plane of targets, trial by trial: shapes for the slider, and small pictures for print.

What was known after a trial is drawn as one shape per kind of target, in a plane of 1000 by 1000 units with the cost
upwards. Large and small pictures, Python and the page's script use the same shapes and only scale them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from lifesafe.report.page.reading import Reading
from lifesafe.report.page.svg import NARROW, Chart, legend
from lifesafe.report.page.trial_charts import SHAPES, trial_tip
from lifesafe.report.page.wording import escaped, mean_text, number, plural, target_text
from lifesafe.report.shown import candidates_near, moments_shown
from lifesafe.report.words import outside_the_safe_set

KINDS = ("closed", "frontier", "safe")
SIDE = 1000
_CELLS = 64  # cells of an axis up to which it is drawn as it is
_SPARSE = 4  # cells per candidate above which candidates are put into coarser cells
_WIDTH, _HEIGHT = 680, 470


@dataclass(frozen=True, eq=False)
class View:
    """One way to look at the candidates: the plane of the reward and one cost."""

    cost: int
    title: str
    rows: Int[np.ndarray, " m"]
    """Candidates that are shown."""
    column: Int[np.ndarray, " m"]
    row: Int[np.ndarray, " m"]
    x_edges: Int[np.ndarray, " a"]
    """Borders of the cells, in units of the plane."""
    y_edges: Int[np.ndarray, " b"]
    x_ends: tuple[float, float]
    """Borders of the plane, raw units."""
    y_ends: tuple[float, float]
    coarse: bool
    """Whether a cell holds more than one candidate of the plane."""
    extra: bool = False
    """Whether it can be done without, in print."""

    def path(self, mask: Bool[np.ndarray, " n"]) -> str:
        """Return the cells that hold a candidate of a mask, as the data of an SVG path."""
        cells = np.zeros((len(self.y_edges) - 1, len(self.x_edges) - 1), dtype=bool)
        chosen = mask[self.rows]
        cells[self.row[chosen], self.column[chosen]] = True
        return "".join(_rectangles(cells, self.x_edges, self.y_edges))

    def holds(self, index: int) -> bool:
        """Return whether a candidate is shown."""
        return bool((self.rows == index).any())

    def place(self, point: Float[np.ndarray, " d"]) -> tuple[int, int]:
        """Return where a candidate lies, in units of the plane."""
        (left, right), (low, high) = self.x_ends, self.y_ends
        u, v = (point[0] - left) / (right - left), (point[1 + self.cost] - low) / (high - low)
        return round(SIDE * float(u)), round(SIDE * float(v))


def views(reading: Reading) -> list[View]:
    """Return the ways to look at the candidates: one plane, or two for each of several costs.

    Where little of a plane was ever touched, that part comes first; with one cost, all of it follows.
    """
    problem = reading.problem
    everything = np.arange(len(problem.candidates))
    if len(problem.limits) == 1:
        near = candidates_near(reading.history, 0)
        whole = _view(reading, 0, "all candidates", everything)
        if len(near) == len(everything):
            return [replace(whole, title="")]
        return [_view(reading, 0, "where targets were tried or considered", near), replace(whole, extra=True)]
    found = []
    for k, name in enumerate(problem.names[1:]):
        title = f"reward and {name}, any value of the other costs"
        found.append(_view(reading, k, title, candidates_near(reading.history, k)))
        rows = _slice(reading, k)
        if rows is not None:
            title = f"reward and {name}, other costs as of {target_text(problem.target(reading.focus or 0))}"
            found.append(replace(_view(reading, k, title, candidates_near(reading.history, k, rows)), extra=True))
    return found


def frames(reading: Reading, view: View) -> list[list[str | int]]:
    """Return the shapes of every moment, one per kind; 0 where a shape is as before."""
    told: list[list[str | int]] = []
    before: list[str] = [""] * len(KINDS)
    for moment in reading.history.moments:
        masks = (moment.closed, moment.frontier & ~moment.closed, moment.safe)
        now = [view.path(mask) for mask in masks]
        told.append([0 if a == b else a for a, b in zip(now, before, strict=True)])
        before = now
    return told


def page_data(reading: Reading, shown: list[View]) -> dict[str, object]:
    """Return what the slider needs, as plain values."""
    Z = reading.problem.candidates
    moments = reading.history.moments
    return {
        "views": [
            {
                "frames": frames(reading, view),
                "best": [view.place(Z[m.best.index]) if m.best and view.holds(m.best.index) else None for m in moments],
            }
            for view in shown
        ],
        "captions": [_caption(reading, i) for i in range(len(moments))],
    }


def plane_figure(reading: Reading, shown: list[View]) -> str:
    """Return the large pictures as they are at the end, one per view, with the small ones below."""
    blocks = []
    for number_, view in enumerate(shown):
        pictures = (
            f'<div class="on-wide">{_picture(reading, view, number_, _WIDTH, _HEIGHT)}</div>'
            f'<div class="on-narrow">{_picture(reading, view, number_, NARROW, 340)}</div>'
        )
        kind, hidden = "view extra" if view.extra else "view", "" if number_ == 0 else " hidden"
        title = f'<p class="view-title">{escaped(view.title[:1].upper() + view.title[1:])}</p>' if view.title else ""
        blocks.append(
            f'<div class="{kind}" data-view="{number_}"{hidden}>{title}{pictures}{_thumbs(reading, view)}</div>'
        )
    return "".join(blocks)


def plane_legend(reading: Reading) -> str:
    """Return what the colors and signs mean."""
    moments = reading.history.moments
    items = [("cell", "cell-safe", "safe set"), ("cell", "cell-frontier", "open frontier")]
    if any(m.closed.any() for m in moments):
        items.append(("cell", "cell-closed", "closed after a violation"))
    items.append(("cell", "cell-other", "other candidates"))
    stages = {m.result.trial.stage for m in moments}
    items += [(SHAPES[s], f"stage-{s.value}", f"tried, {s.value}") for s in SHAPES if s in stages]
    if any(m.result.violated for m in moments):
        items.append(("cross", "violation", "shows a violation"))
    items.append(("star", "star", "best certified"))
    if not moments:
        items = [("cell", "cell-other", "candidates"), ("square", "stage-seed", "seeds")]
    if reading.truth is not None:
        items.append(("line", "truth", "true boundary: mean cost = limit"))
    return legend(items)


def plane_notes(reading: Reading, shown: list[View]) -> list[str]:
    """Return what the reader must know of how it is drawn."""
    notes = []
    if any(view.coarse for view in shown):
        notes.append(
            f"The {len(reading.problem.candidates):,} candidates are drawn in coarser cells; a cell has the color of"
            " its most certain candidate: safe before frontier before closed."
        )
    if len(reading.problem.limits) > 1:
        if any(len(view.rows) < len(reading.problem.candidates) for view in shown):
            notes.append("Candidates that were never near the safe set or its frontier are left out.")
        notes.append(
            "With several costs a plane shows less than there is: where any value of the other costs counts, a cell is"
            " safe if some target in it is."
        )
    star = outside_the_safe_set(reading.history.moments)
    return [*notes, star] if star else notes


def _view(reading: Reading, cost: int, title: str, rows: Int[np.ndarray, " m"]) -> View:
    Z = reading.problem.candidates[rows][:, [0, 1 + cost]]
    x, column = np.unique(Z[:, 0], return_inverse=True)
    y, row = np.unique(Z[:, 1], return_inverse=True)
    sparse = len(x) * len(y) > _SPARSE * len(np.unique(column.astype(np.int64) * len(y) + row))
    x_cells, y_cells = _cells(Z[:, 0], x, sparse), _cells(Z[:, 1], y, sparse)
    return View(
        cost=cost,
        title=title,
        rows=rows,
        column=np.clip(np.searchsorted(x_cells, Z[:, 0], side="right") - 1, 0, len(x_cells) - 2),
        row=np.clip(np.searchsorted(y_cells, Z[:, 1], side="right") - 1, 0, len(y_cells) - 2),
        x_edges=_units(x_cells),
        y_edges=_units(y_cells),
        x_ends=(float(x_cells[0]), float(x_cells[-1])),
        y_ends=(float(y_cells[0]), float(y_cells[-1])),
        coarse=len(x_cells) - 1 < len(x) or len(y_cells) - 1 < len(y),
    )


def _cells(
    values: Float[np.ndarray, " n"], different: Float[np.ndarray, " a"], sparse: bool
) -> Float[np.ndarray, " b"]:
    """Return borders of cells around the values of an axis; of coarser ones where there are too many."""
    if len(different) < 2:
        return np.array([different[0] - 0.5, different[0] + 0.5])
    if sparse or len(different) > _CELLS:
        most = max(8, round(len(values) ** 0.5)) if sparse else _CELLS
        count = min(_CELLS, len(different), most)
        low, high = float(values.min()), float(values.max())
        half = 0.5 * (high - low) / max(count - 1, 1)
        return np.linspace(low - half, high + half, count + 1)
    between = (different[1:] + different[:-1]) / 2
    ends = (2 * different[0] - between[0], 2 * different[-1] - between[-1])
    return np.array([ends[0], *between, ends[1]])


def _units(edges: Float[np.ndarray, " a"]) -> Int[np.ndarray, " a"]:
    units: Int[np.ndarray, " a"] = np.rint(SIDE * (edges - edges[0]) / (edges[-1] - edges[0])).astype(np.int64)
    return units


def _slice(reading: Reading, cost: int) -> Int[np.ndarray, " m"] | None:
    """Return the candidates whose other costs are those of the target in focus; none if they make no plane."""
    if reading.focus is None:
        return None
    Z = reading.problem.candidates
    others = [1 + k for k in range(len(reading.problem.limits)) if k != cost]
    same = np.isclose(Z[:, others], Z[reading.focus, others]).all(axis=1)
    rows = np.flatnonzero(same)
    proper = len(rows) >= 4 and all(np.ptp(Z[rows, axis]) > 0 for axis in (0, 1 + cost))
    return rows if proper else None


def _rectangles(
    cells: Bool[np.ndarray, "h w"], x_edges: Int[np.ndarray, " a"], y_edges: Int[np.ndarray, " b"]
) -> Iterator[str]:
    """Cut a set of cells into rectangles: runs of a row, as long as the rows above repeat them."""
    running: dict[tuple[int, int], int] = {}
    for row in range(len(cells) + 1):
        runs = set(_runs(cells[row])) if row < len(cells) else set()
        for run in [run for run in running if run not in runs]:
            left, right = int(x_edges[run[0]]), int(x_edges[run[1]])
            low, high = int(y_edges[running.pop(run)]), int(y_edges[row])
            yield f"M{left} {low}H{right}V{high}H{left}z"
        for run in runs:
            running.setdefault(run, row)


def _runs(line: Bool[np.ndarray, " w"]) -> list[tuple[int, int]]:
    steps = np.diff(np.concatenate([[0], line.astype(np.int8), [0]]))
    return list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))


def _picture(reading: Reading, view: View, number_: int, width: int, height: int) -> str:
    moments, Z = reading.history.moments, reading.problem.candidates
    name = f"plane-{number_}-{width}"
    label = (
        f"Safe set over target reward and target {reading.problem.names[1 + view.cost]} after "
        f"{plural(len(moments), 'trial')}."
    )
    chart = Chart(label, width=width, height=height, x=view.x_ends, y=view.y_ends, name=name)
    chart.axes("target reward", f"target {reading.problem.names[1 + view.cost]}")
    across, up = (chart.right - chart.left) / SIDE, (chart.bottom - chart.top) / SIDE
    chart.raw(f'<g transform="translate({chart.left:.1f} {chart.bottom:.1f}) scale({across:.4f} {-up:.4f})">')
    chart.raw(_cells_markup(reading, view, len(moments) - 1))
    chart.raw("</g>")
    if not moments:
        for index in filter(view.holds, reading.problem.seeds):
            chart.mark(Z[index, 0], Z[index, 1 + view.cost], "square", "stage-seed", "a seed")
    for i, moment in enumerate(moments):
        trial = moment.result.trial
        if not view.holds(trial.index):
            continue
        x, y = Z[trial.index, 0], Z[trial.index, 1 + view.cost]
        at = f' data-at="{i}"'
        chart.mark(x, y, SHAPES[trial.stage], f"tried stage-{trial.stage.value}", trial_tip(reading, moment), at)
        if moment.result.violated:
            chart.mark(x, y, "cross", "violation", "", at)
    best = moments[-1].best if moments else None
    if moments:
        spot = best.index if best is not None and view.holds(best.index) else None
        x, y = (view.x_ends[0], view.y_ends[0]) if spot is None else Z[spot, [0, 1 + view.cost]]
        chart.mark(float(x), float(y), "star", "star off" if spot is None else "star", "best certified target")
    place = (
        f' data-left="{chart.left:.1f}" data-bottom="{chart.bottom:.1f}" data-across="{across:.5f}" data-up="{up:.5f}"'
    )
    return chart.svg("plane", place)


def _cells_markup(reading: Reading, view: View, last: int) -> str:
    everything = np.ones(len(reading.problem.candidates), dtype=bool)
    parts = [f'<path class="cell-other" d="{view.path(everything)}"/>']
    masks = dict.fromkeys(KINDS, ~everything)
    if last >= 0:
        moment = reading.history.moments[last]
        masks = {"closed": moment.closed, "frontier": moment.frontier & ~moment.closed, "safe": moment.safe}
    parts += [f'<path class="cell-{kind}" data-kind="{kind}" d="{view.path(masks[kind])}"/>' for kind in KINDS]
    if reading.truth is not None and view.cost == 0:
        parts.append(f'<path class="line truth boundary" d="{_boundary(reading, view)}"/>')
    return "".join(parts)


def _boundary(reading: Reading, view: View) -> str:
    """Return the line between the targets that truly are safe and the others, along the borders of the cells."""
    assert reading.truth is not None
    safe = np.zeros((len(view.y_edges) - 1, len(view.x_edges) - 1), dtype=bool)
    true = np.asarray(reading.truth.cost).reshape(-1) <= reading.problem.limits[0]
    chosen = true[view.rows]
    safe[view.row[chosen], view.column[chosen]] = True
    x, y = view.x_edges, view.y_edges
    across = np.argwhere(safe[1:] != safe[:-1])
    upright = np.argwhere(safe[:, 1:] != safe[:, :-1])
    d = [f"M{x[c]} {y[r + 1]}H{x[c + 1]}" for r, c in across]
    d += [f"M{x[c + 1]} {y[r]}V{y[r + 1]}" for r, c in upright]
    return "".join(d)


def _thumbs(reading: Reading, view: View) -> str:
    shown = moments_shown(len(reading.history.moments))
    return f'<div class="thumbs">{"".join(_thumb(reading, view, i) for i in shown)}</div>' if shown else ""


def _thumb(reading: Reading, view: View, last: int) -> str:
    moments, Z = reading.history.moments, reading.problem.candidates
    dots: dict[str, list[str]] = {}
    for moment in moments[: last + 1]:
        if not view.holds(moment.result.trial.index):
            continue
        u, v = view.place(Z[moment.result.trial.index])
        dots.setdefault(moment.result.trial.stage.value, []).append(f"M{u} {SIDE - v}h0")
    tried = "".join(f'<path class="dots stage-{stage}" d="{"".join(d)}"/>' for stage, d in dots.items())
    best = moments[last].best
    star = ""
    if best is not None and view.holds(best.index):
        u, v = view.place(Z[best.index])
        spot = f'd="M{u} {SIDE - v}h0"/>'
        star = f'<path class="dots star-edge" {spot}<path class="dots star-dot" {spot}'
    name = f"after trial {last + 1}"
    return (
        f'<button type="button" class="thumb" data-at="{last}" title="{name}"><svg viewBox="0 0 {SIDE} {SIDE}"'
        f' preserveAspectRatio="none" aria-hidden="true"><g transform="translate(0 {SIDE}) scale(1 -1)">'
        f"{_cells_markup(reading, view, last)}</g>{tried}{star}</svg><span>{name}</span></button>"
    )


def _caption(reading: Reading, at: int) -> str:
    moment = reading.history.moments[at]
    result, names = moment.result, reading.problem.names
    costs = zip(names[1:], moment.mean_costs, moment.limits, strict=True)
    told = ", ".join(f"{mean_text(name, mean)} (limit {number(b)})" for name, mean, b in costs)
    best = f"best {target_text(moment.best.target)}" if moment.best is not None else "none certified"
    risk = ""
    if reading.history.schedule.risk == "ledger":
        risk = f"; risk spent {number(moment.spent, 2)} of {number(reading.problem.delta)}"
    return (
        f"Trial {result.trial.number} ({result.trial.stage.value}) asked for {target_text(result.trial.target)}: {told}"
        f"{' – shows a violation' if result.violated else ''}. Safe set: {plural(int(moment.safe.sum()), 'target')};"
        f" {best}{risk}."
    )
