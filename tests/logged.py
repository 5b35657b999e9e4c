"""Logged data for tests: points that are steered around a circle, with noise of any kind."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np


def circling(
    *,
    episodes: int = 100,
    steps: int = 50,
    noise: float = 0.3,
    memory: float = 0.0,
    mixture: float = 0.3,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return columns in the layout of DSRL that have nothing to complain about.

    Args:
        episodes: How many.
        steps: Length of each.
        noise: Deviation of the noise on the actions.
        memory: How much of the noise stays until the next step: 0 is white noise.
        mixture: How far the behaviors of the episodes differ.
        seed: Of everything random.
    """
    random = np.random.default_rng(seed)
    position, velocity = random.normal(size=(episodes, 2)) * 2, np.zeros((episodes, 2))
    disturbance = noise * random.normal(size=(episodes, 2))
    bend = random.normal(size=(4, 32)), random.normal(size=(32, 2)) / 6
    offset = mixture * random.normal(size=(episodes, 2))
    boldness = random.uniform(0.1, 1.0, size=episodes)
    rows = []
    for _ in range(steps):
        seen = np.hstack([position, velocity])
        turn = 0.5 * np.stack([-position[:, 1], position[:, 0]], axis=1)
        wish = np.tanh(turn - 0.3 * position - 0.4 * velocity + np.tanh(seen @ bend[0]) @ bend[1]) + offset
        fresh = noise * random.normal(size=disturbance.shape)
        disturbance = memory * disturbance + np.sqrt(1 - memory**2) * fresh
        action = np.clip(wish + disturbance, -1, 1)
        velocity = 0.95 * velocity + 0.1 * action
        position = position + 0.1 * velocity
        cost = random.uniform(size=episodes) < 0.4 * boldness
        rows.append(
            (seen, action, boldness + 0.1 * random.normal(size=episodes), cost, np.hstack([position, velocity]))
        )
    names = ("observations", "actions", "rewards", "costs", "next_observations")
    columns = {name: np.stack(parts, axis=1) for name, parts in zip(names, zip(*rows, strict=True), strict=True)}
    flat = {name: array.reshape(episodes * steps, *array.shape[2:]) for name, array in columns.items()}
    flat |= {"terminals": np.zeros(episodes * steps), "timeouts": np.tile(np.arange(steps) == steps - 1, episodes)}
    return {name: column.astype(np.float32) for name, column in flat.items()}


def hdf5(columns: Mapping[str, np.ndarray], **storage: Any) -> bytes:
    """Return columns as the content of an HDF5 file."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, column in columns.items():
            file.create_dataset(name, data=column, **storage)
    return buffer.getvalue()
