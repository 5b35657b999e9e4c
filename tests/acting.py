"""Small real policies and environments for the tests of rollouts; importable in worker processes."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from lifesafe.returns import Returns
from lifesafe.systems import Task


@dataclass(frozen=True)
class Feedback:
    """A linear policy: what is seen, and what is still to be earned and spent, each with its weights.

    Every row is computed by itself, so the results do not depend on who else is in the batch.
    """

    observations: int
    actions: int
    costs: int = 1
    seed: int = 0

    def actor(self, targets: Sequence[Returns]) -> "FeedbackActor":
        return FeedbackActor(self, targets)


class FeedbackActor:
    """Carries what is still to be earned and spent in each row."""

    def __init__(self, policy: Feedback, targets: Sequence[Returns]) -> None:
        random = np.random.default_rng(policy.seed)
        self._seen = random.normal(size=(policy.actions, policy.observations))
        self._asked = random.normal(size=(policy.actions, 1 + policy.costs)) * 0.01
        self._left = np.array([tuple(target) for target in targets])

    def act(self, observations: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        left = self._left if rows is None else self._left[rows]
        return np.tanh(
            (observations[:, None, :].astype(np.float64) * self._seen).sum(-1)
            + (left[:, None, :] * self._asked).sum(-1)
        )

    def observe(self, rewards: np.ndarray, costs: np.ndarray, rows: np.ndarray | None = None) -> None:
        rows = np.arange(len(self._left)) if rows is None else rows
        self._left[rows] -= np.column_stack([rewards, costs])

    def restart(self, targets: Sequence[Returns], rows: np.ndarray) -> None:
        self._left[rows] = [tuple(target) for target in targets]


class Drift(gymnasium.Env):
    """A point that is blown about: it earns its way along x, pays for being beside or above, and may fall off."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode_seed, self.steps = seed, 0
        self.place = self.np_random.normal(size=2)
        return self.place.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert np.abs(action).max() <= 1
        before = self.place.copy()
        self.steps += 1
        self.place += 0.3 * action + 0.3 * self.np_random.normal(size=2)
        cost = [float(abs(self.place[1]) > 1), max(0.0, float(self.place[1]))]
        return self.place.copy(), float(self.place[0] - before[0]), bool(self.place[1] < -2), False, {"cost": cost}


@dataclass(frozen=True)
class Faulty:
    """Makes a Drift that fails at step 5 of the episode with one seed; only once, if it can leave a mark."""

    fault: str
    seed: int
    mark: str = ""

    def __call__(self) -> Drift:
        return _FaultyDrift(self)


class _FaultyDrift(Drift):
    def __init__(self, faulty: Faulty) -> None:
        self._faulty = faulty

    def step(self, action: np.ndarray) -> Any:
        due = self.episode_seed == self._faulty.seed and self.steps == 5
        if due and not (self._faulty.mark and Path(self._faulty.mark).exists()):
            if self._faulty.mark:
                Path(self._faulty.mark).touch()
            if self._faulty.fault == "raise":
                raise OSError("the gripper is stuck")
            if self._faulty.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            while self._faulty.fault == "hang":
                time.sleep(1)
        return super().step(action)


def drift_task(make: Any = Drift, **changes: Any) -> Task:
    settings = {"name": "Drift", "observations": 2, "actions": 2, "horizon": 30}
    limits = {"limits": (5.0, 10.0), "largest_costs": (1.0, 20.0)}
    return Task(**{"make": make, **settings, **limits, **changes})


def feedback(task: Task, seed: int = 0) -> Feedback:
    return Feedback(task.observations, task.actions, len(task.limits), seed)


def targets(count: int, costs: int = 2) -> list[Returns]:
    return [Returns(10.0 * i, [float(i)] * costs) for i in range(count)]
