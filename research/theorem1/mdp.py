"""A multi-objective Markov decision process, small and with returns on a lattice, so that everything is a finite sum.

Notation:
    s, a, o     state, action, and outcome of an action: a reward per objective and a next state
    H           steps of an episode                                                             ()
    P           probability of an outcome                                                       (S, A, O)
    r           rewards of an outcome, in lattice steps                                         (S, A, O, m)
    u           lattice steps that make one unit of an objective                                (m,)

The first objective is the reward, the others are costs. In units, each lies in [0, 1] at every step, as the paper
assumes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lifesafe.errors import ConfigError
from lifesafe.lab.theory._checks import check_count
from theorem1.gap import Determinism


@dataclass(frozen=True, kw_only=True)
class LatticeMDP:
    """A finite MDP with a fixed start, whose actions have finitely many outcomes."""

    horizon: int
    """H."""
    units: tuple[int, ...]
    """u, one per objective."""
    probabilities: Float[np.ndarray, "S A O"]
    """P."""
    successors: Int[np.ndarray, "S A O"]
    """Next state of an outcome."""
    rewards: Int[np.ndarray, "S A O m"]
    """r."""
    start: int = 0
    """State at the first step."""

    def __post_init__(self) -> None:
        check_count("horizon", self.horizon)
        for unit in self.units:
            check_count("units", unit)
        states, actions, outcomes = self.probabilities.shape
        shape = (states, actions, outcomes)
        if self.successors.shape != shape or self.rewards.shape != (*shape, len(self.units)):
            raise ConfigError(
                f"Got probabilities of shape {shape}, successors {self.successors.shape} and rewards "
                f"{self.rewards.shape} for {len(self.units)} objectives; give (S, A, O), (S, A, O) and (S, A, O, m)."
            )
        if np.any(self.probabilities < 0) or not np.allclose(self.probabilities.sum(axis=2), 1.0, atol=1e-12):
            raise ConfigError("The outcomes of an action have probabilities that are not negative and add up to 1.")
        if np.any(self.successors < 0) or np.any(self.successors >= states) or not 0 <= self.start < states:
            raise ConfigError(f"Got a state outside 0, ..., {states - 1}; number the states from 0.")
        if np.any(self.rewards < 0) or np.any(self.rewards > np.array(self.units)):
            raise ConfigError(
                f"Got rewards from {self.rewards.min()} to {self.rewards.max()} lattice steps; each objective earns "
                f"between 0 and one unit in a step, which is {self.units} lattice steps."
            )

    @property
    def states(self) -> int:
        """Number of states, S."""
        return int(self.probabilities.shape[0])

    @property
    def actions(self) -> int:
        """Number of actions, A."""
        return int(self.probabilities.shape[1])

    @property
    def outcomes(self) -> int:
        """Number of outcomes of each action, O."""
        return int(self.probabilities.shape[2])

    @property
    def objectives(self) -> int:
        """Number of objectives, m."""
        return len(self.units)

    @property
    def box(self) -> tuple[int, ...]:
        """Number of values that each return can have: 0, 1, ..., H u."""
        return tuple(self.horizon * unit + 1 for unit in self.units)

    def determinism(self, delta: float = 0.0) -> Determinism:
        """Return the constants of Assumption 1 for a noise delta, in units.

        For each action the usual rewards are the outcome's that has the most probability within delta, and the usual
        next state is the likeliest. Probabilities take the place of densities.
        """
        distance = np.abs(self.rewards[:, :, :, None] - self.rewards[:, :, None]) / np.array(self.units)
        near = distance.max(axis=-1) <= delta + 1e-12  # (S, A, center, outcome)
        within = np.einsum("saco,sao->sac", near, self.probabilities).max(axis=2)
        moves = self.successors[..., None] == np.arange(self.states)  # (S, A, O, next)
        likeliest = np.einsum("saon,sao->san", moves, self.probabilities).max(axis=2)
        return Determinism(
            epsilon_reward=max(0.0, float(1.0 - within.min())),
            epsilon_state=max(0.0, float(1.0 - likeliest.min())),
            delta=delta,
        )
