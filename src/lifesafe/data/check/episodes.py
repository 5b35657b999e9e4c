"""Where episodes begin and end, and whether their rows follow one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int, UInt64

from lifesafe._random import generator
from lifesafe.data.check.finding import Finding, Severity, found
from lifesafe.data.check.table import Columns, blocks
from lifesafe.data.check.values import Spread

_SAME = 1e-3  # in standard deviations: two observations that close are the same but for rounding
_FEW = 0.05  # share of rows; so few breaks look like ends that nobody flagged
_FAR = 0.5  # in standard deviations: rows of one episode are usually nearer to each other


class TaskSizes(Protocol):
    """What is held against a task; `lifesafe.systems.Task` is one."""

    @property
    def name(self) -> str: ...
    @property
    def observations(self) -> int: ...
    @property
    def actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def limits(self) -> tuple[float, ...]: ...
    @property
    def largest_costs(self) -> tuple[float, ...]: ...


def check_sizes(table: Columns, task: TaskSizes) -> Iterator[Finding]:
    """Hold the sizes of a row against those of the task."""
    columns = {"observations": table.observations, "actions": table.actions, "costs": table.costs}
    wanted = {"observations": task.observations, "actions": task.actions, "costs": len(task.limits)}
    for name, array in columns.items():
        if array.shape[1] != wanted[name]:
            message = f"A row has {array.shape[1]} {name}, those of {task.name} have {wanted[name]}."
            advice = f"These are not data of {task.name}; `lifesafe tasks` lists the sizes of all tasks."
            yield found("error", "other-task", message, advice)


def check_ends(table: Columns, horizon: int | None) -> Iterator[Finding]:
    """Look at where episodes end."""
    lengths = np.diff(table.offsets)
    if not len(lengths):
        advice = "Set timeouts to 1 at the last step of each episode, or terminals if it ended by itself."
        yield found("error", "no-end", f"None of the {len(table)} rows ends an episode.", advice)
        return
    both = table.terminals & table.timeouts
    if both.any():
        message = f"{both.sum()} rows end an episode by itself and by its time limit at once."
        advice = "They count as ended by themselves; keep timeouts only, if the time limit was the reason."
        yield found("warning", "both-ends", message, advice, both)
    left = len(table) - int(table.offsets[-1])
    if left:
        message = f"The last {left} rows belong to an episode that does not end ({left / len(table):.1%} of all)."
        advice = "They are left out. If the episode was cut off there, set timeouts to 1 at the last row."
        yield replace(found("warning", "trailing", message, advice, left), rows=(int(table.offsets[-1]),))
    single = lengths == 1
    if single.any():
        message = f"{single.sum()} of {len(lengths)} episodes have one step only."
        advice = "Is the end flagged twice, or at the first step of an episode? It belongs to the last one."
        yield found("warning", "single-step", message, advice, single)
    longest = int(lengths.max())
    if horizon is not None and longest > horizon:
        longer = lengths > horizon
        message = f"{longer.sum()} of {len(lengths)} episodes exceed the horizon of {horizon} steps; the longest has"
        advice = "Some ends are not flagged, or the data are of another task."
        yield found("error", "horizon", f"{message} {longest}.", advice, longer)
    equal = float((lengths == longest).mean())
    if not table.timeouts.any() and len(lengths) > 1 and equal > 0.5 and not single.all():
        message = f"No episode was cut off, yet {equal:.0%} end by themselves after exactly {longest} steps."
        advice = "Store those ends as timeouts; as terminals they teach critics that the world ends there."
        yield found("warning", "time-limit", message, advice)


def check_next_observations(table: Columns) -> Iterator[Finding]:
    """Compare what was seen after each action with what the next row says was seen before it."""
    if table.next_observations is None or len(table) < 2:
        return
    sd = np.maximum(Spread.of(table.observations).sd, 1e-12)
    inside = ~table.ended[:-1]
    distance = _distances(table, sd)
    broken = inside & (distance > _SAME)
    if not broken.any():
        return
    share = float(broken.sum() / inside.sum())
    severity: Severity
    if _repeats(table, sd):
        severity, advice = "error", "next_observations repeat observations; store what was seen after the action."
    elif share <= _FEW:
        severity, advice = "warning", "Episodes seem to end there without a flag; set timeouts or terminals to 1."
    elif float(np.median(distance[broken])) > _FAR:
        severity, advice = "error", "The rows seem not to be in the order of time; store episodes one after another."
    else:
        severity, advice = "warning", "Was noise added to them, or were some rows left out?"
    message = f"In {broken.sum()} rows ({share:.1%}) the next observation is not that of the following row."
    yield found(severity, "next-observations", message, advice, broken)


def _distances(table: Columns, sd: Float[np.ndarray, " o"]) -> Float[np.ndarray, " pairs"]:
    """Return how far, in deviations, each next observation is from the following row's observation."""
    assert table.next_observations is not None
    distance = np.empty(len(table) - 1)
    for rows in blocks(len(distance)):
        following = table.observations[rows.start + 1 : rows.stop + 1]
        gap = table.next_observations[rows].astype(np.float64) - following
        distance[rows] = (np.abs(gap) / sd).max(axis=1)
    return distance


def _repeats(table: Columns, sd: Float[np.ndarray, " o"]) -> bool:
    """Tell whether next observations are those of their own row."""
    assert table.next_observations is not None
    sample = slice(0, 2**16)
    gap = table.next_observations[sample].astype(np.float64) - table.observations[sample]
    return bool(((np.abs(gap) / sd).max(axis=1) < _SAME).mean() > 0.9)


def check_duplicates(table: Columns) -> Iterator[Finding]:
    """Look for episodes that are there twice, step by step."""
    keys, lengths = _episode_keys(table), np.diff(table.offsets)
    order = np.lexsort((keys, lengths))
    same = (keys[order][1:] == keys[order][:-1]) & (lengths[order][1:] == lengths[order][:-1])
    again = np.zeros(len(keys), dtype=bool)
    again[np.maximum(order[1:], order[:-1])[same]] = True  # lexsort is stable, so the first one is kept
    if again.any():
        message = f"{again.sum()} of {len(keys)} episodes repeat an earlier one, step by step."
        advice = "Keep one of each: copies count more than once, and may end up on both sides of a split."
        yield found("warning", "duplicates", message, advice, again)


def _episode_keys(table: Columns) -> UInt64[np.ndarray, " e"]:
    """Return a number for each episode; equal observations and actions have equal numbers, others hardly ever."""
    random = generator(0, "duplicates")
    width = table.observations.shape[1] + table.actions.shape[1]
    weights = random.integers(1, 2**63, size=width, dtype=np.uint64) | np.uint64(1)
    starts: Int[np.ndarray, " e"] = table.offsets[:-1]
    steps = np.arange(table.offsets[-1]) - np.repeat(starts, np.diff(table.offsets))
    keys = np.empty(len(steps), dtype=np.uint64)
    for rows in blocks(len(steps)):
        row = np.concatenate([table.observations[rows], table.actions[rows]], axis=1).astype(np.float32)
        bits = np.ascontiguousarray(row).view(np.uint32).astype(np.uint64)
        mixed = (bits * weights).sum(axis=1, dtype=np.uint64)  # modulo 2^64
        mixed ^= mixed >> np.uint64(29)
        keys[rows] = mixed * (steps[rows].astype(np.uint64) * np.uint64(2) + np.uint64(1))
    summed: np.ndarray = np.add.reduceat(keys, starts)
    return summed
