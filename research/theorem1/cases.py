"""Small problems on which Theorem 1 is looked at: one where it is at home, and some that break an assumption each.

All but one are of the same machine. It is cool or hot; at every step it rests, works or rushes, which earns nothing,
half a unit or a unit, and costs wear: on a cool machine half a unit for rushing, on a hot one twice that, and half a
unit for working too. Resting cools it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from lifesafe._config import nearest
from lifesafe.errors import ConfigError
from theorem1.behavior import LoggedEpisodes, log_episodes
from theorem1.mdp import LatticeMDP
from theorem1.rcsl import SoftmaxClass, blind, paced, tabular

_REWARDS = np.array([[[0, 0], [1, 0], [2, 1]], [[0, 0], [1, 1], [2, 2]]])  # cool, hot: rest, work, rush
_SUCCESSORS = np.array([[0, 1, 1], [0, 1, 1]])
_BEHAVIOR = np.array([[0.4, 0.35, 0.25], [0.3, 0.4, 0.3]])


@dataclass(frozen=True, kw_only=True)
class Case:
    """A system with its logged episodes and a class of policies to fit."""

    name: str
    says: str
    """What holds and what does not, in a line."""
    logged: LoggedEpisodes
    policies: SoftmaxClass
    delta: float = 0.0
    """Noise of a step that the bound is told to tolerate, in units."""


def machine(horizon: int, *, slip: float = 0.0) -> LatticeMDP:
    """Return the machine.

    Args:
        horizon: Steps of an episode.
        slip: Probability that it ends a step in the other state.
    """
    return LatticeMDP(
        horizon=horizon,
        units=(2, 2),
        probabilities=np.tile([1.0 - slip, slip], (2, 3, 1)) if slip else np.ones((2, 3, 1)),
        successors=np.stack([_SUCCESSORS, 1 - _SUCCESSORS], axis=2) if slip else _SUCCESSORS[:, :, None],
        rewards=np.repeat(_REWARDS[:, :, None], 2 if slip else 1, axis=2),
    )


def noisy_machine(horizon: int) -> LatticeMDP:
    """Return the machine with a reward that is, half of the time, a sixth of a unit more or less than usual."""
    usual = _REWARDS * np.array([2, 1]) + np.array([1, 0])  # the reward is 1, 3 or 5 sixths
    shift = np.array([[-1, 0], [0, 0], [1, 0]])
    return LatticeMDP(
        horizon=horizon,
        units=(6, 2),
        probabilities=np.tile([0.25, 0.5, 0.25], (2, 3, 1)),
        successors=np.repeat(_SUCCESSORS[:, :, None], 3, axis=2),
        rewards=usual[:, :, None] + shift,
    )


def lever(chance: float) -> tuple[LatticeMDP, Float[np.ndarray, "1 1 2"]]:
    """Return a single choice, and a behavior that seldom makes the one that earns and costs a unit each."""
    mdp = LatticeMDP(
        horizon=1,
        units=(1, 1),
        probabilities=np.ones((1, 2, 1)),
        successors=np.zeros((1, 2, 1), dtype=np.int64),
        rewards=np.array([[[[0, 0]], [[1, 1]]]]),
    )
    return mdp, np.array([[[1.0 - chance, chance]]])


def _logged(mdp: LatticeMDP) -> LoggedEpisodes:
    return log_episodes(mdp, np.tile(_BEHAVIOR, (mdp.horizon, 1, 1)))


def _exact() -> Case:
    logged = _logged(machine(4))
    return Case(
        name="exact",
        says="no chance, and a class that holds the behavior given z: every assumption",
        logged=logged,
        policies=tabular(logged, penalty=1e-4),
    )


def _soft() -> Case:
    # Below 100 parameters: BLAS solves larger systems in threads, which takes a hundred times longer on a busy machine.
    logged = _logged(machine(3))
    return Case(
        name="soft",
        says="no chance, and a class that comes near: no finite logit excludes an action",
        logged=logged,
        policies=tabular(logged, penalty=1e-4, masked=False),
    )


def _stochastic() -> Case:
    logged = _logged(machine(4, slip=0.1))
    return Case(
        name="stochastic",
        says="not nearly deterministic: one step in ten ends in the other state",
        logged=logged,
        policies=tabular(logged, penalty=1e-5),
    )


def _noisy() -> Case:
    logged = _logged(noisy_machine(3))
    return Case(
        name="noisy",
        says="rewards vary by delta = 1/6 around the usual ones",
        logged=logged,
        policies=tabular(logged, penalty=1e-4),
        delta=1.0 / 6.0,
    )


def _unrealizable() -> Case:
    logged = _logged(machine(4))
    return Case(
        name="unrealizable",
        says="a class of 8 features that does not hold the behavior given z",
        logged=logged,
        policies=paced(logged.graph, penalty=1e-4),
    )


def _rare() -> Case:
    logged = log_episodes(*lever(0.01))
    return Case(
        name="rare",
        says="one choice, a target that 1 episode in 100 returns, and a class that does not look at targets",
        logged=logged,
        policies=blind(logged.graph, penalty=1e-6),
    )


CASES: dict[str, Callable[[], Case]] = {
    "exact": _exact,
    "soft": _soft,
    "stochastic": _stochastic,
    "noisy": _noisy,
    "unrealizable": _unrealizable,
    "rare": _rare,
}


def make_case(name: str) -> Case:
    """Return a case by its name.

    Raises:
        ConfigError: If there is none of that name.
    """
    if name not in CASES:
        raise ConfigError(f"Unknown case {name!r}.{nearest(name, CASES)} The cases are {', '.join(CASES)}.")
    return CASES[name]()
