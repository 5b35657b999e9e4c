"""Whether actions can be copied from the action before.

Behaviors whose noise lasts from step to step teach a policy that sees its own past to repeat its last action: in
the data that predicts well, on the real system nothing corrects it any more. Two numbers tell (both from a sample):

    share       of what the observation leaves open about the action, the previous action explains this share. A
                regression of a_t on features of s_t is compared, on held-out rows, with one that is also given a_{t-1}.
    roughness   correlation of successive second differences of e_t, what the first regression leaves over. It is
                -2/3 for white noise, -0.6 to -0.5 for noise that follows e_t = rho e_{t-1} + white with rho from
                0.3 to 1, and near 0 or above where actions are a smooth function of time.

The share alone would also blame what is harmless: behaviors that differ in their parameters, for the previous action
then tells which one acts. The second differences let nothing through but the quickest changes, which is the noise.
Measured: PPO's white noise on Hopper 0.01 and -0.71; simulated circling with one policy or a mixture, noise of
deviation 0.03 to 0.3: white -0.63 or less; rho = 0.5, 0.7, 0.9: share 0.21 to 0.30, 0.42 to 0.51, 0.72 to 0.77 at
deviation 0.3, roughness -0.56 to -0.48; no noise at all: share 0.94 to 0.98, roughness -0.02 to 0.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe._random import generator
from lifesafe.data.check.finding import Finding, found
from lifesafe.data.check.table import Columns

_SHARE = 0.4
_WHITE = -0.61
_SMOOTH = -0.1
_SAMPLE = 20_000
_FEATURES = 256
_FEWEST = 1_000


@dataclass(frozen=True)
class Copying:
    """How far actions can be copied from the action before; see the top of the module."""

    share: float
    roughness: float


def check_copying(table: Columns) -> Iterator[Finding]:
    """Look for noise that lasts from one action to the next."""
    copying = measure_copying(table)
    if copying is None or copying.share < _SHARE or copying.roughness < _WHITE:
        return
    numbers = f"the previous action explains {copying.share:.0%} of what the observation leaves open about an action"
    if copying.roughness > _SMOOTH:
        message = f"Actions change smoothly: {numbers}, and hardly any noise is on top."
        advice = (
            "Fine if behaviors differ in their parameters; if they share smoothed noise, or actions are held for"
            " several steps, a policy with a memory may learn to repeat itself. Compare one without."
        )
        yield found("note", "smooth-actions", message, advice)
    else:
        advice = (
            "A policy with a memory learns to repeat its last action. Log with white noise, or with noise on the"
            " parameters of the behavior; or train without past actions."
        )
        message = f"The noise in the actions lasts from step to step: {numbers}."
        yield found("warning", "copyable-actions", message, advice)


def measure_copying(table: Columns) -> Copying | None:
    """Return how far actions can be copied, or None if there are too few rows or nothing is left to explain."""
    rows = _sample(table)
    if len(rows) < _FEWEST:
        return None
    random = generator(0, "copying")
    features = _Features(table, rows, random)
    learn, judge = np.split(random.permutation(rows), [len(rows) // 2])
    actions = table.actions
    alone = _fit(features(learn), actions[learn])
    joint = _fit(np.hstack([features(learn), actions[learn - 1]]), actions[learn])
    left = [actions[judge - lag] - features(judge - lag) @ alone for lag in range(4)]
    open_after = actions[judge] - np.hstack([features(judge), actions[judge - 1]]) @ joint
    spread = np.square(actions[judge] - actions[judge].mean(axis=0)).sum()
    if np.square(left[0]).sum() < 1e-6 * spread or not spread:
        return None  # the observation tells the action, so there is nothing to copy
    quick, before = (left[lag] - 2 * left[lag + 1] + left[lag + 2] for lag in (0, 1))
    size = np.sqrt(np.square(quick).sum() * np.square(before).sum())
    return Copying(
        share=float(1 - np.square(open_after).sum() / np.square(left[0]).sum()),
        roughness=float((quick * before).sum() / size) if size else 1.0,
    )


def _sample(table: Columns) -> Int[np.ndarray, " m"]:
    """Return rows with at least three before them in the same episode."""
    ended = table.ended
    rows = np.flatnonzero(~(ended[:-3] | ended[1:-2] | ended[2:-1])) + 3
    rows = rows[rows < table.offsets[-1]]
    return rows if len(rows) <= _SAMPLE else generator(0, "copying", "rows").choice(rows, _SAMPLE, replace=False)


class _Features:
    """Random ramps of the standardized observation: enough for a linear fit to bend."""

    def __init__(self, table: Columns, rows: np.ndarray, random: np.random.Generator) -> None:
        self._observations = table.observations
        sample = table.observations[rows].astype(np.float64)
        sd = sample.std(axis=0)
        self._mean, self._scale = sample.mean(axis=0), np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 0.0)
        self._directions = random.normal(size=(len(sd), _FEATURES)) / np.sqrt(len(sd))
        self._corners = random.uniform(-2, 2, size=_FEATURES)

    def __call__(self, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m f"]:
        seen = np.clip((self._observations[rows] - self._mean) * self._scale, -5, 5)
        ramps = np.maximum(seen @ self._directions + self._corners, 0)
        return np.hstack([np.ones((len(rows), 1)), seen, ramps])


def _fit(inputs: Float[np.ndarray, "m f"], outputs: np.ndarray) -> Float[np.ndarray, "f a"]:
    gram = inputs.T @ inputs
    gram[np.diag_indices_from(gram)] += 1e-6 * np.trace(gram) / len(gram)
    solution: np.ndarray = np.linalg.solve(gram, inputs.T @ outputs.astype(np.float64))
    return solution
