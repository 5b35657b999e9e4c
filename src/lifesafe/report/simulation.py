"""The simulated system of a run, made again from its settings, so that the truth can stand beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from lifesafe._config import from_plain, nearest, read_toml, to_plain, toml_text
from lifesafe._files import write_atomic
from lifesafe._random import generator
from lifesafe.errors import ConfigError
from lifesafe.optimizer import Problem, Trial
from lifesafe.returns import Returns
from lifesafe.theory.simulators import FAMILIES, LIMIT, SimulatedMap

FILE = "simulation.toml"
_CALM = 0.6  # a seed costs at most this part of the limit, as the families draw it for their own limit


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Settings of a simulated system; equal settings give the same map and the same episodes."""

    family: str = "conservative"
    """Family of maps, see `lifesafe.theory.simulators`."""
    seed: int = 0
    """Seed of all random draws."""
    limit: float = LIMIT
    """Limit of the mean cost."""

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            hint = nearest(self.family, FAMILIES)
            raise ConfigError(f"Unknown family {self.family!r}.{hint} The families are {', '.join(FAMILIES)}.")
        if not 0 < self.limit < np.inf:
            raise ConfigError(f"The limit must be a positive number; got {self.limit}.")

    @cached_property
    def map(self) -> SimulatedMap:
        """The true map, under the limit of the simulation."""
        drawn = FAMILIES[self.family](generator(self.seed, "simulation", "map"))
        calm = float(drawn.cost.flat[drawn.seed]) <= _CALM * self.limit
        return replace(drawn, limit=self.limit, seed=drawn.seed if calm else int(drawn.cost.argmin()))

    def problem(self, delta: float) -> Problem:
        """Return the problem that the optimizer is given: it knows the targets, not what they return."""
        world = self.map
        return Problem(candidates=world.candidates, seeds=(world.seed,), limits=(self.limit,), delta=delta)

    def run(self, trial: Trial) -> list[Returns]:
        """Return the episodes of a trial: the same for the same number, so a resumed run goes on alike."""
        rng = generator(self.seed, "simulation", "episodes", trial.number)
        return [Returns(r, g) for r, g in self.map.draw(trial.index, trial.episodes, rng)]

    def write(self, run: Path) -> None:
        """Write the settings into the directory of a run, making it if it is missing."""
        run.mkdir(parents=True, exist_ok=True)
        write_atomic(run / FILE, toml_text(to_plain(self)))

    @classmethod
    def read(cls, run: Path) -> Simulation | None:
        """Return the simulation that a run was made with, or none if it was made with a real system."""
        path = run / FILE
        return from_plain(cls, read_toml(path), str(path)) if path.is_file() else None


@dataclass(frozen=True)
class Choice:
    """A target to operate and what it truly returns."""

    target: Returns
    returns: Returns
    """True means."""
    share: float
    """Its reward as a share of the best reachable reward."""
    is_safe: bool


def judge(world: SimulatedMap, index: int) -> Choice:
    """Return what a target truly returns."""
    reward, cost = float(world.reward.flat[index]), float(world.cost.flat[index])
    asked = world.candidates[index]
    return Choice(
        target=Returns(float(asked[0]), float(asked[1])),
        returns=Returns(reward, cost),
        share=reward / best_reachable(world),
        is_safe=cost <= world.limit,
    )


def plain_choice(world: SimulatedMap) -> int:
    """Return the target that users of a return-conditioned policy ask for: the most reward, at the limit."""
    asked = np.array([world.reward_axis[-1], world.limit])
    return int((((world.candidates - asked) / np.ptp(world.candidates, axis=0)) ** 2).sum(axis=1).argmin())


def best_reachable(world: SimulatedMap) -> float:
    """Return the largest true reward of the targets that can be reached from the seed."""
    return float(world.reward.reshape(-1)[world.is_reachable].max())
