"""An environment that lifesafe does not know, with logs of its own: a belt that earns by its speed, and spills."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from lifesafe.data import Dataset
from lifesafe.data.recorder import Recorder

HORIZON = 40
ID = "own_machine:Belt-v0"


class Belt(gymnasium.Env):
    """A step earns 1 at rest and 2 at full speed; forwards it may spill, which costs 1."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        speed = float(np.clip(action[0], -1.0, 1.0))
        self.steps += 1
        spilled = self.np_random.random() < 0.5 * max(speed, 0.0)
        return self._seen(), 1.0 + speed, False, False, {"cost": float(spilled)}

    def _seen(self) -> np.ndarray:
        return np.array([self.steps / HORIZON, self.np_random.normal()], dtype=np.float32)


def spills(observation: Any, action: Any, next_observation: Any, info: dict[str, Any]) -> float:
    """Return the cost of a step, as a function of one's own."""
    return float(info["cost"])


def spills_and_drips(observation: Any, action: Any, next_observation: Any, info: dict[str, Any]) -> list[float]:
    """Return two costs of a step: what is spilled also drips, half as much."""
    return [info["cost"], info["cost"] / 2]


gymnasium.register("Belt-v0", entry_point="own_machine:Belt", max_episode_steps=HORIZON)


def logs(episodes: int = 120, seed: int = 0) -> Dataset:
    """Return episodes at all speeds."""
    rng, recorder = np.random.default_rng(seed), Recorder(gymnasium.make("Belt-v0", disable_env_checker=True))
    for number in range(episodes):
        speed, over = rng.uniform(-1, 1), False
        recorder.reset(seed=number)
        while not over:
            *_, over, _ = recorder.step(np.clip(rng.normal(speed, 0.1, 1), -1, 1).astype(np.float32))
    return recorder.dataset()
